package life

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The daemon's user means the gate of the host: its home is that directory, and a gate below it would be another one.
func TestTheStateDirectoryThatIsMeant(t *testing.T) {
	system, state, mine := t.TempDir(), t.TempDir(), uint32(os.Geteuid())
	t.Setenv("XDG_STATE_HOME", state)
	if mine == 0 { // for whom no owner is asked
		mine = 64331
		require.NoError(t, os.Chown(system, int(mine), -1))
	}
	require.Equal(t, system, defaultStateDir(system, mine))
	require.Equal(t, system, defaultStateDir(system, 0))
	require.Equal(t, filepath.Join(state, "gated"), defaultStateDir(system, mine+1))
	require.Equal(t, filepath.Join(state, "gated"), defaultStateDir(filepath.Join(system, "none"), mine))

	require.NoError(t, os.Mkdir(filepath.Join(state, "gated"), 0o700))
	require.Equal(t, system, defaultStateDir(system, mine), "no gate is there")
	require.NoError(t, os.WriteFile(filepath.Join(state, "gated", "gated.db"), nil, 0o600))
	require.Equal(t, filepath.Join(state, "gated"), defaultStateDir(system, mine), "a gate that is there stays the one that is meant")
	require.Equal(t, system, defaultStateDir(system, 0))
}
