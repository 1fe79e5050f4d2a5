package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
)

// wideFrom is how many files of its scope a pattern may match before it is
// worth a warning.
const wideFrom = 10

// scopeFlag adds --scope.
func scopeFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "scope", "",
		"the `DIR` that patterns are relative to (default the git top level around the working directory)")
	_ = c.MarkFlagDirname("scope") // the flag was just added
}

// place returns the directory that --scope names, else the git top level around
// the working directory. An empty --scope, as of a variable that is not set, is
// a usage error: it is not the wish for another directory.
func place(c *cobra.Command, scope string) (api.Place, error) {
	find, dir := checkout.Top, "."
	if c.Flags().Changed("scope") {
		find, dir = checkout.At, scope
	}
	if dir == "" {
		return api.Place{}, cli.Usage("--scope is empty: name the directory, or leave the flag away")
	}
	p, err := find(dir)
	return p, unlessRefused(err)
}

// unlessRefused makes a usage error of one of the file system.
func unlessRefused(err error) error {
	var refused *refusal.Refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return cli.Usage(err.Error())
}

// patterns are those of a command line, as the gate is asked for them.
type patterns struct {
	in    api.Place
	sent  []string
	globs []glob.Pattern
}

// patterns reads the arguments of a command. What the gate would refuse is
// refused here, in its words.
func (t *tool) patterns(in api.Place, args []string) (patterns, error) {
	out := patterns{in: in}
	relative := false
	for _, arg := range args {
		sent, err := checkout.Pattern(in, arg)
		if err != nil {
			return patterns{}, unlessRefused(err)
		}
		parsed, err := glob.Parse(sent, glob.Options{Scope: in.Path, FoldCase: in.Fold})
		if err != nil {
			return patterns{}, err
		}
		if absolute := strings.HasPrefix(arg, "/"); !absolute && sent != arg {
			t.Say("%s leads to %s\n", cli.Inline(arg), cli.Inline(sent))
		} else if !absolute {
			relative = true
		}
		out.sent, out.globs = append(out.sent, sent), append(out.globs, parsed)
	}
	if here, err := checkout.At("."); relative && (err != nil || here.Path != in.Path) {
		t.Say("patterns are relative to %s\n", cli.Inline(in.Path))
	}
	return out, nil
}

// warnings says which of the patterns match many files, and which name a
// directory and so nothing in it, on standard error and in what it returns.
func (t *tool) warnings(p patterns) []string {
	out := []string{}
	root, err := os.OpenRoot(p.in.Path)
	if err != nil {
		return t.warned(out, notCounted(p.in.Path, err))
	}
	defer func() { _ = root.Close() }() // nothing was written
	for i, g := range p.globs {
		if name, plain := plainPath(g); plain {
			if info, err := root.Lstat(name); err == nil && info.IsDir() {
				out = t.warned(out, holdsNothingBelow(p.sent[i]))
			}
			continue // it is one file at most
		}
		n, more, err := glob.Count(checkout.Files(root), g, glob.MaxVisited)
		switch {
		case err != nil:
			return t.warned(out, notCounted(p.in.Path, err))
		case n > wideFrom || more:
			out = t.warned(out, matchesMany(p.sent[i], n, more))
		}
	}
	return out
}

// plainPath returns the one path that a pattern is, false if it may be several.
// Where case does not matter, it is one of its spellings.
func plainPath(g glob.Pattern) (string, bool) {
	text := g.String()
	if strings.HasSuffix(text, "/") {
		return "", false
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '*', '?', '[', '{':
			return "", false
		case '\\':
			i++ // the next one stands for itself
		}
	}
	return g.Literal(), true
}

func (t *tool) warned(list []string, text string) []string {
	t.Say(wordsWarning, text)
	return append(list, text)
}

// matchesMany warns of a pattern that matches n files, or more where not all of
// them were counted.
func matchesMany(pattern string, n int, more bool) string {
	switch {
	case !more:
		return fmt.Sprintf("%s matches %s", cli.Inline(pattern), count(n, "file"))
	case n >= glob.MaxVisited:
		return fmt.Sprintf("%s matches more than 20,000 files", cli.Inline(pattern))
	default:
		return fmt.Sprintf("%s matches %s, and may match more: no more than 20,000 entries were looked at, in "+
			"directories that can be read",
			cli.Inline(pattern), count(n, "file"))
	}
}

// holdsNothingBelow warns of a pattern that names a directory.
func holdsNothingBelow(pattern string) string {
	return fmt.Sprintf("%s is a directory: this reserves nothing below it; write %s", cli.Inline(pattern),
		cli.Inline(pattern+"/"))
}

func notCounted(dir string, err error) string {
	return fmt.Sprintf("the files of %s cannot be counted: %s", cli.Inline(dir), cli.Inline(err.Error()))
}
