package libvirt_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/driver/libvirt/libvirtworld"
)

// afterwards is a driver. After its work, the test changes the back end.
type afterwards struct {
	driver.Driver
	do func()
}

func (a afterwards) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, act, err := a.Driver.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		did, err := do(ctx)
		a.do()
		return did, err
	}), err
}

// A destroy that took one of two disks is not done, under any name of the remaining guest. The
// missing disk changes the incarnation, but does not make it another guest.
func TestHalfDestroyed(t *testing.T) {
	t.Parallel()
	l := libvirttest.Start(t)
	proxy := l.Proxy()
	for name, rename := range map[string]bool{"under its name": false, "renamed": true} {
		t.Run(name, func(t *testing.T) {
			l := l.For(t)
			w := libvirtworld.New(t, l, proxy)
			w.Make("web")
			l.Virsh("vol-create-as", "default", "more.qcow2", "16M", "--format", "qcow2")
			l.Virsh("attach-disk", "web", l.Image("more"), "vdb", "--config", "--subdriver", "qcow2")
			l.Run("chattr", "+i", l.Image("more"))
			defer func() { l.Run("chattr", "-i", l.Image("more")) }()
			g := drivertest.NewGate(t, w)
			g.Use(afterwards{w.Driver, func() {
				if rename {
					l.Virsh("domrename", "web", "db")
				}
			}})
			before := g.Look("web").Incarnation
			s := g.Do(drivertest.Hub, op.Ask{Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web"}, Params: op.Params{}})
			require.NoFileExists(t, l.Image("web"))
			require.FileExists(t, l.Image("more"))
			require.Equal(t, op.StateInterrupted, s.State, s.Detail)
			require.NotEqual(t, before, g.Look("web").Incarnation)
		})
	}
}
