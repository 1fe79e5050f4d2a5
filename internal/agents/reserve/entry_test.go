package reserve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// What has long patterns is in the log with all of them once; later entries are
// short, however often somebody renews.
func TestOnlyTheFirstEntryHasAllPatterns(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	c := claim(a)
	for i := range MaxPatterns {
		c.Patterns = append(c.Patterns, fmt.Sprintf("d%02d/%s", i, strings.Repeat("a", 400)))
	}
	c.TTL = time.Minute
	g := w.reserve(c)
	w.pass(time.Second)
	_, err := w.Renew(t.Context(), a, g.ID, time.Minute)
	require.NoError(t, err)
	w.pass(45 * time.Second)
	require.NoError(t, w.Sweep(t.Context()))
	_, err = w.Transfer(t.Context(), a, g.ID, "b")
	require.NoError(t, err)
	_, err = w.Release(t.Context(), b, g.ID)
	require.NoError(t, err)
	all := w.entries("")
	var kinds []audit.Kind
	for _, e := range all {
		kinds = append(kinds, e.Kind)
		if e.Kind == audit.Reserved {
			require.Equal(t, g.Patterns, e.Patterns)
			require.Zero(t, e.Of)
			continue
		}
		require.Equal(t, g.Patterns[:1], e.Patterns)
		require.Equal(t, MaxPatterns, e.Of)
	}
	require.Equal(t, []audit.Kind{audit.Reserved, audit.Renewed, audit.Lapsing, audit.Transferred, audit.Released}, kinds)
}

func TestBrief(t *testing.T) {
	nine := strings.Split("a b c d e f g h i", " ")
	for _, c := range []struct {
		all, few []string
		of       int
	}{
		{nine[:8], nine[:8], 0},
		{nine, nine[:8], 9},
		{[]string{strings.Repeat("a", 512)}, []string{strings.Repeat("a", 512)}, 0},
		{[]string{strings.Repeat("a", 513)}, []string{}, 1},
		{[]string{strings.Repeat("a", 500), "b", strings.Repeat("c", 12)}, []string{strings.Repeat("a", 500), "b"}, 3},
	} {
		few, of := Brief(c.all)
		require.Equal(t, c.few, few)
		require.Equal(t, c.of, of)
	}
}

// A renewal that moves nothing to speak of is answered and not written down.
func TestARenewalOfLessThanASecondIsNotWritten(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	c := claim(a, "x")
	c.TTL = time.Hour
	g := w.reserve(c)
	renew := func(ttl time.Duration) Reservation {
		r, err := w.Renew(t.Context(), a, g.ID, ttl)
		require.NoError(t, err)
		return r
	}
	w.pass(time.Second - 1)
	require.Equal(t, g.Reservation, renew(time.Hour))
	require.Equal(t, g.Reservation, renew(time.Hour-time.Second))
	again := w.reserve(c)
	require.True(t, again.Renewed)
	require.Equal(t, g.Reservation, again.Reservation)
	require.Empty(t, w.entries(audit.Renewed))
	w.refusedRenewal(w.register("b", 1), g.ID)

	why := c
	why.Reason = "tests"
	require.Equal(t, "tests", w.reserve(why).Reason) // that is something else
	require.Len(t, w.entries(audit.Renewed), 1)
	w.pass(time.Second)
	require.Equal(t, w.clock().Add(time.Hour), renew(time.Hour).ExpiresAt)
	require.Equal(t, w.clock().Add(time.Minute), renew(time.Minute).ExpiresAt)
	require.Len(t, w.entries(audit.Renewed), 3)
	w.sound()
}

func (w *world) refusedRenewal(by op.Requester, id op.ReservationID) {
	_, err := w.Renew(w.t.Context(), by, id, time.Hour)
	require.ErrorIs(w.t, err, refusal.NotHolder)
}
