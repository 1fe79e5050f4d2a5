package command_test

import (
	"os"
	"testing"

	"gated/internal/driver/command"
)

func TestMain(m *testing.M) {
	command.MaybeWatch()
	if program := os.Getenv(daemonEnv); program != "" {
		daemon(program)
	}
	os.Exit(m.Run())
}
