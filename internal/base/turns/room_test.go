package turns

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRoom: below, at and above the part of a uid and the whole, and in order.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoom(10, 6)
		var mu sync.Mutex
		give := map[string]func(){}
		take := func(ctx context.Context, name string, uid uint32, n int64) <-chan error {
			out := make(chan error, 1)
			go func() {
				back, err := r.Take(ctx, uid, n)
				if err == nil {
					mu.Lock()
					give[name] = back
					mu.Unlock()
				}
				out <- err
			}()
			synctest.Wait()
			return out
		}
		back := func(name string) {
			mu.Lock()
			f := give[name]
			mu.Unlock()
			f()
		}
		require.NoError(t, <-take(t.Context(), "a", 1, 5))
		require.NoError(t, <-take(t.Context(), "b", 1, 1))
		above := take(t.Context(), "c", 1, 1)
		require.Empty(t, above, "above the part of the uid")
		require.NoError(t, <-take(t.Context(), "d", 2, 3), "another uid does not wait for it")
		large := take(t.Context(), "e", 3, 2)
		require.Empty(t, large, "above the whole")
		small := take(t.Context(), "f", 2, 1)
		require.Empty(t, small, "who came later does not take what is left")

		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("hung up")
		gone := take(ctx, "g", 3, 1)
		cancel(why)
		require.ErrorIs(t, <-gone, why)
		back("a")
		back("a") // once is enough
		synctest.Wait()
		require.NoError(t, <-above)
		require.NoError(t, <-large)
		require.NoError(t, <-small)
		for _, name := range []string{"b", "c", "d", "e", "f"} {
			back(name)
		}
		require.Zero(t, r.used)
		require.Empty(t, r.by)
		require.Empty(t, r.waiting)
		require.NoError(t, <-take(t.Context(), "h", 1, 7), "what would never fit takes the whole part")
		require.EqualValues(t, 6, r.used)
	})
}

// TestRoomIsNeverExceeded, whatever comes and goes, and nobody waits who fits.
func TestRoomIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRoom(10, 6)
		gone, leave := context.WithCancel(context.Background())
		leave()
		var held []func()
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				uid, n := rapid.Uint32Range(1, 3).Draw(t, "uid"), rapid.Int64Range(1, 6).Draw(t, "n")
				fits := r.used+n <= 10 && r.by[uid]+n <= 6
				back, err := r.Take(gone, uid, n)
				require.True(t, err == nil || !fits || len(r.waiting) == 0)
				if err == nil {
					require.True(t, fits)
					held = append(held, back)
				}
			},
			"give": func(t *rapid.T) {
				if len(held) > 0 {
					held[0]()
					held = held[1:]
				}
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for _, n := range r.by {
					require.LessOrEqual(t, n, int64(6))
					sum += n
				}
				require.Equal(t, r.used, sum)
				require.LessOrEqual(t, sum, int64(10))
			},
		})
	})
}
