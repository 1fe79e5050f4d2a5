package main

import (
	"testing"

	"gated/internal/daemon"
	"gated/internal/story"
)

func TestMain(m *testing.M) {
	daemon.MaybeExecGuest() // the test binary is the daemon, too
	story.Main(m, "gated", program)
}

func TestStories(t *testing.T) { story.Run(t, "testdata/script", "opsign") }
