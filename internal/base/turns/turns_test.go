package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestTurns(t *testing.T) {
	all := New(3, 2)
	gone, leave := context.WithCancel(t.Context())
	leave()
	take := func(uid uint32) func() { return must.Get(all.Take(t.Context(), uid))(t) }
	ends := []func(){take(1), take(1)}
	must.Fail(all.Take(gone, 1))(t, context.Canceled, "its own bound")
	ends = append(ends, take(2))
	must.Fail(all.Take(gone, 3))(t, context.Canceled, "that of all")

	got := make(chan func())
	go func() { end, _ := all.Take(t.Context(), 1); got <- end }()
	ends[0]()
	ends[0] = <-got
	for _, end := range ends {
		end()
	}
	require.Empty(t, all.uid, "nothing is kept of who left")
	require.Empty(t, all.all)
}

func TestOneOfAUIDAndAFewOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(2, 1)
		done := map[uint32]func(){}
		take := func(ctx context.Context, uid uint32) <-chan error {
			out := make(chan error, 1)
			go func() {
				end, err := all.Take(ctx, uid)
				if err == nil {
					done[uid] = end
				}
				out <- err
			}()
			synctest.Wait()
			return out
		}
		require.NoError(t, <-take(t.Context(), 1))
		second := take(t.Context(), 1)
		require.Empty(t, second, "one at a time for each uid")
		require.NoError(t, <-take(t.Context(), 2))
		third := take(t.Context(), 3)
		require.Empty(t, third, "a few for all")

		ctx, cancel := context.WithCancelCause(t.Context())
		gone := take(ctx, 3)
		behind := take(ctx, 4)
		why := errors.New("hung up")
		cancel(why)
		require.ErrorIs(t, <-gone, why)
		require.ErrorIs(t, <-behind, why)

		done[1]()
		synctest.Wait()
		require.Len(t, second, 0, "others were before")
		require.NoError(t, <-third)
		done[2]()
		require.NoError(t, <-second)
		done[1]()
		done[3]()
		synctest.Wait()
		require.Empty(t, all.uid)
		require.Empty(t, all.all)
	})
}
