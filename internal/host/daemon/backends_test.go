package daemon_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/memory"
	"gated/internal/host/daemon"
	"gated/internal/test/must"
)

// hypervisor is a back end in the place of libvirt's, with guests in memory.
type hypervisor struct {
	*memory.Driver
	away atomic.Bool
}

var errAway = errors.New("connection refused")

func (*hypervisor) Name() string { return "libvirt" }

func (h *hypervisor) List(ctx context.Context) ([]op.Observed, error) {
	if h.away.Load() {
		return nil, errAway
	}
	return h.Driver.List(ctx)
}

func (h *hypervisor) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if h.away.Load() {
		return op.Observed{}, errAway
	}
	return h.Driver.Observe(ctx, l)
}

func (h *hypervisor) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	if h.away.Load() {
		return op.Observed{}, driver.Action{}, errAway
	}
	return h.Driver.Prepare(ctx, step, cleanup)
}

func (h *hypervisor) Check(context.Context) []driver.Finding {
	if h.away.Load() {
		return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: errAway.Error(), Hint: "start libvirtd"}}
	}
	return []driver.Finding{{What: "reachable", State: driver.OK}, {What: "version", State: driver.OK, Detail: "9.0.0"}}
}

// newHypervisor returns the back end that a daemon opens for the section libvirt.
func newHypervisor(t *testing.T) *hypervisor {
	h := &hypervisor{Driver: memory.New(time.Now)}
	t.Cleanup(daemon.PutBackend(h))
	return h
}

// twoBackEnds is a world whose daemon has local and a hypervisor, in which new
// guests are made.
func twoBackEnds(t *testing.T) (*world, *hypervisor) {
	w, h := newWorld(t), newHypervisor(t)
	w.init()
	w.config("libvirt: {}\nlocal: {}\nnew_guests: libvirt\ndesired: {interval: 1s}\n")
	return w, h
}

// guestStates are the guests that are listed, by name, with their state and back end.
func (w *world) guestStates() map[string]string {
	w.t.Helper()
	guests := must.Get(w.client.Guests(w.t.Context()))(w.t)
	out := map[string]string{}
	for _, g := range guests {
		out[g.Name] = g.State + " " + g.Backend
	}
	return out
}

// backEnd is how the daemon says that one back end is.
func (w *world) backEnd(name string) api.Backend {
	w.t.Helper()
	list := must.Get(w.client.Backends(w.t.Context()))(w.t)
	i := slices.IndexFunc(list, func(b api.Backend) bool { return b.Name == name })
	require.GreaterOrEqual(w.t, i, 0, "there is no %s", name)
	return list[i]
}

// A gate with two back ends, of which one goes away while a request about one of
// its guests waits.
func TestTwoBackEnds(t *testing.T) {
	w, h := twoBackEnds(t)
	h.Put("db", nil)
	h.Put("cache", nil)
	w.serve()
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web")).State)
	require.Equal(t, map[string]string{"db": "stopped libvirt", "cache": "stopped libvirt", "web": "stopped libvirt"}, w.guestStates())
	require.True(t, w.health("back end libvirt").OK)
	require.True(t, w.health("back end local").OK)
	b := w.backEnd("libvirt")
	require.Equal(t, []any{api.BackendOK, "9.0.0", true, "guest"}, []any{b.State, b.Version, b.NewGuests, b.Kind})
	require.NotNil(t, b.Since)
	require.NotEmpty(t, w.backEnd("local").Findings)

	j := w.submit(ask("guest.destroy", "db"))
	require.Equal(t, op.StatePending, j.State)
	h.away.Store(true)
	require.Equal(t, map[string]string{"db": "unknown libvirt", "cache": "unknown libvirt", "web": "unknown libvirt"}, w.guestStates())
	g := must.Get(w.client.Guest(t.Context(), "db"))(t)
	require.Equal(t, "unknown", g.State)
	require.Contains(t, g.Error.Detail, "the back end libvirt is away: ")
	said := w.health("back end libvirt")
	require.False(t, said.OK)
	require.Contains(t, said.Detail, "away since")
	require.Equal(t, api.BackendAway, w.backEnd("libvirt").State)

	must.Fail(w.client.Submit(t.Context(), ask("guest.create", "new"), ""))(t, refusal.Unavailable, "it may be there")
	require.ErrorIs(t, w.approve(*j.Request), refusal.Unavailable)
	require.Equal(t, op.StatePending, w.await(j.ID).State, "the request stays")
	plan := must.Get(w.client.Plan(t.Context(), "", []byte("apiVersion: gated/v1\nhost: "+testHost+"\nguests:\n"+
		"  - {name: db, state: absent}\n  - {name: other, state: running}\n")))(t)
	for _, g := range plan.Guests {
		require.Equal(t, api.ActionError, g.Action, g.Name)
		require.Equal(t, refusal.Unavailable, g.Error.Code, g.Name)
		require.Contains(t, g.Error.Detail, "libvirt is away", g.Name)
	}

	h.away.Store(false)
	require.Equal(t, "stopped libvirt", w.guestStates()["db"])
	require.NoError(t, w.approve(*j.Request))
	require.Equal(t, op.StateSucceeded, w.outcome(j.ID))
	require.NotContains(t, w.guestStates(), "db")
	w.haltSound()
}

// outcome waits for the end of a job that was signed.
func (w *world) outcome(id string) op.State {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	j := must.Get(w.client.AwaitJob(ctx, id, func(j api.Job) bool { return !j.State.Open() }))(w.t)
	return j.State
}

// Desired state is not pursued for what may be in a back end that is away, and is
// when that is back.
func TestDesiredStateWaitsForABackEnd(t *testing.T) {
	w, h := twoBackEnds(t)
	h.away.Store(true) // from the start
	w.serve()
	_, err := w.client.PutSet(t.Context(), "all", "", []byte("apiVersion: gated/v1\nhost: "+testHost+"\nguests:\n  - {name: app, state: running}\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for _, s := range w.status().Health {
			if s.Name == "guest/app" {
				return !s.OK
			}
		}
		return false
	}, patience, 10*time.Millisecond, "status says that it is unknown")
	require.Empty(t, must.Get(w.client.Jobs(t.Context(), client.JobQuery{}))(t).Jobs, "nothing is planned")
	h.away.Store(false)
	require.Eventually(t, func() bool { return w.guestStates()["app"] == "running libvirt" }, patience, 10*time.Millisecond)
}

// What two back ends claim at the start refuses the start.
func TestTwoBackEndsWithOneName(t *testing.T) {
	w, h := newWorld(t), newHypervisor(t)
	w.init()
	w.serve()
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web")).State)
	w.halt()
	h.Put("web", nil)
	w.config("libvirt: {}\nlocal: {}\nnew_guests: local\n")
	refused(t, w.run(t.Context()), refusal.Conflict, "guest/web", "libvirt", "local")
}

// A gate without local needs no directory for it.
func TestNoLocal(t *testing.T) {
	w, h := newWorld(t), newHypervisor(t)
	w.init()
	w.config("libvirt: {}\n")
	h.Put("db", nil)
	w.serve()
	require.Equal(t, map[string]string{"db": "stopped libvirt"}, w.guestStates())
	require.NoDirExists(t, filepath.Join(w.state, "guests"))
	require.Empty(t, w.status().Limits)
	require.Equal(t, 1, w.status().Guests)
}
