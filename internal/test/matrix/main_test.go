package matrix_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"gated/internal/agents/agent"
	"gated/internal/host/daemon"
	"gated/internal/test/forker"
)

// scratchDir is for what all cases share: keys and the programs under test.
var scratchDir string

func TestMain(m *testing.M) {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	forker.MaybeFork()
	if len(os.Args) > 1 && os.Args[1] == escapeArg {
		os.Exit(attackGate(os.Args[2:]))
	}
	if what := os.Getenv(helperEnv); what != "" {
		os.Exit(helper(context.Background(), what))
	}
	os.Exit(forker.Run(func() int { return run(m) }))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gated-matrix-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratchDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // a guest's own uid runs the programs in it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := makeProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
