package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
)

// TestTheDatabaseStopsGrowing: with as many jobs each day, the pages of archived rows are used again.
func TestTheDatabaseStopsGrowing(t *testing.T) {
	w := newWorld(t)
	var pages []int64
	for range 10 {
		w.busy(100)
		w.pass(25 * time.Hour)
		w.archive()
		var n int64
		w.view(func(tx *store.Tx) error { return tx.QueryRow(`SELECT page_count FROM pragma_page_count`).Scan(&n) })
		pages = append(pages, n)
	}
	t.Logf("pages after each day: %v; %d segments", pages, w.keeper.State().Segments)
	require.Greater(t, w.keeper.State().Jobs, int64(500))
	// What stays is the leaf hashes, the jobs that nothing lets go yet, and a row for each segment.
	grew := pages[len(pages)-1] - pages[len(pages)-5]
	require.Less(t, grew, 4*int64(12), "four days of 100 jobs, which take about 60 pages each before they are archived: %v", pages)
}
