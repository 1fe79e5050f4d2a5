package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

var (
	pathOfDocs  = regexp.MustCompile(`docs/[a-z-]+/[a-z-]+\.md`)
	namedInDocs = regexp.MustCompile(`gated docs ([a-z/-]+)`)
)

// An installed host has no docs directory: messages and the file that init writes name pages that the program prints.
func TestMessagesNamePagesThatTheProgramHas(t *testing.T) {
	all := must.Get(pages())(t)
	require.Greater(t, len(all), 30)
	named := 0
	check := func(where, text string) {
		require.NotRegexp(t, pathOfDocs, text, "%s: say gated docs PAGE", where)
		for _, m := range namedInDocs.FindAllStringSubmatch(text, -1) {
			named++
			var out bytes.Buffer
			tl := testTool()
			tl.Stdout = &out
			require.NoError(t, tl.printPage(all, m[1]), "%s: %s", where, text)
			require.NotEmpty(t, out.String())
		}
	}
	for _, dir := range []string{"..", "../../internal", "../../client"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "test":
				return filepath.SkipDir
			case strings.HasSuffix(path, ".tmpl"):
				check(path, string(must.Get(os.ReadFile(path))(t)))
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				for _, text := range texts(must.Get(os.ReadFile(path))(t)) {
					check(path, text)
				}
			}
			return nil
		}))
	}
	require.GreaterOrEqual(t, named, 5)
}

// texts are the texts in quotes of a Go file.
func texts(source []byte) (out []string) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, 0)
	for {
		switch _, what, text := s.Scan(); what {
		case token.EOF:
			return out
		case token.STRING:
			out = append(out, text)
		}
	}
}
