package gateworld

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/test/must"
)

var migrated struct {
	sync.Mutex
	by map[int][]byte // by the number of migrations: one test program has one list of each length
}

// Database writes a database with its schema and no rows. Most tests would need longer than they do if each made one.
func Database(t testing.TB, path string, migrations []store.Migration) {
	t.Helper()
	migrated.Lock()
	defer migrated.Unlock()
	if migrated.by == nil {
		migrated.by = map[int][]byte{}
	}
	if migrated.by[len(migrations)] == nil {
		path := filepath.Join(t.TempDir(), "empty.db")
		//fsck:none each copy of it ends with fsck
		s := must.Get(store.Open(t.Context(), path, store.Options{Migrations: migrations}))(t)
		require.NoError(t, s.Close())
		migrated.by[len(migrations)] = must.Get(os.ReadFile(path))(t)
	}
	require.NoError(t, os.WriteFile(path, migrated.by[len(migrations)], 0o600))
}
