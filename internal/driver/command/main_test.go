package command_test

import (
	"os"
	"testing"

	"gated/internal/driver/command"
)

func TestMain(m *testing.M) {
	command.MaybeWatch()
	os.Exit(m.Run())
}
