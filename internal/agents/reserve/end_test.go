package reserve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// What an agent leaves ends in transactions of a bounded size, and all of it.
func TestTheEndOfAnAgentThatHasMuch(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	const much = 2*Batch + 3
	for i := range much {
		c := claim(a, "x")
		c.Place.Path = fmt.Sprintf("/srv/d%d", i)
		w.reserve(c)
	}
	kept := claim(a, "kept")
	kept.Keep = true
	w.reserve(kept)
	w.reserve(claim(b, "b"))
	h, _ := w.agent("a")
	ended := w.perTransaction(audit.Orphaned)
	require.NoError(t, w.EndMost(t.Context(), Holder{UID: 1}, 0), "a bare uid is bound to nothing")
	require.NoError(t, w.EndMost(t.Context(), h, much), "that many may be left")
	require.Empty(t, ended())
	require.NoError(t, w.EndMost(t.Context(), h, Batch))
	require.Equal(t, []int{Batch, 3}, ended())
	require.NoError(t, w.EndMost(t.Context(), h, Batch), "the last ones end at one moment")
	require.Len(t, w.all(), 2+Batch)
	w.ends(a)
	require.Len(t, w.all(), 2)
	w.sound()
}

// Who releases all that it has does not keep others' writes waiting for it all.
func TestReleasingMuch(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	h, _ := w.agent("a")
	w.fills(h, 2*Batch)
	w.reserve(claim(b, "b"))
	short := claim(b, "short")
	short.TTL = MinTTL
	w.reserve(short)
	w.pass(MinTTL) // what is due comes first, and counts
	lapsed, released := w.perTransaction(audit.Lapsed), w.perTransaction(audit.Released)
	all, err := w.ReleaseMine(t.Context(), a)
	require.NoError(t, err)
	require.Len(t, all, 2*Batch)
	require.Equal(t, []int{1}, lapsed())
	require.Equal(t, []int{Batch - 1, Batch, 1}, released())
	require.Len(t, w.all(), 1)
	w.sound()
}

// perTransaction returns a function that returns how many entries of a kind each
// transaction since wrote.
func (w *world) perTransaction(kind audit.Kind) func() []int {
	var all []int
	var last *store.Tx
	began := int64(-1) // the end of the log when the last transaction began; one that runs again has the same
	appends := w.cfg.Append
	w.cfg.Append = func(tx *store.Tx, entries ...audit.Entry) error {
		for _, e := range entries {
			if e.Kind != kind {
				continue
			}
			if tx != last {
				head, err := audit.ReadHead(tx)
				if err != nil {
					return err
				}
				if head.Seq == began {
					all = all[:len(all)-1]
				}
				all, last, began = append(all, 0), tx, head.Seq
			}
			all[len(all)-1]++
		}
		return appends(tx, entries...)
	}
	return func() []int { return all }
}
