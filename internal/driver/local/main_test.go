package local

import (
	"os"
	"testing"

	"gated/internal/test/forker"
)

func TestMain(m *testing.M) {
	MaybeExecGuest()
	forker.MaybeFork()
	maybeListen()
	if len(os.Args) > 2 && os.Args[1] == escapeArg {
		os.Exit(escape(os.Args[2]))
	}
	maybeCrowd()
	os.Exit(forker.Run(m.Run))
}
