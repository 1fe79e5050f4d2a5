package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/wire/cli"
)

// Who types a command of the other program is told so: the list of these has each command that people type.
func TestTheListOfPrograms(t *testing.T) {
	var typed []string
	for _, c := range testTool().root().Commands() {
		if !c.Hidden {
			typed = append(typed, c.Name())
		}
	}
	require.ElementsMatch(t, cli.Programs["opsign"], typed)
}
