package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"gated/internal/cli"
)

// flagName finds a flag at the start of its line of a help text.
var flagName = regexp.MustCompile(`(?m)^ *(?:-\w, )?(--[a-z-]+)`)

func testTool() *tool {
	return &tool{Tool: cli.Tool{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}, stdin: os.Stdin, now: time.Now}
}

// eachCommand calls fn for every command of ours.
func eachCommand(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, fn)
	}
}

func TestEveryCommandHasItsWords(t *testing.T) {
	seen := 0
	eachCommand(testTool().root(), func(c *cobra.Command) {
		seen++
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Use, c.CommandPath())
		for _, line := range strings.Split(c.Example, "\n") {
			require.Regexp(t, `^  +(opsign|--)`, line, c.CommandPath())
		}
		for line := range strings.Lines(c.LocalFlags().FlagUsages()) {
			require.Regexp(t, `^ *(-\w, )?--[a-z-]+( \S+)?   *\S`, line, c.CommandPath())
		}
	})
	require.Equal(t, len(help), seen, "words without a command, or the reverse")
}

func TestReferenceHasEveryCommandAndFlag(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/opsign.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	root := testTool().root()
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
