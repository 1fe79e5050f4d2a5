package settings_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/notify/settings"
)

func TestCheckPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.sh")
	s := settings.Settings{Sinks: []settings.Sink{{Name: "ops", Ntfy: &settings.Ntfy{}}, {Name: "me", Exec: &settings.Exec{Argv: []string{path}}}}}
	require.ErrorIs(t, s.CheckPrograms(), refusal.BadParams)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600))
	require.ErrorIs(t, s.CheckPrograms(), refusal.BadParams)
	require.ErrorContains(t, s.CheckPrograms(), "permission denied")
	require.NoError(t, os.Chmod(path, 0o722))
	require.ErrorIs(t, s.CheckPrograms(), refusal.NotAllowed)
	require.NoError(t, os.Chmod(path, 0o700))
	require.NoError(t, s.CheckPrograms())
}
