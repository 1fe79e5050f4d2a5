package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// allowed is a permit that a test makes.
type allowed struct {
	step op.Step
	used bool
}

func (a *allowed) Step() op.Step                          { return a.step }
func (a *allowed) Use(context.Context, op.Observed) error { a.used = true; return nil }

// bed is a libvirtd without guests, with the driver before it.
type bed struct {
	*libvirttest.Libvirtd
	d *Driver
	t *testing.T
}

// templates are the templates of tests: emulated, with an empty disk.
var templates = map[string]Template{
	"default": {Memory: 32, Disk: 16, Type: "qemu"},
	"raw":     {Memory: 32, Disk: 16, Type: "qemu", Format: formatRaw},
	"copy":    {Memory: 32, Disk: 32, Type: "qemu", Image: "base.qcow2"},
	"no-net":  {Memory: 32, Disk: 16, Type: "qemu", Network: "no-such-network"},
	"no-mach": {Memory: 32, Disk: 16, Type: "qemu", Machine: "no-such-machine"},
}

func (b *bed) open(c Config) *Driver {
	b.t.Helper()
	c.Socket = orElse(c.Socket, b.Socket)
	c.StopGrace = orElse(c.StopGrace, 100*time.Millisecond)
	c.Templates = templates
	d := must.Get(New(c))(b.t)
	b.t.Cleanup(func() { require.NoError(b.t, d.Close()) })
	return d
}

// beds are the tests that need a libvirtd. They share one and run one after the other.
var beds = map[string]func(*bed){}

func TestLibvirtd(t *testing.T) {
	t.Parallel()
	l := libvirttest.Start(t)
	for name, test := range beds {
		t.Run(name, func(t *testing.T) {
			b := &bed{Libvirtd: l.For(t), t: t}
			b.Clear()
			b.d = b.open(Config{})
			test(b)
		})
	}
}

func target(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

// try runs a step and reports whether its permit was used. The look before it says what the
// step is refused for, and nothing else.
func (b *bed) try(verb, name string, kv ...any) (driver.Result, bool, error) {
	b.t.Helper()
	a := &allowed{step: op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest." + verb, Target: target(name), Params: gateworld.Params(kv...)}}
	if verb == "create" {
		a.step.Birth = newUUID()
	}
	seen, unseen := b.d.Observe(b.t.Context(), a.step.Look())
	r, err := drivertest.Rehearse(b.t.Context(), a, b.d.prepare)
	if unseen == nil && driver.Fits(a.step, seen) == nil {
		want := op.Observed{}
		if !a.used {
			want.Foresee(err)
		}
		require.Equal(b.t, want.Cannot, seen.Cannot, "what a look says of %s", a.step.Op)
		require.Equal(b.t, want.Clear, seen.Clear, a.step.Op)
	}
	return r, a.used, err
}

func (b *bed) must(verb, name string, kv ...any) driver.Result {
	b.t.Helper()
	r, _ := must.Two(b.try(verb, name, kv...))(b.t)
	return r
}

// refused runs a step that must be refused before its permit is used.
func (b *bed) refused(code error, verb, name string, kv ...any) {
	b.t.Helper()
	_, used, err := b.try(verb, name, kv...)
	require.ErrorIs(b.t, err, code)
	require.False(b.t, used, "the permit was used for what cannot work")
}

func (b *bed) look(name string) op.Observed {
	b.t.Helper()
	return must.Get(b.d.Observe(b.t.Context(), op.At(target(name))))(b.t)
}

func (b *bed) fact(name, fact string) string {
	b.t.Helper()
	for _, f := range b.look(name).Facts {
		if f.Name == fact {
			return f.Text
		}
	}
	return ""
}

// files are the names of the files in the pool.
func (b *bed) files() []string {
	b.t.Helper()
	found := must.Get(os.ReadDir(b.Images))(b.t)
	var out []string
	for _, e := range found {
		out = append(out, e.Name())
	}
	return out
}

// file writes a file, and returns its path.
func (b *bed) file(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	require.NoError(b.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// holds reports whether a disk begins with bytes of this value, as a guest would read it.
func (b *bed) holds(path, format string, value string) bool {
	b.t.Helper()
	return !strings.Contains(b.Run("qemu-io", "-f", format, "-c", "read -P "+value+" 0 64k", path), "verification failed")
}
