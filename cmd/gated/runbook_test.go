package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// runbookBlock is a block of commands that begins with the name of a script.
var runbookBlock = regexp.MustCompile(`(?m)^    # ([a-z-]+\.sh)\n((?:    .*\n)+)`)

// TestTheRunbookIsWhatItsStoryRuns: the blocks of the page and the scripts of the
// story that runs them are the same, byte for byte.
func TestTheRunbookIsWhatItsStoryRuns(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/guides/runbook.md"))(t)
	written := map[string]string{}
	for _, m := range runbookBlock.FindAllStringSubmatch(string(page), -1) {
		written[m[1]] = strings.ReplaceAll("\n"+m[2], "\n    ", "\n")[1:]
	}
	require.Len(t, written, 7)
	story := must.Get(txtar.ParseFile("testdata/script/runbook.txtar"))(t)
	run := map[string]string{}
	for _, f := range story.Files {
		if strings.HasSuffix(f.Name, ".sh") {
			run[f.Name] = string(f.Data)
		}
	}
	require.Equal(t, written, run)
	for name := range run {
		require.Contains(t, string(story.Comment), "\nexec sh -e "+name+"\n")
	}
}
