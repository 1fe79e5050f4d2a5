package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellsOfOneCommand(t *testing.T) {
	for line, want := range map[string]bool{
		"sh -c x": true, "/bin/bash -lc x": true, "bash -o pipefail -c x": true, "bash --norc -ec x": true, "zsh -c x": true, "dash -e -c x": true,
		"sh": false, "-bash": false, "bash -i": false, "bash script -c": false, "bash -o pipefail script": false, "bash -- -c": false,
		"python -c x": false, "claude -c": false, "bash +o history -c x": true, "bash --rcfile -c": true,
	} {
		require.Equal(t, want, forOneCommand(strings.Fields(line)), line)
	}
	_, is := runsOneCommand(os.Getpid())
	require.False(t, is)
	_, is = runsOneCommand(-1)
	require.False(t, is)
	require.False(t, forOneCommand([]string{""}))
}
