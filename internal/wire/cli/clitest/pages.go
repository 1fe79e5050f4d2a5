package clitest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"gated/internal/test/must"
)

// wrappers are programs that run the rest of their line.
var wrappers = []string{"sudo", "runuser", "env", "exec", "eval", "time", "timeout", "nohup", "!"}

// anything stands for a word that the shell computes. It is a name, a path, an id and a number.
const anything = "1"

// Pages fails the test unless every line of a program in the blocks of the pages below root is one that the program
// understands: its command and its flags exist, and it has as many arguments as it may have. fresh returns the program's
// commands; each line gets its own. It returns how many lines it tried.
func Pages(t *testing.T, root string, fresh func() *cobra.Command) (lines int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "dist" || d.Name() == "testdata") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md" {
			return nil
		}
		for _, block := range blocks(string(must.Get(os.ReadFile(path))(t))) {
			lines += Lines(t, path, block, fresh)
		}
		return nil
	}))
	return lines
}

// Lines fails the test unless the program understands each of its lines in a text of a shell, which is at path. It
// returns how many lines it tried.
func Lines(t *testing.T, path, text string, fresh func() *cobra.Command) (lines int) {
	t.Helper()
	program := fresh().Name()
	for _, words := range calls(text, program) {
		// A synopsis of the reference, or what a program prints.
		if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsAny(w, "[]…") }) {
			continue
		}
		lines++
		if err := understands(fresh(), words); err != nil {
			t.Errorf("%s: %s %s: %v", path, program, strings.Join(words, " "), err)
		}
	}
	return lines
}

// blocks returns the indented blocks of a page, without the indentation.
func blocks(page string) (out []string) {
	var now []string
	for line := range strings.SplitSeq(page+"\n.", "\n") {
		if text, ok := strings.CutPrefix(line, "    "); ok {
			now = append(now, text)
		} else if len(now) > 0 && strings.TrimSpace(line) != "" {
			out, now = append(out, strings.Join(now, "\n")), nil
		}
	}
	return out
}

// calls returns the arguments of each call of a program in lines of a shell. Lines that are none have no calls.
func calls(block, program string) (out [][]string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(block), "")
	if err != nil {
		if !strings.Contains(block, "\n") {
			return nil
		}
		for line := range strings.SplitSeq(block, "\n") { // what a program prints stands between
			line = strings.TrimPrefix(line, "$ ")
			if first, _, _ := strings.Cut(line, " "); first == program || slices.Contains(wrappers, first) {
				out = append(out, calls(line, program)...)
			}
		}
		return out
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		words := make([]string, len(call.Args))
		for i, w := range call.Args {
			words[i] = literal(w)
		}
		at := slices.Index(words, program)
		if dashes := slices.Index(words, "--"); at > 0 && dashes > at && dashes+1 < len(words) { // runuser -u gated -- gated
			at = dashes + 1
		}
		if at == 0 || at > 0 && words[at] == program && slices.Contains(wrappers, words[0]) {
			out = append(out, words[at+1:])
		}
		return true
	})
	return out
}

// literal is the text of a word of a shell, with anything in the place of what the shell computes.
func literal(w *syntax.Word) string {
	var out strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				out.WriteString(p.Value)
			case *syntax.SglQuoted:
				out.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			default:
				out.WriteString(anything)
			}
		}
	}
	add(w.Parts)
	return out.String()
}

// understands says what a program does not understand of its arguments.
func understands(root *cobra.Command, words []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if help := c.Flags().Changed("help") || c.Flags().Changed("version"); help || len(words) == 0 {
		return nil
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return err
	}
	return c.ValidateFlagGroups()
}
