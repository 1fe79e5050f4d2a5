package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gated/internal/agent"
)

// bin holds the programs, built once.
var bin string

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
	out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "gated/cmd/gated", "gated/cmd/opsign").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
