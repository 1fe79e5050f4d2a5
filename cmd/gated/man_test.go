package main

import (
	"testing"
	"time"

	"gated/internal/base/version"
	"gated/internal/wire/cli/clitest"
)

func TestManPages(t *testing.T) {
	clitest.ManPages(t, testTool().root(), time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC), version.String())
}
