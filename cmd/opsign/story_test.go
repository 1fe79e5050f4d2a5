package main

import (
	"context"
	"os"
	"testing"

	"gated/internal/test/story"
)

// The people of stories type as soon as they see a screen.
func TestMain(m *testing.M) {
	story.Main(m, "opsign", func() int {
		t := newTool()
		t.settling = 0
		return t.run(context.Background(), os.Args[1:])
	})
}

func TestStories(t *testing.T) { story.Run(t, "testdata/script", "gated") }
