package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"gated/internal/agent"
	"gated/internal/cli"
)

// tool is one run of the command line.
type tool struct {
	cli.Tool
	stdin io.Reader
}

// run runs a command line and returns its exit code.
func (t *tool) run(ctx context.Context, args []string) int { return t.Run(ctx, t.root(), args) }

// command returns a command with the words of its path.
func (t *tool) command(path string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return t.Command(cli.Words(help[path]), args, run)
}

// readToken reads the file of GATED_AGENT_TOKEN_FILE. One that cannot be read is
// a usage error, as any file that a command line names.
func readToken(path string) (string, error) {
	token, err := agent.ReadTokenFile(path)
	return token, unlessRefused(err)
}
