// Package clitest is for tests alone: it holds the commands of a tool against
// their words and against the tool's page in docs/reference, and lines of all pages
// against the commands.
package clitest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// flagName finds a flag at the start of its line of a help text.
var flagName = regexp.MustCompile(`(?m)^ *(?:-\w, )?(--[a-z-]+)`)

// eachCommand calls fn for every command of ours.
func eachCommand(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, fn)
	}
}

// maxColumns is how long a line of a help text may be.
const maxColumns = 120

// Words fails the test unless every command of the tree says what it is in lines
// that fit a terminal, every line of its examples starts with one of the
// programs, and every flag says what it does.
func Words(t *testing.T, root *cobra.Command, programs ...string) {
	t.Helper()
	example := `^  +(` + strings.Join(programs, "|") + `|--)`
	eachCommand(root, func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Long+"\n"+c.Example, "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s: %s", c.CommandPath(), line)
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Use, c.CommandPath())
		for _, line := range strings.Split(c.Example, "\n") {
			require.Regexp(t, example, line, c.CommandPath())
		}
		for line := range strings.Lines(c.LocalFlags().FlagUsages()) {
			require.Regexp(t, `^ *(-\w, )?--[a-z-]+( \S+)?   *\S`, line, c.CommandPath())
		}
	})
}

// Reference fails the test unless the page in that file has a section for every
// command, with its flags and an example, and one more for what they share.
func Reference(t *testing.T, root *cobra.Command, file string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	commands, flags := 0, 0
	eachCommand(root, func(c *cobra.Command) {
		if c == root {
			return
		}
		commands++
		body, ok := sections[c.CommandPath()]
		require.True(t, ok, "no section %q", c.CommandPath())
		for _, m := range flagName.FindAllStringSubmatch(c.LocalNonPersistentFlags().FlagUsages(), -1) {
			require.Contains(t, body, m[1], c.CommandPath())
			flags++
		}
		if !c.HasSubCommands() {
			require.Contains(t, body, "\n    "+c.CommandPath(), "%s has no example", c.CommandPath())
		}
	})
	require.Greater(t, flags, 20)
	require.Len(t, sections, commands+1, "a section without a command")
}
