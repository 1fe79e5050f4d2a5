package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/ledger"
)

// TestEveryTableIsInOneList: a table that a migration adds needs a decision whether its rows travel. No table may have a
// trigger, because it would run a second time where its effects are applied.
func TestEveryTableIsInOneList(t *testing.T) {
	objects, err := store.Schema(t.Context(), life.Migrations())
	require.NoError(t, err)
	var tables []string
	for _, o := range objects {
		require.NotEqual(t, "trigger", o.Kind, o.Name)
		if o.Kind == "table" {
			tables = append(tables, o.Name)
		}
	}
	var listed []string
	for _, list := range [][]ledger.Table{ledger.Local, ledger.Travels} {
		require.True(t, slices.IsSortedFunc(list, func(a, b ledger.Table) int { return strings.Compare(a.Name, b.Name) }))
		for _, table := range list {
			require.NotEmpty(t, table.Why, table.Name)
			listed = append(listed, table.Name)
		}
	}
	require.ElementsMatch(t, tables, listed)
	require.NotEmpty(t, tables)
}
