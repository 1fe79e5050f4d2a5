package reserve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/store/storetest"
)

// A commit of many files can be checked beside a holder that has much.
func TestManyPathsAreCheckedBesideMuch(t *testing.T) {
	w := newWorld(t)
	storetest.Unchecked(t, w.path, "what others hold is made by hand, and overlaps")
	w.others(repo, 400, func(i int) string { return fmt.Sprintf("*%dx", i) })
	w.others(repo, 1, func(int) string { return "**/file500.go" })
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("src/dir%d/file%d.go", i%7, i))
	}
	conflicts, more, err := w.Check(t.Context(), w.register("a", 1), repo, paths, Exclusive)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, conflicts, 1)
	require.Equal(t, "src/dir3/file500.go", conflicts[0].Pattern)
}
