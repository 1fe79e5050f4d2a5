package memory

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
)

var noon = gateworld.Noon

func clock() time.Time { return noon }

func target(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

func observe(t *testing.T, d *Driver, name string) op.Observed {
	t.Helper()
	return must.Get(d.Observe(t.Context(), op.At(target(name))))(t)
}

// act runs an operation as an action does after the permit was used.
func act(t *testing.T, d *Driver, verb, name string, p op.Params) error {
	t.Helper()
	return actions["guest."+verb](d, op.Step{Op: "guest." + verb, Target: target(name), Params: p, Birth: "b"})
}

func TestEveryOperationIsKnown(t *testing.T) {
	o := observe(t, New(clock), "web")
	for _, s := range op.Catalogue() {
		if s.Kind == New(clock).Kind() {
			_, does := actions[s.Name]
			require.Equal(t, does, slices.Contains(o.Ops, s.Name), s.Name)
		}
	}
}

func TestLifeOfAGuest(t *testing.T) {
	d := New(clock)
	require.False(t, observe(t, d, "web").Present)
	require.NoError(t, act(t, d, "create", "web", op.Params{"memory": int64(512), "state": "running"}))
	o := observe(t, d, "web")
	require.Equal(t, "b", o.Birth)
	require.Equal(t, "running", o.Running)
	require.Equal(t, int64(512), o.Spec.Int("memory"))

	same := o.Fingerprint
	require.NoError(t, act(t, d, "stop", "web", nil))
	require.Equal(t, "stopped", observe(t, d, "web").Running)
	require.NoError(t, act(t, d, "start", "web", nil))
	require.Equal(t, same, observe(t, d, "web").Fingerprint, "running state is not in it")
	for _, change := range []struct {
		verb string
		p    op.Params
	}{{"set-config", op.Params{"protected": true}}, {"set-config", op.Params{"labels": map[string]any{"a": "b"}}},
		{"snapshot", op.Params{"snapshot": "s"}}, {"restore", op.Params{"snapshot": "s"}}, {"wipe", nil},
		{"snapshot-delete", op.Params{"snapshot": "s"}}} {
		require.NoError(t, act(t, d, change.verb, "web", change.p), change.verb)
		now := observe(t, d, "web")
		require.NotEqual(t, same, now.Fingerprint, change.verb)
		require.Equal(t, o.Incarnation, now.Incarnation)
		same = now.Fingerprint
	}
	require.ErrorIs(t, act(t, d, "restore", "web", op.Params{"snapshot": "s"}), refusal.UnknownTarget)
	require.ErrorIs(t, act(t, d, "snapshot-delete", "web", op.Params{"snapshot": "s"}), refusal.UnknownTarget)

	require.NoError(t, act(t, d, "destroy", "web", nil))
	gone := observe(t, d, "web")
	require.False(t, gone.Present)
	require.Equal(t, []op.Trashed{{Incarnation: o.Incarnation, Until: noon.Add(TrashKeep)}}, gone.Trash)
	require.NoError(t, act(t, d, "undelete", "web", op.Params{"incarnation": string(o.Incarnation)}))
	require.Equal(t, same, observe(t, d, "web").Fingerprint)
	require.ErrorIs(t, act(t, d, "undelete", "web", nil), refusal.UnknownTarget)
}

func TestWhatWasReturnedStays(t *testing.T) {
	d := New(clock)
	d.Put("b", nil)
	d.Put("a", nil)
	list := must.Get(d.List(t.Context()))(t)
	require.Equal(t, []op.Target{target("a"), target("b")}, []op.Target{list[0].Target, list[1].Target})
	before := list[0]
	require.NoError(t, act(t, d, "set-config", "a", op.Params{"protected": true}))
	require.NoError(t, act(t, d, "snapshot", "a", op.Params{"snapshot": "s"}))
	require.Equal(t, before, list[0])
	require.False(t, list[0].Spec.Bool("protected"))
	list = must.Get(d.List(t.Context()))(t)
	require.True(t, list[0].Protected)
	require.NotEqual(t, d.Put("a", nil).Incarnation, before.Incarnation)
}

// TestAStepSeesWhatAHandDidAfterItsLook asks that no step works on a guest that somebody changed after the step's own look.
func TestAStepSeesWhatAHandDidAfterItsLook(t *testing.T) {
	for name, hand := range map[string]func(*Driver){
		"a field":       func(d *Driver) { d.Alter("a", op.Params{"memory": int64(2048)}) },
		"protected":     func(d *Driver) { d.Alter("a", op.Params{"protected": true}) },
		"a label":       func(d *Driver) { d.Alter("a", op.Params{"labels": map[string]any{"tier": "prod"}}) },
		"another guest": func(d *Driver) { d.Put("a", op.Params{"memory": int64(512)}) },
	} {
		for verb, p := range map[string]op.Params{"destroy": nil, "wipe": nil, "set-config": {"memory": int64(64)}, "start": nil} {
			t.Run(verb+" after "+name, func(t *testing.T) {
				d := New(clock)
				d.Put("a", op.Params{"memory": int64(512)})
				d.Before = func(op.Step) error { hand(d); return nil }
				step := op.Step{Op: "guest." + verb, Target: target("a"), Params: p}
				require.ErrorIs(t, d.do(step, observe(t, d, "a"), actions[step.Op]), refusal.StaleTarget)
				want := New(clock)
				want.Put("a", op.Params{"memory": int64(512)})
				hand(want)
				require.Equal(t, observe(t, want, "a"), observe(t, d, "a"))
			})
		}
	}
}

// newGate is a gate without operators.
func newGate(t *testing.T, d *Driver) *gate.Gate {
	t.Helper()
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	return gateworld.New(t, s, gateworld.Still, gate.Config{Observer: d, Host: "host", Trust: gateworld.Trust(t, "")})
}

func TestThroughARealGate(t *testing.T) {
	d := New(clock)
	g := newGate(t, d)
	j, err := g.Submit(t.Context(), op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: 1}, Steps: []op.Ask{
		{Op: "guest.create", Target: target("web"), Params: op.Params{}}}})
	require.NoError(t, err)
	id := j.Steps[0].ID
	p, err := g.Permit(t.Context(), id)
	require.NoError(t, err)

	lost := errors.New("lost")
	d.Before = func(op.Step) error { return lost }
	_, err = driver.Run(t.Context(), p, d)
	require.ErrorIs(t, err, lost)
	require.False(t, observe(t, d, "web").Present)
	d.Before = nil
	_, err = g.Record(t.Context(), id, gate.Outcome{Err: err, Transient: true})
	require.NoError(t, err)

	must.Err(driver.Run(context.Background(), p, d))(t, "a permit works once")
	p = must.Get(g.Permit(t.Context(), id))(t)
	must.Get(driver.Run(t.Context(), p, d))(t)
	o := observe(t, d, "web")
	require.Equal(t, j.Steps[0].Birth, o.Birth)
	require.Equal(t, op.StateSucceeded, must.Get(g.Record(t.Context(), id, gate.Outcome{After: &o}))(t).State)
}

func BenchmarkList10000(b *testing.B) {
	d := New(clock)
	for i := range 10_000 {
		d.Put("guest-"+string(rune('a'+i%26))+time.Duration(i).String(), nil)
	}
	for b.Loop() {
		list, err := d.List(b.Context())
		require.NoError(b, err)
		require.Len(b, list, 10_000)
	}
}
