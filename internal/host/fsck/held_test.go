package fsck_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// floor is a world with agents that hold reservations of a directory.
type floor struct {
	*world
	agents map[string]agent.Registration
	repo   reserve.Place
}

func newFloor(t testing.TB) *floor { return floorOf(newWorld(t)) }

func floorOf(w *world) *floor {
	f := &floor{world: w, agents: map[string]agent.Registration{}, repo: reserve.Place{Path: "/repo", Device: 1, Inode: 1 << 63}}
	f.book = reserve.New(reserve.Config{Store: f.store, Now: func() time.Time { return f.gate.Moment().Now }, Append: f.gate.Append,
		Agent: func(name string) (reserve.Holder, bool) { r, ok := f.agents[name]; return holder(r), ok },
		Registered: func(tx *store.Tx, h reserve.Holder) (bool, error) {
			return agent.Registered(tx, h.Name, h.Registration)
		},
		Alive: func(h reserve.Holder) bool { return true }})
	return f
}

func holder(r agent.Registration) reserve.Holder {
	return reserve.Holder{Name: r.Name, UID: r.UID, Member: r.Member, Registration: r.ID}
}

// register registers an agent as the daemon does.
func (f *floor) register(by op.Requester, name string, token bool) op.Requester {
	f.t.Helper()
	f.made++
	r := agent.Registration{Name: name, UID: by.UID, Member: by.Set, Process: proc.ID{PID: 100 + f.made, Start: 7, Boot: "b"}, At: f.wall}
	if token {
		r.Process, r.Token = proc.ID{}, "hash of "+name
	}
	require.NoError(f.t, f.store.Update(f.t.Context(), func(tx *store.Tx) (err error) {
		if r.ID, err = agent.Add(tx, r); err != nil {
			return err
		}
		return f.gate.Append(tx, audit.Entry{Kind: audit.AgentRegistered, By: by.String(), PID: by.PID, For: []string{name},
			Parts: audit.Parts{Registration: audit.Registration{ID: r.ID, Name: name, PID: r.Process.PID, Token: token,
				SHA256: r.Binding()}}})
	}))
	f.agents[name] = r
	return op.Requester{Source: op.SourceAPI, UID: r.UID, PID: 9, Agent: r.Who(), Set: r.Member}
}

// end ends a registration as the daemon does.
func (f *floor) end(name string) {
	f.t.Helper()
	r := f.agents[name]
	delete(f.agents, name)
	require.NoError(f.t, f.store.Update(f.t.Context(), func(tx *store.Tx) error {
		there, err := agent.Remove(tx, r)
		require.True(f.t, there)
		if err != nil {
			return err
		}
		if err := f.gate.Append(tx, audit.Entry{Kind: audit.AgentEnded, By: "gate", For: []string{name},
			Parts: audit.Parts{Registration: audit.Registration{ID: r.ID, Name: name}}}); err != nil {
			return err
		}
		_, err = f.book.EndOf(tx, holder(r))
		return err
	}))
}

func (f *floor) reserve(by op.Requester, change func(*reserve.Claim), patterns ...string) op.ReservationID {
	f.t.Helper()
	c := reserve.Claim{By: by, Place: f.repo, Patterns: patterns, TTL: time.Hour, Reason: "work"}
	if change != nil {
		change(&c)
	}
	g, _ := must.Two(f.book.Reserve(f.t.Context(), c))(f.t)
	return g.ID
}

func kept(c *reserve.Claim)   { c.Keep = true }
func shared(c *reserve.Claim) { c.Mode = reserve.Shared }

// force makes operators take a reservation of a scope from its holder, or all of
// them.
func (f *floor) force(scope string, kv ...any) op.Job {
	f.t.Helper()
	a := ask(op.ReleaseAll, scope, kv...)
	if len(kv) > 0 {
		a.Op = op.ForceTransfer
	}
	a.Target.Kind = op.KindScope
	j := f.submit(hub, a)
	f.approve(j.Steps[0].ID)
	f.run()
	j = f.job(j.ID)
	require.Equal(f.t, op.StateSucceeded, j.State())
	return j
}

