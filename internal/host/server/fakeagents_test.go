package server

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// known is what the fake has of agents and reservations.
type known struct {
	agent  string            // whom every process is taken for
	tokens map[string]string // the agents of tokens
	asked  atomic.Int64      // how often who calls was asked
	open   atomic.Int64      // callers that were not closed

	connects  error
	operator  bool
	register  api.RegisterAgent
	claim     api.Reserve
	place     api.Place
	ttl       time.Duration
	kept      int // reservations that there are
	asksFor   ReservationQuery
	conflicts []api.Conflict
	waits     chan context.Context // if not nil, gets the context of each claim, which then waits
	decide    chan error           // what a claim that waits ends with
}

// fakeCaller is one connection's.
type fakeCaller struct {
	f      *fake
	closed atomic.Bool
}

func (f *fake) Connected(syscall.Conn) (Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connects != nil {
		return nil, f.connects
	}
	f.open.Add(1)
	return &fakeCaller{f: f}, nil
}

// change alters what the fake answers while calls may be under way.
func (f *fake) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// goBy changes whom every process is taken for.
func (f *fake) goBy(agent string) { f.change(func() { f.agent = agent }) }

func (c *fakeCaller) Who(token string) (string, error) {
	c.f.asked.Add(1)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if token == "" {
		return c.f.agent, nil
	}
	agent, ok := c.f.tokens[token]
	if !ok {
		return "", refusal.New(refusal.NotAllowed, "the token is none")
	}
	return agent, nil
}

func (c *fakeCaller) Self(agent string) api.Caller {
	return api.Caller{UID: 7, PID: 8, Why: agent}
}

func (c *fakeCaller) Close() {
	if c.closed.Swap(true) {
		panic("closed twice")
	}
	c.f.open.Add(-1)
}

func (f *fake) Register(_ context.Context, by Caller, in api.RegisterAgent) (api.RegisteredAgent, error) {
	if by.(*fakeCaller).closed.Load() {
		panic("the caller is closed")
	}
	f.register = in
	return api.RegisteredAgent{Agent: api.Agent{Name: in.Name, ID: in.Name + "#7"}, Token: "t"}, f.reach("Register", op.Requester{})
}

func (f *fake) Unregister(_ context.Context, by op.Requester, name string, operator bool) (api.Agent, error) {
	f.change(func() { f.operator = operator })
	return api.Agent{Name: name}, f.reach("Unregister "+name, by)
}

func (f *fake) Agents(context.Context) ([]api.Agent, error) {
	return []api.Agent{{Name: "builder"}}, f.reach("Agents", op.Requester{})
}

func (f *fake) Reserve(ctx context.Context, by op.Requester, _ Caller, in api.Reserve) (api.Reservation, []api.Conflict, error) {
	f.mu.Lock()
	f.claim = in
	waits, decide := f.waits, f.decide
	f.mu.Unlock()
	if err := f.reach("Reserve", by); err != nil {
		return api.Reservation{}, f.conflicts, err
	}
	if waits == nil {
		return api.Reservation{ID: "r12", Renewed: in.Reason == "again"}, nil, nil
	}
	waits <- ctx
	select {
	case err := <-decide:
		return api.Reservation{ID: "r12"}, f.conflicts, err
	case <-ctx.Done():
		return api.Reservation{}, nil, ctx.Err()
	}
}

func (f *fake) Check(_ context.Context, by op.Requester, in api.Check) (api.Checked, error) {
	return api.Checked{Conflicts: f.conflicts}, f.reach("Check "+strconv.Itoa(len(in.Patterns)), by)
}

func (f *fake) List(_ context.Context, by op.Requester, q ReservationQuery) ([]api.Reservation, bool, error) {
	f.asksFor = q
	var out []api.Reservation
	for id := q.After + 1; int(id) <= f.kept && len(out) < q.Limit; id++ {
		out = append(out, api.Reservation{ID: id.String()})
	}
	return out, len(out) == q.Limit, f.reach("List", by)
}

func (f *fake) Renew(_ context.Context, by op.Requester, _ Caller, id op.ReservationID, ttl time.Duration) (api.Reservation, error) {
	f.ttl = ttl
	return api.Reservation{ID: id.String()}, f.reach("Renew "+id.String(), by)
}

func (f *fake) Release(_ context.Context, by op.Requester, id op.ReservationID) (api.Reservation, error) {
	return api.Reservation{ID: id.String()}, f.reach("Release "+id.String(), by)
}

func (f *fake) ReleaseMine(_ context.Context, by op.Requester) ([]api.Reservation, error) {
	return []api.Reservation{{ID: "r12"}}, f.reach("ReleaseMine", by)
}

func (f *fake) Transfer(_ context.Context, by op.Requester, id op.ReservationID, to string) (api.Reservation, error) {
	return api.Reservation{ID: id.String(), Agent: to}, f.reach("Transfer "+id.String()+" "+to, by)
}

func (f *fake) Scopes(context.Context, string, int) ([]api.Scope, bool, error) {
	return []api.Scope{{ID: "s3", Place: f.place}}, false, f.reach("Scopes", op.Requester{})
}

func (f *fake) RegisterScope(_ context.Context, by op.Requester, from Caller, operator bool, at api.Place) (api.Scope, error) {
	if from.(*fakeCaller).closed.Load() {
		panic("the caller is closed")
	}
	f.change(func() { f.operator, f.place = operator, at })
	return api.Scope{ID: "s3", Place: at}, f.reach("RegisterScope", by)
}
