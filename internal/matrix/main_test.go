package matrix_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"gated/internal/agent"
	"gated/internal/daemon"
)

// scratchDir is for what all cases share: keys and the programs under test.
var scratchDir string

func TestMain(m *testing.M) {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	if what := os.Getenv(helperEnv); what != "" {
		os.Exit(helper(context.Background(), what))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gated-matrix-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratchDir = dir
	if err := makeProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
