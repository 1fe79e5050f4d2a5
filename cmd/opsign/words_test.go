package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelpFitsATerminal(t *testing.T) {
	for name, w := range help {
		for line := range strings.Lines(w.Long + "\n" + w.Example + "\n" + wordsReviewHelp) {
			require.LessOrEqual(t, len([]rune(line)), 121, "%s: %s", name, line)
		}
	}
}
