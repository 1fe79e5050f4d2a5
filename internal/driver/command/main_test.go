package command_test

import (
	"os"
	"testing"

	"gated/internal/driver/command"
	"gated/internal/test/forker"
)

func TestMain(m *testing.M) {
	command.MaybeWatch()
	forker.MaybeFork()
	if program := os.Getenv(daemonEnv); program != "" {
		daemon(program)
	}
	os.Exit(m.Run())
}
