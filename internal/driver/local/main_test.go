package local

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	MaybeExecGuest()
	if len(os.Args) > 2 && os.Args[1] == escapeArg {
		os.Exit(escape(os.Args[2]))
	}
	maybeCrowd()
	os.Exit(m.Run())
}
