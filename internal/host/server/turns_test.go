package server

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/turns"
	"gated/internal/wire/api"
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

// slow is a daemon whose lists and plans last until the test lets them go on.
type slow struct {
	*fake
	held, hold chan struct{}
}

func (s slow) Jobs(context.Context, JobQuery) ([]op.Job, error) {
	s.held <- struct{}{}
	<-s.hold
	return nil, nil
}

func (s slow) Plan(context.Context, op.Requester, string, []byte) (api.Plan, error) {
	s.held <- struct{}{}
	<-s.hold
	return api.Plan{}, nil
}

// However many lists a uid asks for, decisions do not wait for them, and each
// list has its turn.
func TestListsDoNotKeepDecisionsWaiting(t *testing.T) {
	f := slow{fake: newFake(t), held: make(chan struct{}, 40), hold: make(chan struct{})}
	w := start(t, -1, func(c *Config) { c.Gate, c.Desired = f, f })
	var lists sync.WaitGroup
	for range 40 {
		lists.Go(func() { require.Equal(t, 200, w.do(t, "GET", "/v1/jobs", "").status) })
	}
	for range DefaultLimits().ListsUID {
		<-f.held
	}
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", `{"op":"guest.start","target":"guest/web-1"}`).status)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Empty(t, f.held, "no more than its turns")
	close(f.hold)
	lists.Wait()
	require.Len(t, f.held, 40-DefaultLimits().ListsUID)
}

// A plan's tree is a hundred times its document: it is not even waited for.
func TestOnePlanOfAUIDAtOnce(t *testing.T) {
	f := slow{fake: newFake(t), held: make(chan struct{}, 1), hold: make(chan struct{})}
	w := start(t, -1, func(c *Config) { c.Desired = f })
	var first sync.WaitGroup
	first.Go(func() { require.Equal(t, 200, w.do(t, "POST", "/v1/plan", "host: h").status) })
	<-f.held
	p := w.do(t, "POST", "/v1/plan", "host: h").problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.NotEmpty(t, p.Hint)
	close(f.hold)
	first.Wait()
	require.Equal(t, 200, w.do(t, "POST", "/v1/plan", "host: h").status, "it gave its place back")
}
