package main

import (
	"testing"

	"gated/internal/story"
)

func TestMain(m *testing.M) { story.Main(m, "opsign", program) }

func TestStories(t *testing.T) { story.Run(t, "testdata/script", "gated") }
