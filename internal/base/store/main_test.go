package store

import (
	"fmt"
	"os"
	"testing"

	"gated/internal/test/faults"
)

// TestMain is another program behind a filter first, where a test wants its
// system calls to fail.
func TestMain(m *testing.M) {
	faults.MaybeLaunch()
	code := m.Run()
	if err := wrongly.Load(); err != nil {
		fmt.Fprintln(os.Stderr, "a Memory was not as true as the rows:", *err)
		code = 1
	}
	os.Exit(code)
}
