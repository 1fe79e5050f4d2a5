package evidence_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/test/must"
)

// TestTheTablesPage: docs/formats/tables.md has each column of each of its tables, and no other, in the schema's order and with its type.
func TestTheTablesPage(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../../docs/formats/tables.md"))(t))
	said := map[string][]string{}
	table, row := "", regexp.MustCompile("^\\| `([a-z_0-9]+)` \\| ([A-Z]+) \\|")
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "## `"); ok {
			table = strings.TrimSuffix(strings.TrimSpace(name), "`")
			said[table] = nil
		}
		if m := row.FindStringSubmatch(line); m != nil {
			said[table] = append(said[table], m[1]+" "+m[2])
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(said)), []string{"requests", "signatures", "proofs", "trust", "audit", "audit_head", "audit_key"})
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		for name, columns := range said {
			rows, err := tx.Query(fmt.Sprintf("SELECT name || ' ' || type FROM pragma_table_info('%s') ORDER BY cid", name))
			require.NoError(t, err)
			var has []string
			for rows.Next() {
				var column string
				require.NoError(t, rows.Scan(&column))
				has = append(has, column)
			}
			require.NoError(t, rows.Err())
			require.Equal(t, has, columns, name)
		}
		return nil
	}))
}