// workday is a database after a day of agents. builder#1 (uid 1000) has r1, of the
// scope s1, and kept r2. tester#2 (a token, uid 1001) and writer#3 share. uid 1000
// has r5. leaver#4 has ended and left r6, which it kept.
func workday(t testing.TB) *floor {
	f := newFloor(t)
	builder := f.register(hub, "builder", false)
	tester := f.register(other, "tester", true)
	writer := f.register(builder, "writer", false) // its process descends from builder's
	leaver := f.register(hub, "leaver", false)
	f.reserve(builder, nil, "src/**", "a.go")
	f.reserve(builder, kept, "b.go")
	f.reserve(tester, shared, "docs/**")
	f.reserve(writer, shared, "docs/*")
	f.reserve(hub, nil, "c.go")
	f.reserve(leaver, kept, "d.go")
	f.reserve(leaver, nil, "e.go")
	f.end("leaver")
	return f
}

// TestLegalDaysAreSound: agents and operators may do all this to reservations.
func TestLegalDaysAreSound(t *testing.T) {
	for name, live := range map[string]func(*floor){
		"nothing more": func(*floor) {},
		"released, renewed, transferred": func(f *floor) {
			ctx, builder := f.t.Context(), op.Requester{Source: op.SourceAPI, UID: 1000, Agent: f.agents["builder"].Who()}
			f.pass(time.Minute)
			must.Get(f.book.Renew(ctx, builder, 1, 2*time.Hour))(f.t)
			f.reserve(builder, shared, "b.go") // again, with other patterns
			must.Get(f.book.Transfer(ctx, builder, 2, "tester"))(f.t)
			sound(f.t, f.path)
			must.Get(f.book.Release(ctx, builder, 1))(f.t)
			must.Get(f.book.ReleaseMine(ctx, hub))(f.t)
		},
		"lapsed, and not swept yet": func(f *floor) {
			f.pass(2 * time.Hour)
			f.reserve(hub, func(c *reserve.Claim) { c.Place.Path = "/other" }, "x") // this call sweeps
		},
		"its time is up, and another has it": func(f *floor) {
			f.pass(time.Hour)
			f.reserve(hub, nil, "src/x")
		},
		"the name is another agent's, and what was kept is the old one's": func(f *floor) {
			f.register(other, "leaver", false)
		},
		"the name is its own again": func(f *floor) {
			f.reserve(f.register(hub, "leaver", false), nil, "d.go")
		},
		"operators released all": func(f *floor) { f.force("s1") },
		"operators released what was empty": func(f *floor) {
			f.force("s1")
			f.force("s1")
		},
		"operators gave one to another": func(f *floor) { f.force("s1", "reservation", "r1", "to", "writer") },
		"operators interrupted": func(f *floor) {
			j := f.submit(hub, op.Ask{Op: op.ReleaseAll, Target: op.Target{Kind: op.KindScope, Name: "s1"}, Params: op.Params{}})
			f.approve(j.Steps[0].ID)
			s, ok := f.dispatch(j.Steps[0].ID)
			require.True(f.t, ok)
			require.NoError(f.t, f.act(s))
		},
		"restored from a backup": func(f *floor) {
			require.NoError(f.t, f.store.Update(f.t.Context(), func(tx *store.Tx) error {
				must.Get(agent.Clear(tx))(f.t)
				must.Get(reserve.Clear(tx))(f.t)
				_, err := audit.Append(tx, audit.Entry{Kind: audit.Restored, Gate: f.id, Time: f.wall})
				return err
			}))
			f.reserve(f.register(hub, "builder", false), nil, "**")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := workday(t)
			live(f)
			sound(t, f.path)
		})
	}
}

