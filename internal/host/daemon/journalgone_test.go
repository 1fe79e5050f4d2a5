package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A daemon whose state was taken away decides on, into a file that no name leads to: status must not call that ok.
func TestAJournalWhoseFileIsGoneIsBad(t *testing.T) {
	w := newServing(t)
	require.True(t, w.health("journal").OK)
	database := filepath.Join(w.state, "gated.db")
	require.NoError(t, os.Rename(database, database+".away"))
	h := w.health("journal")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "see state")
	require.Contains(t, w.health("state").Detail, "the database that is open is gone")
	require.NoError(t, os.WriteFile(database, nil, 0o600))
	require.False(t, w.health("journal").OK)
	require.Contains(t, w.health("state").Detail, "another file")
	require.NoError(t, os.Rename(database+".away", database))
	require.True(t, w.health("journal").OK)
}
