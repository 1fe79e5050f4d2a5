package local

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// manyGuests makes n guests without making each of them durable.
func manyGuests(b *testing.B, n int) *world {
	b.Helper()
	w := newWorld(b)
	for i := range n {
		stage := fmt.Sprintf("%sb-%d", stagePrefix, i)
		must.Get(w.d.stageGuest(stage, spec{UUID: fmt.Sprintf("b-%d", i), CreatedAt: w.clock()}))(b)
		require.NoError(b, w.d.root.rename(stage, w.d.root, fmt.Sprintf("guest-%d", i), 0))
	}
	return w
}

func BenchmarkList(b *testing.B) {
	w := manyGuests(b, 2000)
	for b.Loop() {
		list, err := w.d.List(w.ctx)
		require.NoError(b, err)
		require.Len(b, list, 2000)
	}
}

func BenchmarkObserve(b *testing.B) {
	w := manyGuests(b, 2000)
	for b.Loop() {
		_, err := w.d.Observe(w.ctx, op.At(target("guest-7")))
		require.NoError(b, err)
	}
}
