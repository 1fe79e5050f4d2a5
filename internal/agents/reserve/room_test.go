package reserve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// heavy are n patterns that are as long as they may be, match nothing that is
// asked about here, and could match anywhere by their prefixes.
func heavy(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("**/*%02d%s*", i, strings.Repeat("ab", 2035))
	}
	return out
}

// A few reservations that are legal one by one cannot make all others' checks and
// claims too complex.
func TestLongPatternsKeepNobodyOut(t *testing.T) {
	w := newWorld(t)
	root := Place{Path: "/"}
	b := w.register("b", 2)
	for i := range 4 {
		c := Claim{By: w.register(fmt.Sprintf("a%d", i), 1), Place: root, Patterns: heavy(MaxPatterns), Mode: Shared}
		w.refused(c, refusal.OverLimit)
		c.Patterns = c.Patterns[:MaxWeight/(4096+weightOfPattern)]
		if _, _, err := w.Reserve(t.Context(), c); err != nil {
			require.ErrorIs(t, err, refusal.OverLimit)
		}
	}
	require.NotEmpty(t, w.all())
	conflicts, more, err := w.Check(t.Context(), b, repo, []string{"src/main.go"}, Exclusive)
	require.NoError(t, err)
	require.Empty(t, conflicts)
	require.False(t, more)
	w.reserve(claim(b, "src/m?in.go"))
	w.sound()
}

func TestWhatPatternsWeighIsBounded(t *testing.T) {
	w := newWorld(t)
	names := 0
	next := func() op.Requester { names++; return w.register(fmt.Sprintf("a%d", names), 1) }
	first := next()
	long := heavy(MaxPatterns)
	fill := func(by op.Requester) (left int) {
		for left = MaxWeight; left >= weight(long[0]); left -= weight(long[0]) {
			c := claim(by, long[left%len(long)])
			c.Mode = Shared
			c.Place.Path = fmt.Sprintf("/srv/%d", left)
			w.reserve(c)
		}
		return left
	}
	left := fill(first)
	w.refused(claim(first, "x", strings.Repeat("a", left-2*weightOfPattern)), refusal.OverLimit)
	w.reserve(claim(first, strings.Repeat("a", left-weightOfPattern))) // the last byte
	w.refused(claim(first, "x"), refusal.OverLimit)
	require.True(t, w.reserve(claim(first, strings.Repeat("a", left-weightOfPattern))).Renewed, "no more than before")

	for n := MaxWeight; n+MaxWeight <= MaxWeightPerUID; n += MaxWeight {
		fill(next())
	}
	last := next()
	_, _, err := w.Reserve(t.Context(), claim(last, heavy(1)...))
	require.ErrorIs(t, err, refusal.OverLimit)
	require.ErrorContains(t, err, "uid 1 would have patterns that weigh")
	w.reserve(claim(w.register("b", 2), "other")) // of another uid

	// Neither is there room for what is given, but within a uid it weighs nothing.
	g := w.reserve(claim(w.register("c", 2), heavy(1)...))
	_, err = w.Transfer(t.Context(), w.who("c"), g.ID, "a1")
	require.ErrorIs(t, err, refusal.OverLimit)
	_, err = w.Transfer(t.Context(), first, 1, fmt.Sprintf("a%d", names))
	require.NoError(t, err)
	w.reserve(claim(first, "x"))
	w.sound()
}

// who returns the caller that a name is bound to.
func (w *world) who(name string) op.Requester {
	h, ok := w.agent(name)
	require.True(w.t, ok)
	return op.Requester{Source: op.SourceAPI, UID: h.UID, Agent: fmt.Sprintf("%s#%d", h.Name, h.Registration)}
}

