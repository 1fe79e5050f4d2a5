package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
)

// A daemon whose state was taken away decides on, into a file that no name leads to: status must not call that ok.
func TestAJournalWhoseFileIsGoneIsBad(t *testing.T) {
	w := newServing(t)
	require.True(t, w.health("journal").OK)
	database := filepath.Join(w.state, "gated.db")
	require.NoError(t, os.Rename(database, database+".away"))
	// Status may have to open a connection to what is not there. Health says so, and goes on.
	_, c := w.check("journal")
	require.Equal(t, api.HealthBad, c.State)
	require.Contains(t, c.Detail, "see state")
	_, c = w.check("state")
	require.Contains(t, c.Detail, "the database that is open is gone")
	require.NoError(t, os.WriteFile(database, nil, 0o600))
	_, c = w.check("journal")
	require.Equal(t, api.HealthBad, c.State)
	_, c = w.check("state")
	require.Contains(t, c.Detail, "another file")
	require.NoError(t, os.Rename(database+".away", database))
	require.True(t, w.health("journal").OK)
}
