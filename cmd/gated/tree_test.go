package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/wire/cli"
)

// The tree for a command line has the command that the line begins with, under the name of
// the list. Any other line gets all commands.
func TestCommandsOfALine(t *testing.T) {
	all := testTool().all()
	for _, c := range all {
		made := testTool().commands([]string{c.name, "--help"})
		require.Len(t, made, 1, c.name)
		require.Equal(t, c.name, made[0].Name())
		require.Empty(t, made[0].Aliases, "an alias would not find its command")
	}
	for _, args := range [][]string{nil, {"help", "hook"}, {"--json", "status"}, {"__complete", "ho"}, {"completion"}, {"wrong"}, {""}} {
		require.Len(t, testTool().commands(args), len(all), args)
	}
}

// The short way to the version answers as the tree does.
func TestVersion(t *testing.T) {
	short, tree := new(bytes.Buffer), new(bytes.Buffer)
	tool := testTool()
	tool.Stdout = short
	require.Zero(t, tool.version())
	tool = testTool()
	tool.Stdout = tree
	require.Zero(t, tool.run(t.Context(), []string{"--version"}))
	require.Equal(t, tree.String(), short.String())
	require.Regexp(t, `^gated version .+\n$`, short.String())
}

// Who types a command of the other program is told so: the list of these has each command that people type.
func TestTheListOfPrograms(t *testing.T) {
	var typed []string
	for _, c := range testTool().root().Commands() {
		if !c.Hidden {
			typed = append(typed, c.Name())
		}
	}
	require.ElementsMatch(t, cli.Programs["gated"], typed)
}
