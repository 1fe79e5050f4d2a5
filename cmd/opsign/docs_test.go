package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"gated/internal/wire/cli"
	"gated/internal/wire/cli/clitest"
)

func testTool() *tool {
	shared := cli.Tool{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	return &tool{Tool: shared, stdin: os.Stdin, now: time.Now}
}

func TestEveryCommandHasItsWords(t *testing.T) {
	clitest.Words(t, testTool().root(), "opsign")
}

func TestReferenceHasEveryCommandAndFlag(t *testing.T) {
	clitest.Reference(t, testTool().root(), "../../docs/reference/opsign.md")
}

// No line of a page is a usage error.
func TestLinesOfPages(t *testing.T) {
	lines := clitest.Pages(t, "../..", func() *cobra.Command { return testTool().root() })
	require.Greater(t, lines, 80)
}
