package proxmox_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/gateworld"
)

// world is a cluster with a driver and a gate in front of it.
type world struct {
	*drivertest.Gate
	*pvetest.Cluster
	w    drivertest.World
	d    *proxmox.Driver
	t    *testing.T
	what string // "qemu" or "lxc"
}

func (w *world) kind() string { return w.what }

func newWorld(t *testing.T, kind string, nodes ...string) *world {
	t.Helper()
	c := pvetest.New(t, nodes...)
	w := pveworld.Over(t, c, kind)
	return &world{Gate: drivertest.NewGate(t, w), Cluster: c, w: w, d: w.Driver.(*proxmox.Driver), t: t, what: kind}
}

func guestAsk(verb, name string, kv ...any) op.Ask {
	return op.Ask{Op: "guest." + verb, Target: op.Target{Kind: "guest", Name: name}, Params: gateworld.Params(kv...)}
}

// ours makes a guest through the gate and returns its vmid.
func (w *world) ours(name string, kv ...any) int {
	w.t.Helper()
	w.Done(drivertest.Hub, guestAsk("create", name, kv...))
	vmid := w.VMID(name)
	require.NotZero(w.t, vmid)
	require.Equal(w.t, "1", w.Guest(vmid).Config["protection"], "what the gate made is not protected")
	return vmid
}

// run runs an authorized step and returns the driver's result.
func (w *world) run(id op.StepID) (driver.Result, error) {
	w.t.Helper()
	return driver.Run(context.WithoutCancel(w.t.Context()), w.Permitted(id), w.d)
}

func num(vmid int) string { return strconv.Itoa(vmid) }

// either runs a test for each kind of guest.
func either(t *testing.T, fn func(*testing.T, string)) {
	for _, kind := range []string{"qemu", "lxc"} {
		t.Run(kind, func(t *testing.T) { fn(t, kind) })
	}
}

// eitherWorld is either with a world of each kind.
func eitherWorld(t *testing.T, fn func(*testing.T, *world)) {
	either(t, func(t *testing.T, kind string) { fn(t, newWorld(t, kind)) })
}

// edit changes a guest's description without the driver.
func (w *world) edit(vmid int, from, to string) {
	w.t.Helper()
	text := w.Guest(vmid).Config["description"]
	require.Contains(w.t, text, from)
	w.Set(vmid, map[string]string{"description": strings.Replace(text, from, to, 1)})
}
