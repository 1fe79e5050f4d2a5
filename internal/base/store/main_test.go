package store

import (
	"os"
	"testing"

	"gated/internal/test/faults"
)

// TestMain is another program behind a filter first, where a test wants its
// system calls to fail.
func TestMain(m *testing.M) {
	faults.MaybeLaunch()
	os.Exit(m.Run())
}
