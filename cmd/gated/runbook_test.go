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

// Guides with such blocks are what their stories run: the blocks of the page and the scripts of the story are the same,
// byte for byte.
func TestGuidesAreWhatTheirStoriesRun(t *testing.T) {
	for _, c := range []struct {
		guide, story string
		blocks       int
	}{{"runbook.md", "runbook.txtar", 7}, {"client.md", "client-guide.txtar", 4}} {
		page := must.Get(os.ReadFile("../../docs/guides/" + c.guide))(t)
		written := map[string]string{}
		for _, m := range runbookBlock.FindAllStringSubmatch(string(page), -1) {
			written[m[1]] = strings.ReplaceAll("\n"+m[2], "\n    ", "\n")[1:]
		}
		require.Len(t, written, c.blocks, c.guide)
		story := must.Get(txtar.ParseFile("testdata/script/" + c.story))(t)
		run := map[string]string{}
		for _, f := range story.Files {
			if strings.HasSuffix(f.Name, ".sh") {
				run[f.Name] = string(f.Data)
			}
		}
		require.Equal(t, written, run, c.guide)
		for name := range run {
			require.Contains(t, string(story.Comment), "\nexec sh -e "+name+"\n")
		}
	}
}
