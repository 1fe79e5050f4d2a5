package client

import (
	"context"
	"syscall"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/wire/api"
)

// aCaller goes by the token alone.
type aCaller struct{ d *daemon }

func (d *daemon) Connected(syscall.Conn) (server.Caller, error) { return aCaller{d}, nil }

func (c aCaller) Who(token string) (string, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	switch token {
	case "":
		return "", nil
	case c.d.token:
		return "container#9", nil
	}
	return "", refusal.New(refusal.NotAllowed, "the token is none")
}

func (c aCaller) Self(agent string) api.Caller { return api.Caller{UID: 7, Why: agent} }

func (aCaller) Close() {}

func (d *daemon) Register(_ context.Context, _ server.Caller, in api.RegisterAgent) (api.RegisteredAgent, error) {
	return api.RegisteredAgent{Agent: api.Agent{Name: in.Name}, Token: "t"}, d.reach("register %s %d %d %v", in.Name, in.PID, in.Reaper, in.Token)
}

func (d *daemon) Unregister(_ context.Context, _ op.Requester, name string, _ bool) (api.Agent, error) {
	return api.Agent{Name: name}, d.reach("unregister %s", name)
}

func (d *daemon) Agents(context.Context) ([]api.Agent, error) {
	return []api.Agent{{Name: "builder"}}, d.reach("agents")
}

func (d *daemon) Reserve(_ context.Context, by op.Requester, _ server.Caller, in api.Reserve) (api.Reservation, []api.Conflict, error) {
	err := d.reach("reserve %s %s %d %d %s", in.Scope.Path, in.Patterns, in.TTLSeconds, in.WaitSeconds, by.Agent)
	return api.Reservation{ID: "r12"}, d.conflicts, err
}

func (d *daemon) Check(_ context.Context, _ op.Requester, in api.Check) (api.Checked, error) {
	return api.Checked{Conflicts: d.conflicts}, d.reach("check %s %s", in.Scope.Path, in.Patterns)
}

func (d *daemon) List(_ context.Context, _ op.Requester, q server.ReservationQuery) ([]api.Reservation, bool, error) {
	var out []api.Reservation
	for id := q.After + 1; int(id) <= d.kept && len(out) < q.Limit; id++ {
		out = append(out, api.Reservation{ID: id.String()})
	}
	return out, len(out) == q.Limit, d.reach("list %s %s %s %d", q.Scope, q.Agent, q.After, q.Limit)
}

func (d *daemon) Renew(_ context.Context, _ op.Requester, _ server.Caller, id op.ReservationID, ttl time.Duration) (api.Reservation, error) {
	return api.Reservation{ID: id.String()}, d.reach("renew %s %s", id, ttl)
}

func (d *daemon) Release(_ context.Context, _ op.Requester, id op.ReservationID) (api.Reservation, error) {
	return api.Reservation{ID: id.String()}, d.reach("release %s", id)
}

func (d *daemon) ReleaseMine(context.Context, op.Requester) ([]api.Reservation, error) {
	return []api.Reservation{{ID: "r12"}}, d.reach("release mine")
}

func (d *daemon) Transfer(_ context.Context, _ op.Requester, id op.ReservationID, to string) (api.Reservation, error) {
	return api.Reservation{ID: id.String(), Agent: to}, d.reach("transfer %s %s", id, to)
}

func (d *daemon) Scopes(_ context.Context, after string, _ int) ([]api.Scope, bool, error) {
	if d.paged > 0 && after == "" {
		return []api.Scope{{ID: "s1"}, {ID: "s2"}}, true, d.reach("scopes")
	}
	return []api.Scope{{ID: "s3"}}, false, d.reach("scopes")
}

func (d *daemon) RegisterScope(_ context.Context, _ op.Requester, _ server.Caller, _ bool, at api.Place) (api.Scope, error) {
	return api.Scope{ID: "s3", Place: at}, d.reach("scope %s %d %d %v", at.Path, at.Device, at.Inode, at.Fold)
}
