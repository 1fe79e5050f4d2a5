package reserve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// stoppedDisk holds each group of writes before its COMMIT.
type stoppedDisk struct {
	reached chan struct{}   // a group arrives
	commit  chan error      // lets the group go, or makes it fail
	ended   <-chan struct{} // the test's end: no group is held any more
}

func (w *world) stopDisk() stoppedDisk {
	d := stoppedDisk{make(chan struct{}), make(chan error), w.t.Context().Done()}
	w.cfg.Store.OnGroup(func(*store.Tx) error {
		select {
		case d.reached <- struct{}{}:
		case <-d.ended:
			return nil
		}
		select {
		case err := <-d.commit:
			return err
		case <-d.ended:
			return nil
		}
	})
	return d
}

// readers are the questions about what is in force at a moment. Each reports whether r1 of the agent "a" counts.
func readers(w *world, by op.Requester) map[string]func(context.Context) (bool, error) {
	return map[string]func(context.Context) (bool, error){
		"check": func(ctx context.Context) (bool, error) {
			conflicts, _, err := w.Check(ctx, by, repo, []string{"src/x"}, Exclusive)
			return len(conflicts) == 1, err
		},
		"list": func(ctx context.Context) (bool, error) {
			all, err := w.List(ctx, Query{})
			return len(all) == 1, err
		},
		"count": func(ctx context.Context) (bool, error) {
			n, err := w.Count(ctx)
			return n == 1, err
		},
		"view": func(ctx context.Context) (bool, error) {
			v, err := w.View(ctx, "s1")
			return len(v.Reservations) == 1, err
		},
	}
}

type seen struct {
	counts bool
	err    error
}

// A holder renews in time, and the disk takes until after the old deadline to write that. A reader who asks meanwhile
// must not hear that the path is free.
func TestARenewalThatIsBeingWrittenCounts(t *testing.T) {
	for name := range readers(nil, op.Requester{}) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.register("a", 1), w.register("b", 1)
			g := w.reserve(claim(a, "src/**"))
			disk := w.stopDisk()
			renewed := make(chan error, 1)
			w.pass(DefaultTTL - time.Second)
			go func() {
				_, err := w.Renew(t.Context(), a, g.ID, 0)
				renewed <- err
			}()
			<-disk.reached
			w.pass(2 * time.Second)

			asked := make(chan seen, 1)
			ask := readers(w, b)[name]
			go func() {
				counts, err := ask(t.Context())
				asked <- seen{counts, err}
			}()
			impatient, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer stop()
			_, err := ask(impatient)
			require.ErrorIs(t, err, context.DeadlineExceeded, "the answer has to wait for the disk, as long as its caller does")

			disk.commit <- nil
			require.NoError(t, <-renewed)
			require.Equal(t, seen{counts: true}, <-asked)
		})
	}
}

// A renewal that the disk does not take was none: the reservation ended at its old deadline.
func TestARenewalThatWasNotWrittenDoesNotCount(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	g := w.reserve(claim(a, "src/**"))
	disk := w.stopDisk()
	renewed, asked := make(chan error, 1), make(chan seen, 1)
	w.pass(DefaultTTL - time.Second)
	go func() {
		_, err := w.Renew(t.Context(), a, g.ID, 0)
		renewed <- err
	}()
	<-disk.reached
	w.pass(2 * time.Second)
	go func() {
		counts, err := readers(w, b)["check"](t.Context())
		asked <- seen{counts, err}
	}()
	disk.commit <- errors.New("the disk is full")
	require.ErrorIs(t, <-renewed, refusal.Unavailable)
	require.Equal(t, seen{}, <-asked)
}

// A stopped disk keeps no reader waiting if no deadline passed since the write began, or if what the reader asks about
// has no deadline.
func TestReadersWaitForNoOtherWrite(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	w.reserve(claim(a, "src/**"))
	disk := w.stopDisk()
	granted := make(chan error, 1)
	w.pass(time.Minute)
	go func() {
		_, _, err := w.Reserve(t.Context(), claim(b, "docs"))
		granted <- err
	}()
	<-disk.reached
	for name, ask := range readers(w, b) {
		counts, err := ask(t.Context())
		require.NoError(t, err, name)
		require.True(t, counts, name)
	}
	w.pass(DefaultTTL)
	scopes, err := w.Scopes(t.Context())
	require.NoError(t, err)
	require.Len(t, scopes, 1)
	disk.commit <- nil
	require.NoError(t, <-granted)
}

// Between a reader's clock and its snapshot, a reservation's time runs out, and after that another holder ends. The first
// reservation must not be shown without the second one: at no moment was it there alone.
func TestWhatEndedIsNotShownBesideWhatCameLater(t *testing.T) {
	for name := range readers(nil, op.Requester{}) {
		for _, took := range []time.Duration{2, lookAhead, lookAhead + 1, 2 * lookAhead} {
			t.Run(fmt.Sprintf("%s in %s", name, took), func(t *testing.T) { readsAcrossAnEnd(t, name, took) })
		}
	}
}

// readsAcrossAnEnd has a reader's snapshot take so long, in the middle of which a reservation ends.
func readsAcrossAnEnd(t *testing.T, name string, took time.Duration) {
	w := newWorld(t)
	a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
	for _, by := range []op.Requester{a, b} {
		shared := claim(by, "src/**")
		shared.Mode = Shared
		if by.Agent == a.Agent {
			shared.TTL = time.Minute
		}
		w.reserve(shared)
	}
	w.pass(time.Minute - took/2)
	ask, looked := readers(w, c)[name], false
	w.cfg.Now = func() time.Time {
		now := w.clock()
		if !looked {
			looked = true
			w.pass(took)
			w.ends(b)
		}
		return now
	}
	counts, err := ask(t.Context())
	require.NoError(t, err)
	require.False(t, counts, "the reservation that had ended is shown alone")
}
