package reserve

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// answer is what a claim that waited came to.
type answer struct {
	Granted
	conflicts []Conflict
	err       error
}

// bubble runs a test in a bubble of synctest, whose clock is the gate's.
func bubble(t *testing.T, fn func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.close()
		w.open(time.Now)
		fn(t, w)
	})
}

// asks makes a claim that waits in another goroutine, and returns when it does
// so or has its answer.
func (w *world) asks(ctx context.Context, c Claim) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		g, conflicts, err := w.Reserve(ctx, c)
		out <- answer{g, conflicts, err}
	}()
	synctest.Wait()
	return out
}

// has asserts that a claim was granted, or waits still.
func has(t *testing.T, granted bool, out <-chan answer) Granted {
	t.Helper()
	synctest.Wait()
	require.Equal(t, granted, len(out) == 1)
	if !granted {
		return Granted{}
	}
	a := <-out
	require.NoError(t, a.err)
	return a.Granted
}

func waiting(by op.Requester, patterns ...string) Claim {
	c := claim(by, patterns...)
	c.Wait, c.TTL = time.Hour, MaxTTL
	return c
}

func lasting(by op.Requester, patterns ...string) Claim {
	c := claim(by, patterns...)
	c.TTL = MaxTTL
	return c
}

func TestAWaitEndsWithTheReservation(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.register("a", 1), w.register("b", 1)
		other := w.reserve(lasting(a, "docs/**"))
		held := w.reserve(lasting(a, "src/**"))
		out := w.asks(t.Context(), waiting(b, "src/x"))
		_, err := w.Release(t.Context(), a, other.ID)
		require.NoError(t, err)
		has(t, false, out)
		_, err = w.Release(t.Context(), a, held.ID)
		require.NoError(t, err)
		require.Equal(t, "b", has(t, true, out).Holder.Name)
		require.Empty(t, w.queue.before(nil))
		released := w.entries(audit.Released)
		require.Equal(t, []string{"a"}, released[0].For)
		require.Equal(t, []string{"a", "b"}, released[1].For)
	})
}

// A wait that another reservation's end can make good is over at that moment,
// with nobody calling.
func TestAWaitEndsAtTheReservationsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		a, b := w.register("a", 1), w.register("b", 1)
		held := w.reserve(claim(a, "src/**"))
		out := w.asks(t.Context(), waiting(b, "src/x"))
		g := <-out
		require.NoError(t, g.err)
		require.Equal(t, held.ExpiresAt, g.CreatedAt)
		require.Equal(t, []string{"a", "b"}, w.entries(audit.Lapsed)[0].For)
		lapsing := w.entries(audit.Lapsing)
		require.Len(t, lapsing, 1)
		require.Equal(t, held.ExpiresAt.Add(-time.Minute), lapsing[0].Time.UTC())
		stop()
		require.ErrorIs(t, <-ran, context.Canceled)
	})
}

func TestTheEndOfAWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		held := w.reserve(lasting(a, "src/**"))
		asked := waiting(b, "src/x", "y")
		asked.Wait = time.Minute
		began := time.Now()
		late := w.asks(t.Context(), asked)

		// Behind it, for something else that it waits for.
		behind := w.asks(t.Context(), waiting(c, "y"))
		w.refused(claim(c, "y"), refusal.Conflict)
		_, _, err := w.Reserve(t.Context(), claim(a, "z"))
		require.NoError(t, err)
		has(t, false, behind)

		got := <-late
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, got.err, refusal.Conflict)
		require.ErrorContains(t, got.err, "after a wait of 1m0s")
		require.Equal(t, held.ID, got.conflicts[0].ID)
		has(t, true, behind) // what kept it waiting is gone

		ctx, cancel := context.WithCancelCause(t.Context())
		out := w.asks(ctx, waiting(b, "src/x"))
		cancel(fmt.Errorf("hung up"))
		require.ErrorContains(t, (<-out).err, "hung up")
		require.Empty(t, w.queue.before(nil))
	})
}

// A claim to much is not starved by a stream of claims to little.
func TestWhoCameFirstIsServedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		small := []op.Requester{w.register("s0", 1), w.register("s1", 1), w.register("s2", 1)}
		big := w.register("big", 1)
		var held []Granted
		for i, s := range small {
			held = append(held, w.reserve(lasting(s, fmt.Sprintf("src/f%d", i))))
		}
		out := w.asks(t.Context(), waiting(big, "src/**"))
		for i, s := range small {
			w.refused(claim(w.register("late", 1), fmt.Sprintf("src/g%d", i)), refusal.Conflict) // the queue is not jumped
			_, err := w.Release(t.Context(), s, held[i].ID)
			require.NoError(t, err)
		}
		g := has(t, true, out)
		require.Equal(t, []string{"src/**"}, g.Patterns)

		var order []<-chan answer
		for i := range 3 {
			order = append(order, w.asks(t.Context(), waiting(small[i], "src/f")))
		}
		_, err := w.Release(t.Context(), big, g.ID)
		require.NoError(t, err)
		for i, out := range order {
			got := has(t, true, out)
			for _, later := range order[i+1:] {
				has(t, false, later)
			}
			_, err := w.Release(t.Context(), small[i], got.ID)
			require.NoError(t, err)
		}
	})
}

