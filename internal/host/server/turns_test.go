package server

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/turns"
	"gated/internal/test/servicetest"
)

// TestNoTurn: who waits for a list longer than it may is told so.
func TestNoTurn(t *testing.T) {
	s := &Server{turns: turns.New(1, 1)}
	_, err := s.turns.Take(t.Context(), 1)
	require.NoError(t, err)
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = s.inTurn(func(*call) (answer, error) { panic("it has no turn") })(&call{ctx: gone, by: op.Requester{UID: 1}})
	require.ErrorIs(t, err, refusal.OverLimit)
}

// However many lists a uid asks for, decisions do not wait for them, and each
// list has its turn.
func TestListsDoNotKeepDecisionsWaiting(t *testing.T) {
	w := start(t, -1, nil)
	hold := w.Guests.Hold("")
	var lists sync.WaitGroup
	for range 40 {
		lists.Go(func() { require.Equal(t, 200, w.do(t, "GET", "/v1/guests", "").status) })
	}
	for range DefaultLimits().ListsUID {
		<-hold.Held
	}
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", `{"op":"guest.start","target":"guest/db"}`).status)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Empty(t, hold.Held, "no more than its turns")
	hold.End()
	lists.Wait()
	require.Len(t, hold.Held, 40-DefaultLimits().ListsUID)
}

// A plan's tree is a hundred times its document: it is not even waited for.
func TestOnePlanOfAUIDAtOnce(t *testing.T) {
	w := start(t, -1, nil)
	hold := w.Guests.Hold("")
	var first sync.WaitGroup
	first.Go(func() { require.Equal(t, 200, w.do(t, "POST", "/v1/plan", servicetest.Document).status) })
	<-hold.Held
	p := w.do(t, "POST", "/v1/plan", servicetest.Document).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.NotEmpty(t, p.Hint)
	hold.End()
	first.Wait()
	require.Equal(t, 200, w.do(t, "POST", "/v1/plan", servicetest.Document).status, "it gave its place back")
}