// TestForgedReservations changes one thing by hand.
func TestForgedReservations(t *testing.T) {
	t.Parallel()
	f := workday(t)
	released := f.force("s1", "reservation", "r5", "to", "writer")
	r := sound(t, f.path)
	require.Equal(t, int64(6), r.Checked["reservations"])
	require.Equal(t, int64(3), r.Checked["agents"])
	require.Equal(t, op.StateSucceeded, released.State())
	require.NoError(t, f.store.Close())
	const (
		held   = "reservations"
		agents = "agents"
		apart  = "apart"
		permit = "permit"
	)
	for _, c := range []struct{ name, rule, where, says, sql string }{
		{"one more", held, "r99", "does not contain that builder got it", `INSERT INTO reservations SELECT 99, scope, agent, uid, registration, mode, fold,
			digest, weight, reason, keep, created_at, expires_at, due_at, member FROM reservations WHERE id = 2; INSERT INTO reservation_patterns VALUES('/repo/zz', 99, 'zz')`},
		{"one less", held, "r1", "there is no row of it", `DELETE FROM reservation_patterns WHERE reservation = 1; DELETE FROM reservations WHERE id = 1`},
		{"another agent's", held, "r1", "another holder", `UPDATE reservations SET agent = 'writer', registration = 3 WHERE id = 1`},
		{"another uid's", held, "r1", "another holder", `UPDATE reservations SET uid = 1001 WHERE id = 1`},
		{"a bare uid's", held, "r1", "another holder", `UPDATE reservations SET agent = '', registration = 0 WHERE id = 1`},
		{"bound to another", held, "r1", "not its holder's", `UPDATE reservations SET registration = 2 WHERE id = 1`},
		{"bound to no agent", held, "r1", "not its holder's", `UPDATE reservations SET registration = 77 WHERE id = 1`},
		{"not kept", held, "r6", "which has ended", `UPDATE reservations SET keep = 0 WHERE id = 6`},
		{"for longer", held, "r1", "another end", `UPDATE reservations SET expires_at = expires_at + 1 WHERE id = 1`},
		{"for less", held, "r1", "another end", `UPDATE reservations SET expires_at = expires_at - 1, due_at = due_at - 1 WHERE id = 1`},
		{"in another mode", held, "r1", "another mode", `UPDATE reservations SET mode = 'shared' WHERE id = 1`},
		{"of another path", held, "r2", "another directory or other patterns", `UPDATE reservation_patterns SET pattern = 'z.go', prefix = '/repo/z.go' WHERE reservation = 2`},
		{"of one path less", held, "r1", "other patterns", `DELETE FROM reservation_patterns WHERE reservation = 1 AND pattern = 'a.go'`},
		{"of one path more", held, "r2", "other patterns", `INSERT INTO reservation_patterns VALUES('/repo/z.go', 2, 'z.go')`},
		{"under a prefix that no search finds", apart, "reservations", "is kept at", `UPDATE reservation_patterns SET prefix = '/zzz' WHERE reservation = 2`},
		{"of another directory", held, "r1", "another directory", `UPDATE scopes SET path = '/other'`},
		{"of one made anew", held, "r1", "another directory", `UPDATE scopes SET inode = inode + 1`},
		{"two overlap", apart, "reservations", "overlap", `UPDATE reservations SET mode = 'exclusive' WHERE id = 3`},
		{"a step that was never", permit, "scope/s1", "none of that id ran on it", `UPDATE scopes SET last_step = 'j9.1'`},
		{"no step", permit, "scope/s1", "none of that id ran on it", `UPDATE scopes SET last_step = 'x'`},

		{"a forged agent", agents, "mallory#9", "does not contain", `INSERT INTO agents VALUES(9, 'mallory', 1000, 666, 1, 'b', '', 0, '')`},
		{"an agent's other process", agents, "builder#1", "another process or token", `UPDATE agents SET pid = 666 WHERE id = 1`},
		{"an agent of another boot", agents, "builder#1", "another process or token", `UPDATE agents SET boot = 'x' WHERE id = 1`},
		{"a process of the same number", agents, "builder#1", "another process or token", `UPDATE agents SET start = 8 WHERE id = 1`},
		{"another token", agents, "tester#2", "another process or token", `UPDATE agents SET token = 'x' WHERE id = 2`},
		{"a token for a process", agents, "tester#2", "another process or token", `UPDATE agents SET token = '', pid = 666 WHERE id = 2`},
		{"a process for a token", agents, "builder#1", "another process or token", `UPDATE agents SET token = 'x', pid = 0 WHERE id = 1`},
		{"another uid's agent", agents, "builder#1", "uid 0", `UPDATE agents SET uid = 0 WHERE id = 1`},
		{"another member's agent", agents, "builder#1", "uid 1000@node2", `UPDATE agents SET member = 'node2' WHERE id = 1`},
		{"another member's reservation", held, "r1", "another holder", `UPDATE reservations SET member = 'node2' WHERE id = 1`},
		{"another name", agents, "root#1", "does not contain", `UPDATE agents SET name = 'root' WHERE id = 1`},
		{"another number", agents, "builder#1", "there is no row", `UPDATE agents SET id = 50 WHERE id = 1`},
		{"an agent forgotten", agents, "writer#3", "there is no row", `DELETE FROM agents WHERE id = 3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems := check(t, byHand(t, f.path, c.sql)).Problems
			requireFound(t, problems, fsck.Problem{Rule: fsck.Rule(c.rule), Where: c.where, Detail: c.says})
		})
	}
}

// Callers of several members have the same uid, and fsck tells them apart.
func TestHoldersOfSeveralMembers(t *testing.T) {
	f := newFloor(t)
	one := op.Requester{Source: op.SourceAPI, UID: 1000, PID: 9, Set: "node1"}
	two := op.Requester{Source: op.SourceAPI, UID: 1000, PID: 9, Set: "node2"}
	builder := f.register(two, "builder", false)
	writer := f.register(one, "writer", true)
	f.reserve(one, nil, "a/**")
	f.reserve(two, nil, "b/**")
	r3 := f.reserve(builder, nil, "c/**")
	f.reserve(writer, kept, "d/**")
	must.Get(f.book.Transfer(t.Context(), builder, r3, "writer"))(t)
	must.Get(f.book.Renew(t.Context(), two, 2, 2*time.Hour))(t)
	must.Get(f.book.Release(t.Context(), one, 1))(t)
	f.end("builder")
	sound(t, f.path)
	require.NoError(t, f.store.Close())
	for _, c := range []struct{ name, where, says, sql string }{
		{"a bare uid's, of the other member", "r2", "another holder", `UPDATE reservations SET member = 'node1' WHERE id = 2`},
		{"an agent's, of the other member", "r3", "another holder", `UPDATE reservations SET member = 'node2' WHERE id = 3`},
		{"of no member", "r2", "another holder", `UPDATE reservations SET member = '' WHERE id = 2`},
		{"an agent of the other member", "writer#2", "does not contain that uid 1000@node2 got the name", `UPDATE agents SET member = 'node2' WHERE id = 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems := check(t, byHand(t, f.path, c.sql)).Problems
			require.True(t, slices.ContainsFunc(problems, func(p fsck.Problem) bool { return p.Where == c.where && strings.Contains(p.Detail, c.says) }), "%+v", problems)
		})
	}
}