// Who holds what an earlier claim waits for goes first: else they would wait for
// each other.
func TestNobodyWaitsForWhoWaitsForThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		held := w.reserve(lasting(a, "src/x"))
		out := w.asks(t.Context(), waiting(b, "src/**"))
		w.reserve(lasting(a, "src/y"))                          // without a wait
		require.True(t, w.reserve(lasting(a, "src/x")).Renewed) // and again
		has(t, true, w.asks(t.Context(), waiting(a, "src/z")))  // with one
		third := w.asks(t.Context(), waiting(c, "src/w"))       // not for others
		has(t, false, third)
		_, err := w.Transfer(t.Context(), a, held.ID, "c") // c goes first now too, had it not been behind
		require.ErrorIs(t, err, nil)
		require.Equal(t, "c", has(t, true, third).Holder.Name)
		has(t, false, out)
		_, err = w.ReleaseMine(t.Context(), a)
		require.NoError(t, err)
		has(t, false, out)
		_, err = w.ReleaseMine(t.Context(), c)
		require.NoError(t, err)
		has(t, true, out)
		w.sound()
	})
}

func TestSharedClaimsWaitBesideEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		held := w.reserve(lasting(a, "x"))
		shared := waiting(b, "x")
		shared.Mode = Shared
		first := w.asks(t.Context(), shared)
		shared.By = c
		second := w.asks(t.Context(), shared)
		weaker := lasting(a, "x")
		weaker.Mode = Shared
		require.Equal(t, held.ID, w.reserve(weaker).ID) // shared from now on
		has(t, true, first)
		has(t, true, second)
		require.Len(t, w.all(), 3)
	})
}

func TestAnAgentsEndEndsItsWaitAndOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		w.reserve(lasting(a, "x"))
		kept := lasting(a, "kept")
		kept.Keep = true
		w.reserve(kept)
		ending := w.asks(t.Context(), waiting(b, "x"))
		behind := w.asks(t.Context(), waiting(c, "x"))
		w.ends(b)
		require.ErrorIs(t, (<-ending).err, refusal.NotHolder)
		has(t, false, behind)
		w.ends(a)
		has(t, true, behind)
		require.Equal(t, "kept", w.all()[0].Patterns[0])
		require.Len(t, w.all(), 2)
		orphaned := w.entries(audit.Orphaned)
		require.Len(t, orphaned, 1)
		require.Equal(t, []string{"a", "c"}, orphaned[0].For)
		w.refused(claim(a, "y"), refusal.NotHolder)
		w.refused(waiting(a, "y"), refusal.NotHolder)
	})
}

func TestWaitersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		w.reserve(lasting(w.register("a", 1), "**"))
		var all []<-chan answer
		for i := range MaxWaiters/MaxWaitersPerHolder + 1 {
			by := w.register(fmt.Sprintf("b%d", i), uint32(i/(MaxWaitersPerUID/MaxWaitersPerHolder)))
			for range MaxWaitersPerHolder + 1 {
				out := w.asks(ctx, waiting(by, "x"))
				if full := len(w.queue.before(nil)) == MaxWaiters; !full {
					all = append(all, out)
				}
			}
			if i == 0 {
				require.ErrorIs(t, (<-all[MaxWaitersPerHolder]).err, refusal.OverLimit)
			}
		}
		w.refused(waiting(w.register("last", 99), "x"), refusal.OverLimit)
		w.refused(claim(w.register("last", 99), "x"), refusal.Conflict)
		cancel()
		synctest.Wait()
		require.Empty(t, w.queue.before(nil))
	})
}

// What is given to somebody who waits for it is no reason to wait any more.
func TestWhatIsGivenNeedNotBeWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.register("a", 1), w.register("b", 1)
		g := w.reserve(lasting(a, "src/**"))
		out := w.asks(t.Context(), waiting(b, "src/x"))
		_, err := w.Transfer(t.Context(), a, g.ID, "b")
		require.NoError(t, err)
		has(t, true, out)
		w.sound()
	})
}
