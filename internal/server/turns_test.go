package server

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/op"
)

func TestTurns(t *testing.T) {
	all := newTurns(3, 2)
	gone, leave := context.WithCancel(t.Context())
	leave()
	take := func(uid uint32) func() {
		end, err := all.take(t.Context(), uid)
		require.NoError(t, err)
		return end
	}
	ends := []func(){take(1), take(1)}
	_, err := all.take(gone, 1)
	require.ErrorIs(t, err, op.OverLimit, "its own bound")
	ends = append(ends, take(2))
	_, err = all.take(gone, 3)
	require.ErrorIs(t, err, op.OverLimit, "that of all")

	got := make(chan func())
	go func() { end, _ := all.take(t.Context(), 1); got <- end }()
	ends[0]()
	ends[0] = <-got
	for _, end := range ends {
		end()
	}
	require.Empty(t, all.uid, "nothing is kept of who left")
	require.Empty(t, all.all)
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

func (s slow) Plan(context.Context, op.Requester, []byte) (api.Plan, error) {
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
	require.Equal(t, op.OverLimit, p.Code)
	require.NotEmpty(t, p.Hint)
	close(f.hold)
	first.Wait()
	require.Equal(t, 200, w.do(t, "POST", "/v1/plan", "host: h").status, "it gave its place back")
}
