package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/cli"
	"gated/internal/desired"
	"gated/internal/op"
)

// maxDocument is the largest desired-state document that a daemon takes, in
// bytes (protocol section 4).
const maxDocument = 16 << 20

// document is a desired-state document that was found well formed.
type document struct {
	path string
	set  string // the name of its set
	body []byte
	desired.Document
}

// documents reads what -f names: a file, every .yaml and .yml file of a
// directory, or "-" for standard input. All of them are checked here first, so
// that what is wrong is shown with its file, line and column, and so that a
// directory is taken whole or not at all.
func (t *tool) documents(from, set string) ([]document, error) {
	paths, err := documentPaths(from)
	if err != nil {
		return nil, err
	}
	if set != "" && len(paths) > 1 {
		return nil, cli.Usage(wordsSetOfMany)
	}
	out := make([]document, 0, len(paths))
	for _, p := range paths {
		d := document{path: p, set: set}
		if d.set == "" {
			base := filepath.Base(p)
			d.set = strings.TrimSuffix(base, filepath.Ext(base))
		}
		if d.body, err = t.readDocument(p); err != nil {
			return nil, err
		}
		if d.Document, err = desired.Parse(p, d.body); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// asked is the set as which a plan is asked for: none where no set can have the
// name of the file, as with standard input.
func (d document) asked() string {
	if op.CheckName(d.set) != nil {
		return ""
	}
	return d.set
}

func documentPaths(from string) ([]string, error) {
	if from == "-" {
		return []string{from}, nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, cli.Usage(err.Error())
	}
	if !info.IsDir() {
		return []string{from}, nil
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, cli.Usage(err.Error())
	}
	var out []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml") {
			out = append(out, filepath.Join(from, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, cli.Usage(wordsEmptyDir)
	}
	slices.Sort(out)
	return out, nil
}

func (t *tool) readDocument(path string) ([]byte, error) {
	if path == "-" {
		return cli.Read(t.stdin, path, maxDocument)
	}
	return cli.ReadFile(path, maxDocument)
}