func requireFound(t *testing.T, problems []fsck.Problem, want fsck.Problem) {
	t.Helper()
	require.True(t, slices.ContainsFunc(problems, func(p fsck.Problem) bool {
		return p.Rule == want.Rule && p.Where == want.Where && strings.Contains(p.Detail, want.Detail)
	}), "%+v", problems)
}

// TestEntriesThatCannotBe: the log is whole, and it has what no gate would allow.
func TestEntriesThatCannotBe(t *testing.T) {
	t.Parallel()
	f := workday(t)
	step := f.force("s1", "reservation", "r5", "to", "writer").Steps[0].ID.String()
	var log []audit.Entry
	require.NoError(t, f.store.View(t.Context(), func(tx *store.Tx) (err error) { log, err = audit.After(tx, 0, 1000); return err }))
	sound(t, f.path)
	require.NoError(t, f.store.Close())
	// made is the entry of r1's making, with one change.
	made := func(kind audit.Kind, change func(*audit.Entry)) audit.Entry {
		i := slices.IndexFunc(log, func(e audit.Entry) bool { return e.Reservation == "r1" })
		e := log[i]
		e.Kind, e.Time = kind, f.wall
		change(&e)
		return e
	}
	agent := func(kind audit.Kind, by, name string, id int64) audit.Entry {
		return audit.Entry{Kind: kind, By: by, Time: f.wall,
			Parts: audit.Parts{Registration: audit.Registration{ID: id, Name: name}}}
	}
	const held, permit, agents, log1 = "reservations", "permit", "agents", "audit-log"
	for name, c := range map[string]struct {
		entry audit.Entry
		want  fsck.Problem
	}{
		"released by another": {made(audit.Released, func(e *audit.Entry) { e.By = "agent:writer#3" }), fsck.Problem{Rule: held, Where: "r1",
			Detail: "released by agent:writer#3, who did not hold it"}},
		"released by its bare uid": {made(audit.Released, func(e *audit.Entry) { e.By = "uid:1000" }), fsck.Problem{Rule: held, Where: "r1", Detail: "did not hold it"}},
		"released by nobody":       {made(audit.Released, func(e *audit.Entry) { e.By = "gate" }), fsck.Problem{Rule: held, Where: "r1", Detail: "did not hold it"}},
		"released by a step that ended": {made(audit.Released, func(e *audit.Entry) { e.By, e.Step = "gate", step }), fsck.Problem{Rule: permit, Where: "r1",
			Detail: "which was not under way for that"}},
		"released by a step that is none": {made(audit.Released, func(e *audit.Entry) { e.By, e.Step = "gate", "j99.1" }), fsck.Problem{Rule: permit, Where: "r1", Detail: "j99.1"}},
		"transferred by another": {made(audit.Transferred, func(e *audit.Entry) { e.By, e.Holder = "agent:writer#3", "writer" }), fsck.Problem{Rule: held, Where: "r1",
			Detail: "did not hold it"}},
		"transferred to nobody": {made(audit.Transferred, func(e *audit.Entry) { e.Holder = "nobody" }), fsck.Problem{Rule: held, Where: "r1", Detail: "who was not there for it"}},
		"renewed by another":    {made(audit.Renewed, func(e *audit.Entry) { e.By = "agent:writer#3" }), fsck.Problem{Rule: held, Where: "r1", Detail: "did not hold it"}},
		"renewed into other paths": {made(audit.Renewed, func(e *audit.Entry) { e.Patterns = []string{"**"} }), fsck.Problem{Rule: held, Where: "r1",
			Detail: "other paths than before"}},
		"renewed for another":   {made(audit.Renewed, func(e *audit.Entry) { e.Holder = "writer" }), fsck.Problem{Rule: held, Where: "r1", Detail: "gives it to writer"}},
		"lapsed before its end": {made(audit.Lapsed, func(*audit.Entry) {}), fsck.Problem{Rule: held, Where: "r1", Detail: "its time was up, which it was not"}},
		"reserved twice":        {made(audit.Reserved, func(*audit.Entry) {}), fsck.Problem{Rule: held, Where: "r1", Detail: "was in force"}},
		"reserved for another": {made(audit.Reserved, func(e *audit.Entry) { e.Reservation, e.Holder = "r50", "writer" }), fsck.Problem{Rule: held, Where: "r50",
			Detail: "gives it to writer"}},
		"reserved by who never was": {made(audit.Reserved, func(e *audit.Entry) { e.Reservation, e.By = "r50", "agent:builder#8" }), fsck.Problem{Rule: held, Where: "r50",
			Detail: "gives it to builder"}},
		"released what never was": {made(audit.Released, func(e *audit.Entry) { e.Reservation = "r50" }), fsck.Problem{Rule: held, Where: "r50", Detail: "was not in force"}},
		"about no reservation":    {made(audit.Released, func(e *audit.Entry) { e.Reservation = "x" }), fsck.Problem{Rule: log1, Where: "entry " + strconv.Itoa(len(log)+1), Detail: "no reservation"}},
		"a name that is taken":    {agent(audit.AgentRegistered, "uid:1000", "builder", 60), fsck.Problem{Rule: agents, Where: "builder#60", Detail: "a name that builder#1 has"}},
		"by nobody":               {agent(audit.AgentRegistered, "gate", "x", 60), fsck.Problem{Rule: agents, Where: "x#60", Detail: "under which uid"}},
		"about no registration":   {agent(audit.AgentRegistered, "uid:1000", "x", 0), fsck.Problem{Rule: log1, Where: "entry " + strconv.Itoa(len(log)+1), Detail: "no registration"}},
		"ended without a beginning": {agent(audit.AgentEnded, "gate", "x", 60), fsck.Problem{Rule: agents, Where: "x#60",
			Detail: "none that it began"}},
		"ended, and what it held not": {agent(audit.AgentEnded, "gate", "builder", 1), fsck.Problem{Rule: held, Where: "r1",
			Detail: "builder#1, which has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			requireFound(t, check(t, withEntries(t, f.path, []audit.Entry{c.entry})).Problems, c.want)
		})
	}
}
