package libvirt

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/op"
)

// allowed is a permit that a test gives itself.
type allowed struct {
	step op.Step
	use  func(op.Observed) error
	used bool
}

func (a *allowed) Step() op.Step { return a.step }
func (a *allowed) Use(_ context.Context, now op.Observed) error {
	a.used = true
	if a.use != nil {
		return a.use(now)
	}
	return nil
}

// tiny is what tests make guests from: emulated, and without anything on the disk.
var tiny = Template{Memory: 32, Disk: 16, Type: "qemu"}

type bed struct {
	*libvirttest.Libvirtd
	d *Driver
	t *testing.T
}

func newBed(t *testing.T) *bed {
	l := libvirttest.Start(t)
	d, err := New(Config{Socket: l.Socket, StopGrace: time.Second,
		Templates: map[string]Template{"default": tiny, "raw": {Memory: 32, Disk: 16, Type: "qemu", Format: formatRaw}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &bed{l, d, t}
}

func target(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

func (b *bed) step(verb, name string, p op.Params) *allowed {
	if p == nil {
		p = op.Params{}
	}
	return &allowed{step: op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest." + verb, Target: target(name), Params: p}}
}

func (b *bed) try(verb, name string, p op.Params) error {
	a := b.step(verb, name, p)
	if verb == "create" {
		a.step.Birth = newUUID()
	}
	_, err := b.d.execute(b.t.Context(), a)
	return err
}

func (b *bed) must(verb, name string, p op.Params) {
	b.t.Helper()
	require.NoError(b.t, b.try(verb, name, p))
}

func (b *bed) look(name string) op.Observed {
	b.t.Helper()
	o, err := b.d.Observe(b.t.Context(), op.At(target(name)))
	require.NoError(b.t, err)
	return o
}

// A guest's whole life against a real libvirtd.
func TestLife(t *testing.T) {
	b := newBed(t)
	require.False(t, b.look("web").Present)
	b.must("create", "web", op.Params{"memory": int64(48), "labels": map[string]any{"tier": "prod"}})
	b.must("create", "other", nil)
	o := b.look("web")
	require.True(t, o.Present)
	require.Equal(t, stopped, o.Running)
	require.Equal(t, int64(48), o.Spec.Int("memory"))
	require.Equal(t, map[string]string{"tier": "prod"}, o.Labels)
	require.Len(t, o.Storage, 1)
	require.Equal(t, int64(16<<20), o.Disks[0].Size)
	all, err := b.d.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, o.Incarnation, all[1].Incarnation)
	require.Equal(t, o.Fingerprint, all[1].Fingerprint)

	b.must("start", "web", nil)
	now := b.look("web")
	require.Equal(t, running, now.Running)
	require.Equal(t, o.Fingerprint, now.Fingerprint, "running is no part of it")
	b.must("stop", "web", nil)
	require.Equal(t, o.Fingerprint, b.look("web").Fingerprint)
	b.must("start", "web", nil)
	b.must("destroy", "web", nil)
	require.False(t, b.look("web").Present)
	left, err := os.ReadDir(b.Images)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the other's disk is left")
	require.True(t, b.look("other").Present)
	for _, f := range b.d.Check(t.Context()) {
		require.Equal(t, "ok", string(f.State), f)
	}
}
