package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
)

// TestThePeerIsABook: the second holder of a path is refused until the first one
// releases it, and only the holder may do that.
func TestThePeerIsABook(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Peer(ctx, dir) }()
	var first *holding
	require.NoError(t, until(ctx, time.Millisecond, func() (bool, error) {
		var err error
		first, err = join(socketIn(dir), "first")
		return err == nil, nil
	}))
	second, err := join(socketIn(dir), "second")
	require.NoError(t, err)
	require.NotEqual(t, first.token, second.token)
	wanted := api.Reserve{Scope: api.Place{Path: "/a"}, Patterns: []string{"b/**"}}
	mine, err := first.claim(wanted)
	require.NoError(t, err)
	theirs, err := second.claim(wanted)
	require.NoError(t, err)
	answer, err := first.do(mine)
	require.NoError(t, err)
	id := between(answer, `"id":"`)
	require.NotEmpty(t, id)
	_, err = second.do(theirs)
	require.ErrorContains(t, err, "reservation "+id+" has this path")
	_, err = second.do(second.release(id))
	require.ErrorContains(t, err, "no such reservation")
	_, err = first.do(first.release(id))
	require.NoError(t, err)
	require.NoError(t, second.pair(theirs))
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	cancel()
	require.NoError(t, <-served)
}
