package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
)

// tool is one run of the command line.
type tool struct {
	cli.Tool
	stdin *os.File
	now   func() time.Time

	settling time.Duration // how long a new screen of review takes no key
	unasked  bool          // it signs, and nobody is asked: --yes
	said     []string      // by sayOnce
}

// newTool returns the tool of this process.
func newTool() *tool {
	return &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}, stdin: os.Stdin, now: time.Now,
		settling: settling}
}

// run runs a command line and returns its exit code.
func (t *tool) run(ctx context.Context, args []string) int { return t.Run(ctx, t.root(), args) }

// sayOnce says something beside the answer, unless it was said in this run. A
// text that is empty says nothing.
func (t *tool) sayOnce(text string) {
	if text != "" && !slices.Contains(t.said, text) {
		t.said = append(t.said, text)
		t.Say("%s", text)
	}
}

// command returns a command with the words of its path.
func (t *tool) command(path string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return t.Command(cli.Words(help[path]), args, run)
}
