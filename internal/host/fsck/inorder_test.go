package fsck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInOrder: for any number of values, all are prepared and taken in their order.
func TestInOrder(t *testing.T) {
	for _, n := range []int{0, 1, batchSize - 1, batchSize, batchSize + 1, 10*batchSize + 3} {
		var took []int
		o := inOrder[int]{prepare: func(v *int) { *v *= 2 }, take: func(v int) { took = append(took, v) }}
		for i := range n {
			o.put(i)
		}
		o.finish()
		require.Len(t, took, n)
		for i, v := range took {
			require.Equal(t, 2*i, v)
		}
	}
}
