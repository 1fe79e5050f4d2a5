package main

import (
	"io"
	"os"
	"testing"
	"time"

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
