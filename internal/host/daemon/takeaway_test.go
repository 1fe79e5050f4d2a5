package daemon_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// wants has the test itself, a bare uid, ask for a step on a scope.
func (w *world) wants(name, target string, kv ...any) api.Job {
	w.t.Helper()
	s := ask(name, "", kv...)
	s.Target = &target
	return w.submit(s)
}

// TestTakingReservationsAway: with a signature over them as they are, and no
// other way.
func TestTakingReservationsAway(t *testing.T) {
	w, dir := serving(t)
	builder, tester := w.actor(nil), w.actor(nil)
	builder.does("register builder")
	tester.does("register tester")
	builder.does("reserve %s src/**", dir)
	tester.does("reserve %s docs/", dir)

	j := w.wants(op.ReleaseAll, "scope/s1")
	require.Equal(t, op.StatePending, j.State)
	old := w.envelope(*j.Request)

	// An agent that reserves in a loop makes it no other request while an operator
	// reads it: nothing is granted there.
	builder.cannot(refusal.Unavailable, "reserve %s more/", dir)
	tester.cannot(refusal.Unavailable, "reserve %s more/", dir)
	builder.cannot(refusal.Unavailable, "transfer r1 tester")
	builder.does("reserve %s src/**", dir) // it has that already
	require.Equal(t, old, w.envelope(*j.Request))

	tester.does("release r2") // the request is looked at again
	w.awaitEvent(w.self(), "reissued")
	must.Err(w.client.Approve(t.Context(), *j.Request, old))(t, "it was signed for other reservations")
	require.NoError(t, w.approve(*j.Request))
	require.Equal(t, op.StateSucceeded, w.await(j.ID).State)
	require.Empty(t, w.reservations())
	e := w.awaitEvent("builder", "released")
	require.Equal(t, "r1", e.Reservation)
	require.Equal(t, "r3", tester.does("reserve %s src/a", dir))

	j = w.wants(op.ForceTransfer, "scope/s1", "reservation", "r3", "to", "builder")
	require.NoError(t, w.approve(*j.Request))
	require.Equal(t, op.StateSucceeded, w.await(j.ID).State)
	require.Equal(t, []string{"r3 builder"}, w.reservations())
	require.Equal(t, "r3", w.awaitEvent("tester", "transferred").Reservation)
	tester.cannot(refusal.NotHolder, "release r3")

	// Who holds it dies, so nothing is left of what was to be signed.
	j = w.wants(op.ReleaseAll, "scope/s1")
	old = w.envelope(*j.Request)
	builder.kill()
	w.awaitEvent("builder", "orphaned")
	must.Err(w.client.Approve(t.Context(), *j.Request, old))(t)
	w.haltSound()
}

// TestARequestForWhatEnded does not stay: one ends with its reservation, however
// that ends, and others of the scope are nothing to it.
func TestARequestForWhatEnded(t *testing.T) {
	w, dir := serving(t)
	builder, tester, other := w.actor(nil), w.actor(nil), w.actor(nil)
	builder.does("register builder")
	tester.does("register tester")
	other.does("register other")
	builder.does("reserve %s src/**", dir)
	builder.does("reserve %s go.mod", dir)
	gives := func(id string) api.Job {
		return w.wants(op.ForceTransfer, "scope/s1", "reservation", id, "to", "tester")
	}
	released, orphaned := gives("r1"), gives("r2")
	old := w.envelope(*orphaned.Request)
	other.does("reserve %s docs/", dir)
	all := w.wants(op.ReleaseAll, "scope/s1")
	other.does("release r3")
	w.awaitEvent(w.self(), "reissued")
	require.Equal(t, old, w.envelope(*orphaned.Request), "what others reserve is nothing to it")

	builder.does("release r1")
	w.superseded(released.ID)
	builder.kill()
	w.superseded(orphaned.ID)
	must.Fail(w.client.Approve(t.Context(), *orphaned.Request, old))(t, refusal.Superseded)
	j := must.Get(w.client.Job(t.Context(), all.ID))(t)
	require.Equal(t, op.StatePending, j.State, "of all there is something to ask, also of none")
	w.haltSound()
}

// superseded waits until a job has ended, and requires that it did so.
func (w *world) superseded(job string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	j := must.Get(w.client.AwaitJob(ctx, job, func(j api.Job) bool { return !j.State.Open() }))(w.t)
	require.Equal(w.t, op.StateSuperseded, j.State)
}

// self is whom the daemon takes the test for.
func (w *world) self() string {
	w.t.Helper()
	me := must.Get(w.client.Self(w.t.Context()))(w.t)
	require.Nil(w.t, me.Agent)
	return op.Requester{Source: op.SourceAPI, UID: me.UID}.String()
}

// TestEventsOfOne: an agent sees what became of its wishes.
func TestEventsOfOne(t *testing.T) {
	w := newServing(t)
	builder, tester := w.actor(nil), w.actor(nil)
	builder.does("register builder")
	tester.does("register tester")
	w.submit(ask("guest.create", "web"))
	w.submit(ask("guest.create", "db"))
	job := strings.Fields(builder.does("destroy web"))[0]
	tester.does("destroy db")
	require.NoError(t, w.approve(job+".1"))
	require.Equal(t, op.StateSucceeded, w.await(job).State)
	e := w.awaitEvent("builder", "succeeded")
	require.Equal(t, job, e.Job)
	var kinds []string
	require.NoError(t, w.client.EventsFor(t.Context(), "builder", 0, false, func(e api.Entry) error {
		require.NotContains(t, string(e.Raw), "tester")
		kinds = append(kinds, e.Kind)
		return nil
	}))
	require.Equal(t, []string{"agent-registered", "requested", "approved", "dispatched", "succeeded"}, kinds)
	w.halt()
}

// TestStatusOfAgents says how many there are.
func TestStatusOfAgents(t *testing.T) {
	w := newServing(t)
	require.True(t, w.health("agents").OK)
	require.Zero(t, w.status().Agents)
	require.Zero(t, w.status().Reserved)
	a := w.actor(nil)
	require.Equal(t, "r1", a.does("reserve %s x", w.checkout("repo")), "a bare uid may reserve under no name")
	a.does("register a")
	require.Equal(t, 1, w.status().Agents)
	require.Equal(t, 1, w.status().Reserved)
	w.halt()
}
