//go:build !linux

package story

import (
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// replayed counts the stories, because the daemon whose log would be replayed runs on Linux alone.
var replayed atomic.Int64

func replay(testscript.T, string) { replayed.Add(1) }
