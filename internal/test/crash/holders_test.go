package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/base/refusal"
	"gated/internal/test/linear"
	"gated/internal/test/must"
)

// holders is the daemon as a linear.Gate: each agent has a token, and what it
// asks while the daemon is killed is lost.
type holders struct {
	t     *testing.T
	m     *machine
	root  string
	place []api.Place

	answers atomic.Int64
	strike  func(answers int64)

	mu     sync.Mutex
	up     chan bool // closed while the daemon serves
	agents map[string]*client.Client
}

// newHolders makes a checkout in which agents reserve. The daemon is down.
func newHolders(t *testing.T, m *machine, name string) *holders {
	root := must.Get(filepath.EvalSymlinks(m.dir))(t)
	h := &holders{t: t, m: m, root: filepath.Join(root, name), strike: func(int64) {}, up: make(chan bool), agents: map[string]*client.Client{}}
	for _, scope := range linear.Scopes {
		require.NoError(t, os.MkdirAll(filepath.Join(h.root, scope), 0o700))
		place := must.Get(checkout.At(filepath.Join(h.root, scope)))(t)
		h.place = append(h.place, place)
	}
	t.Cleanup(func() {
		for _, c := range h.agents {
			c.Close()
		}
	})
	return h
}

// goes says that the daemon serves, or does not any more.
func (h *holders) goes(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if up {
		close(h.up)
	} else {
		h.up = make(chan bool)
	}
}

// client returns the way of an agent to the daemon, once that serves.
func (h *holders) client(agent string) *client.Client {
	h.mu.Lock()
	up := h.up
	h.mu.Unlock()
	<-up
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.agents[agent]; c != nil {
		return c
	}
	return h.m.client
}

// Do asks the daemon.
func (h *holders) Do(c linear.Call) linear.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer := h.ask(ctx, h.client(c.Agent), c)
	if !answer.Lost {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.strike(h.answers.Add(1))
	}
	return answer
}

func (h *holders) ask(ctx context.Context, to *client.Client, c linear.Call) linear.Answer {
	mode := api.Exclusive
	if c.Shared {
		mode = api.Shared
	}
	switch c.Kind {
	case linear.Register:
		return h.register(ctx, c.Agent)
	case linear.End:
		_, err := to.Unregister(ctx, c.Agent)
		return h.answer(err)
	case linear.Reserve:
		r, err := to.Reserve(ctx, api.Reserve{Scope: h.place[c.Set.Scope()], Patterns: c.Set.Patterns(), Mode: mode, Keep: c.Keep,
			TTLSeconds: int64(c.TTL / time.Second), WaitSeconds: int64(c.Wait / time.Second)})
		if err != nil {
			return h.answer(err)
		}
		a := h.answer(nil, r)
		a.Renewed = r.Renewed
		return a
	case linear.Check:
		got, err := to.Check(ctx, api.Check{Scope: h.place[c.Set.Scope()], Patterns: c.Set.Patterns(), Mode: mode})
		a := h.answer(err, reservations(got.Conflicts)...)
		a.More = got.More
		return a
	case linear.List:
		all, err := to.Reservations(ctx, client.ReservationQuery{Limit: 200})
		if all.Next != nil {
			h.t.Error("there is more than one page of reservations")
		}
		return h.answer(err, all.Reservations...)
	case linear.Renew:
		r, err := to.Renew(ctx, c.ID, c.TTL)
		return h.answer(err, r)
	case linear.Release:
		r, err := to.Release(ctx, c.ID)
		return h.answer(err, r)
	default:
		r, err := to.Transfer(ctx, c.ID, c.To)
		return h.answer(err, r)
	}
}

func (h *holders) register(ctx context.Context, name string) linear.Answer {
	h.forget(name)
	got, err := h.m.client.RegisterAgent(ctx, api.RegisterAgent{Name: name, Token: true})
	if err != nil {
		return h.answer(err)
	}
	c, err := client.New(client.Options{Socket: h.m.socket, Getenv: func(string) string { return "" }, Token: got.Token})
	require.NoError(h.t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agents[name] = c
	return linear.Answer{}
}

// forget drops the token of a registration that has ended.
func (h *holders) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.agents[name]; old != nil {
		old.Close()
	}
	delete(h.agents, name)
}

func reservations(conflicts []api.Conflict) (all []api.Reservation) {
	for _, c := range conflicts {
		all = append(all, c.Reservation)
	}
	return all
}

// answer is what came back. Anything but a success or a refusal means that the
// daemon is gone.
func (h *holders) answer(err error, all ...api.Reservation) (a linear.Answer) {
	var refused *refusal.Refusal
	var conflicted *client.Conflicted
	switch {
	case errors.As(err, &conflicted):
		a.Refused, all = conflicted.Code, reservations(conflicted.Conflicts)
	case errors.As(err, &refused):
		return linear.Answer{Refused: refused.Code}
	case err != nil:
		return linear.Answer{Lost: true}
	}
	for _, r := range all {
		scope := linear.ScopeOf(h.root, r.Scope)
		if scope < 0 {
			continue // another history's
		}
		set, ok := linear.SetOf(scope, r.Patterns)
		if !ok {
			h.t.Errorf("%s was never asked for: %s %v", r.ID, r.Scope, r.Patterns)
		}
		a.Held = append(a.Held, linear.Held{ID: r.ID, Agent: r.Agent, Set: set, Shared: r.Mode == api.Shared, Keep: r.Keep, Expires: r.ExpiresAt})
	}
	return a
}