// fills gives a holder n reservations of one pattern each, fifty a scope.
func (w *world) fills(h Holder, n int) {
	w.t.Helper()
	require.NoError(w.t, w.cfg.Store.Update(w.t.Context(), func(tx *store.Tx) error {
		for i := range n {
			p := Place{Path: fmt.Sprintf("/%s/%d", h.Name, i/MaxPerHolder)}
			s, err := placeScope(tx, p, w.cfg.Now())
			if err != nil {
				return err
			}
			in := region{path: p.Path}
			if err := in.add(fmt.Sprint(i)); err != nil {
				return err
			}
			r := Reservation{Scope: s, Mode: Exclusive, Holder: h, CreatedAt: noon, ExpiresAt: noon.Add(MaxTTL)}
			if err := insert(tx, &r, in, MaxTTL); err != nil {
				return err
			}
		}
		return nil
	}))
}

// What waits is compared with every claim near it, so it is bounded as what is in
// force is.
func TestWhatWaitsIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		w.reserve(lasting(w.register("a", 1), "**"))
		const each = MaxWeight / (4096 + weightOfPattern)
		var all []<-chan answer
		for i := range MaxWeightPerUID / MaxWeight {
			by := w.register(fmt.Sprintf("b%d", i), 2)
			all = append(all, w.asks(ctx, waiting(by, heavy(each)...)))
			_, _, err := w.Reserve(ctx, waiting(by, heavy(1)...))
			require.ErrorIs(t, err, refusal.OverLimit)
			require.ErrorContains(t, err, "would wait with patterns")
		}
		_, _, err := w.Reserve(ctx, waiting(w.register("c", 2), heavy(2)...))
		require.ErrorIs(t, err, refusal.OverLimit)
		require.ErrorContains(t, err, "uid 2 would wait with patterns")
		for i := range MaxWaitersPerUID {
			all = append(all, w.asks(ctx, waiting(w.register(fmt.Sprintf("d%d", i), 3), "x")))
		}
		_, _, err = w.Reserve(ctx, waiting(w.register("e", 3), "x"))
		require.ErrorIs(t, err, refusal.OverLimit)
		require.ErrorContains(t, err, "uid 3 waits for 256 claims already")
		has(t, false, w.asks(ctx, waiting(w.register("f", 4), "x")))
		_, err = w.ReleaseMine(t.Context(), w.who("a"))
		require.NoError(t, err)
		require.Len(t, w.entries(audit.Released)[0].For, 1+maxNamed)
		cancel()
		for _, out := range all {
			<-out
		}
	})
}

// No uid can take all scopes of a host.
func TestReservationsAreBoundedOnTheHost(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	h, _ := w.agent("a")
	w.fills(h, MaxReservations-1)
	w.reserve(claim(a, "x"))
	_, _, err := w.Reserve(t.Context(), claim(a, "more"))
	require.ErrorIs(t, err, refusal.OverLimit)
	require.ErrorContains(t, err, "a has 500 reservations on this host already")
	require.True(t, w.reserve(claim(a, "x")).Renewed, "no more than before")
	g := w.reserve(claim(b, "y"))
	_, err = w.Transfer(t.Context(), b, g.ID, "a")
	require.ErrorIs(t, err, refusal.OverLimit)

	for i := range MaxPerUID/MaxReservations - 1 {
		n := MaxReservations
		if i == 0 {
			n-- // b has one of its own
		}
		name := fmt.Sprintf("c%d", i)
		w.register(name, 1)
		h, _ := w.agent(name)
		w.fills(h, n)
	}
	_, _, err = w.Reserve(t.Context(), claim(b, "more"))
	require.ErrorIs(t, err, refusal.OverLimit)
	require.ErrorContains(t, err, "uid 1 has 2000 reservations on this host already")
	other := w.register("d", 2)
	g = w.reserve(claim(other, "z"))
	_, err = w.Transfer(t.Context(), other, g.ID, "b")
	require.ErrorIs(t, err, refusal.OverLimit)
	_, err = w.Transfer(t.Context(), a, MaxReservations, "b") // within the uid
	require.NoError(t, err)
	_, err = w.Release(t.Context(), a, 1)
	require.NoError(t, err)
	w.reserve(claim(b, "more"))
	w.sound()
}
