package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

func (w *world) standing(limit int) (map[string]int, []string, int) {
	waits := map[op.Target]bool{}
	rs := must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t)
	for _, r := range rs {
		waits[r.Step.Target] = true
	}
	sets, unmet, left := w.r.Standing(waits, limit)
	var out []string
	for _, u := range unmet {
		out = append(out, u.Set+" "+u.Target.Name+" "+u.State)
	}
	if len(sets) == 0 {
		return nil, out, left
	}
	return sets[0].Counts, out, left
}

func TestStanding(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}, {name: b, state: stopped}, {name: c, state: running}]")
	counts, unmet, _ := w.standing(10)
	require.Equal(t, map[string]int{WishWaiting: 1, WishWorking: 2}, counts, "nothing is as wished before a round saw it")
	require.Equal(t, []string{"site a waiting", "site b working", "site c working"}, unmet)

	w.time.pass(time.Minute)
	w.look()
	counts, unmet, left := w.standing(10)
	require.Equal(t, map[string]int{WishWaiting: 1, WishConverged: 2}, counts)
	require.Equal(t, []string{"site a waiting"}, unmet)
	require.Zero(t, left)
	_, unmet, left = w.standing(0)
	require.Empty(t, unmet)
	require.Equal(t, 1, left)

	// Another wish of one guest leaves what is known of the others.
	w.wish("[{name: a, state: absent}, {name: b, state: running}, {name: c, state: running}]")
	counts, _, _ = w.standing(10)
	require.Equal(t, map[string]int{WishWaiting: 1, WishWorking: 1, WishConverged: 1}, counts)

	// Drift is seen by a round, as is that somebody rejected.
	w.reject(w.request())
	w.fleet.change("c", func(o *op.Observed) { o.Running = "half" })
	w.time.pass(time.Minute)
	w.look()
	counts, unmet, _ = w.standing(10)
	require.Equal(t, map[string]int{WishStopped: 1, WishUnknown: 1, WishConverged: 1}, counts)
	require.Equal(t, []string{"site a stopped", "site c unknown"}, unmet)

	// Of what cannot be read nothing is said.
	w.source.put("site", "broken")
	w.r.read(w.ctx)
	sets, unmet2, _ := w.r.Standing(nil, 10)
	require.Empty(t, sets)
	require.Empty(t, unmet2)
}
