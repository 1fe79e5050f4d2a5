package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gated/internal/agents/agent"
	"gated/internal/test/programs"
)

// bin holds the programs, built once, and in taggedDir gated with crash points.
var bin string

const taggedDir = "tagged"

func TestMain(m *testing.M) {
	agent.MaybeOrphan()
	if len(os.Args) == 8 && os.Args[1] == workerArg {
		if err := work(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("/tmp", "gc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	for sub, args := range map[string][]string{"": {"gated/cmd/gated", "gated/cmd/opsign"}, taggedDir: {"-tags", "crashpoints", "gated/cmd/gated"}} {
		to := filepath.Join(dir, sub) + string(filepath.Separator)
		if err := programs.Build(to, args...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
