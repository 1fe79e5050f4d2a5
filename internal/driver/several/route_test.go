package several

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/memory/memorytest"
	"gated/internal/test/must"
)

// patience bounds every wait, with a check at each tick. A wait only lasts that long if the
// test fails.
const (
	patience = 30 * time.Second
	tick     = time.Millisecond
)

type ctx = context.Context

// gated is a real gate in front of several back ends.
type gated struct{ *drivertest.Gate }

func newGate(t *testing.T, w *world) gated {
	return gated{drivertest.NewGate(t, drivertest.World{Driver: w})}
}

func (g gated) destroy(name string) {
	g.Done(drivertest.Hub, op.Ask{Op: "guest.destroy", Target: guest(name), Params: op.Params{}})
}

func (g gated) create(name string) op.Step {
	return g.Ask(drivertest.Hub, op.Ask{Op: "guest.create", Target: guest(name), Params: op.Params{}})
}

// The suite of all drivers, over a back end beside another.
func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.World {
		w := memorytest.New(t)
		company := newFakes(t, "company")
		c := company.config()
		c.NewGuests, c.Backends = "memory", append(c.Backends, backend{w.Driver})
		d := must.Get(New(t.Context(), c))(t)
		w.Driver, w.Restart = d, func() driver.Driver { return d }
		return w
	})
}

// backend is a driver with a name.
type backend struct{ driver.Driver }

func (backend) Name() string                           { return "memory" }
func (backend) Check(context.Context) []driver.Finding { return nil }

func TestStepsRunWhereTheirTargetIs(t *testing.T) {
	w, a, b := newWorld(t)
	g := newGate(t, w)
	b.Put("db", nil)
	g.Done(drivertest.Hub, op.Ask{Op: "guest.start", Target: guest("db"), Params: op.Params{}})
	require.Equal(t, 1, b.calls("prepare"))
	g.Done(drivertest.Hub, op.Ask{Op: "guest.create", Target: guest("web"), Params: op.Params{}})
	require.Equal(t, 1, a.calls("prepare"))
	require.True(t, must.Get(a.Observe(t.Context(), op.At(guest("web"))))(t).Present)
}

// While a back end is away that may have the name, no guest is made, and the step waits.
func TestNothingIsMadeWhileOneIsAway(t *testing.T) {
	w, a, b := newWorld(t)
	g := newGate(t, w)
	s := g.create("web")
	b.is(away)
	require.ErrorIs(t, g.Execute(s.ID), refusal.Unavailable)
	require.Equal(t, op.StatePlanned, g.Step(s.ID).State, "it stays")
	require.Zero(t, a.calls("prepare"))
	_, err := g.Submit(drivertest.Hub, op.Ask{Op: "guest.create", Target: guest("other"), Params: op.Params{}})
	require.ErrorIs(t, err, refusal.Unavailable)

	b.is(well)
	require.NoError(t, g.Execute(s.ID))
	require.Equal(t, 1, a.calls("prepare"))
}

// If another back end has the name meanwhile, the step is refused before the permit is used.
func TestAClaimMeanwhile(t *testing.T) {
	w, a, b := newWorld(t)
	g := newGate(t, w)
	a.Put("web", nil)
	r := g.Approved(drivertest.Hub, op.Ask{Op: "guest.destroy", Target: guest("web"), Params: op.Params{}})
	b.Put("web", nil)
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget)
	require.Zero(t, a.calls("prepare")+b.calls("prepare"))

	s := g.create("new")
	b.Put("new", nil)
	require.Error(t, g.Execute(s.ID))
	require.Zero(t, a.calls("prepare"))
}

// A signed step waits until the back end is back, and then runs.
func TestWhatWasSignedWaits(t *testing.T) {
	w, _, b := newWorld(t)
	g := newGate(t, w)
	b.Put("db", nil)
	r := g.Waiting(drivertest.Hub, op.Ask{Op: "guest.destroy", Target: guest("db"), Params: op.Params{}})
	b.is(away)
	require.Error(t, g.Refresh(t.Context(), guest("db")))
	require.Equal(t, op.StatePending, g.Step(r.ID).State, "the request stays")
	must.Fail(g.Approve(r))(t, refusal.Unavailable)
	require.Equal(t, op.StatePending, g.Step(r.ID).State)
	b.is(well)
	must.Get(g.Approve(r))(t)
	b.is(away)
	require.ErrorIs(t, g.Execute(r.ID), refusal.Unavailable)
	require.Equal(t, op.StateAuthorized, g.Step(r.ID).State, "what was signed stays signed")
	b.is(well)
	require.NoError(t, g.Execute(r.ID))
	require.False(t, must.Get(b.Observe(t.Context(), op.At(guest("db"))))(t).Present)
}

func TestTasksAreOfTheirBackEnd(t *testing.T) {
	w, _, b := newWorld(t)
	g := newGate(t, w)
	b.Put("db", nil)
	b.tasks = true
	s := g.Done(drivertest.Hub, op.Ask{Op: "guest.start", Target: guest("db"), Params: op.Params{}})
	require.Equal(t, "b:UPID:1", s.Task)
	require.Equal(t, 1, b.calls("task UPID:1"))
	b.is(away)
	_, err := w.Task(t.Context(), "b:UPID:1")
	require.Error(t, err)
	require.NotErrorIs(t, err, refusal.UnknownTarget, "nobody says that there is no such task")
	must.Fail(w.Task(t.Context(), "gone:1"))(t, refusal.Unavailable)
	must.Fail(w.Task(t.Context(), "1"))(t, refusal.UnknownTarget)
}
