package local

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	MaybeExecGuest()
	os.Exit(m.Run())
}
