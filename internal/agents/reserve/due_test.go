package reserve

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

func TestTheNextWriteEndsWhatIsDue(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	long := claim(a, "x")
	long.TTL = MaxTTL
	g := w.reserve(long)
	w.reserve(claim(a, "y"))

	short := claim(a, "z")
	short.TTL = MinTTL
	w.reserve(short)
	w.pass(MinTTL)
	w.reserve(claim(a, "y"))
	require.Len(t, w.entries(audit.Lapsed), 1)

	_, err := w.Renew(t.Context(), a, g.ID, MinTTL) // sooner than before
	require.NoError(t, err)
	w.pass(MinTTL)
	w.reserve(claim(a, "y"))
	require.Len(t, w.entries(audit.Lapsed), 2)
	require.Equal(t, 1, w.rows())
}

// What a transaction ended that was not kept ends with the next one.
func TestWhatWasDueIsThereAgain(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	c := claim(a, "x")
	c.TTL = time.Minute
	w.reserve(c)
	w.pass(time.Minute)
	broken := errors.New("the disk")
	require.Error(t, w.update(t.Context(), func(*store.Tx, *outcome) error { return broken }))
	require.Equal(t, 1, w.rows(), "its end was not kept")
	w.reserve(claim(a, "y"))
	require.Len(t, w.entries(audit.Lapsed), 1)
}
