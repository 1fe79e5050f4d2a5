package main

import (
	"testing"

	"gated/internal/agent"
	"gated/internal/daemon"
	"gated/internal/story"
)

func TestMain(m *testing.M) {
	agent.MaybeOrphan()     // the test binary is the program that measures
	daemon.MaybeExecGuest() // and the daemon, too
	story.Main(m, "gated", program)
}

func TestStories(t *testing.T) { story.Run(t, "testdata/script", "opsign") }
