package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheWorseExitCode(t *testing.T) {
	require.Equal(t, 1, worseExit(3, 1))
	require.Equal(t, 1, worseExit(1, 3))
	require.Equal(t, 3, worseExit(0, 3))
	require.Equal(t, 3, worseExit(3, 0))
}
