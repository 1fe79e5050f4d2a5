package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

var nameKey = map[string]string{"qemu": "name", "lxc": "hostname"}

// A destroy whose request was lost is not done if the guest is there under another name or with
// another disk.
func TestALostDestroyOfWhatIsStillThere(t *testing.T) {
	changes := map[string]func(*world, int){
		"renamed": func(w *world, vmid int) {
			w.Set(vmid, map[string]string{nameKey[w.Guest(vmid).Kind]: "web-old"})
		},
		"renamed, and another has the name": func(w *world, vmid int) {
			w.Set(vmid, map[string]string{nameKey[w.Guest(vmid).Kind]: "web-old"})
			w.Make(pvetest.Spec{Kind: w.Guest(vmid).Kind, Name: "web"})
		},
		"a disk more": func(w *world, vmid int) {
			w.w.Make("other")
			w.w.MoveDisk("other", "web")
		},
	}
	either(t, func(t *testing.T, kind string) {
		for name, change := range changes {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
			w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.DropBefore, Times: 1})
			require.Error(t, w.Execute(r.ID), name)
			change(w, vmid)
			w.Reconcile()
			require.Equal(t, op.StateInterrupted, w.Step(r.ID).State, "%s: %s", name, w.Step(r.ID).Detail)
			require.True(t, w.Exists(vmid), name)
		}
	})
}

// It is not done either if the token no longer sees the guest. The step stays open until the
// token sees it again.
func TestALostDestroyOfWhatIsHidden(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	was := w.Look("web").Incarnation
	w.Hide(vmid, true)
	cfg := pveworld.Config(t, w.Cluster, "qemu")
	w.use(cfg) // a driver that never saw it
	look := op.Look{Target: op.Target{Kind: "guest", Name: "web"}, Incarnation: was}
	must.Fail(w.d.Observe(t.Context(), look))(t, refusal.Unavailable)
	w.Hide(vmid, false)
	o := must.Get(w.d.Observe(t.Context(), look))(t)
	require.Empty(t, o.Lingers)
	w.Remove(vmid)
	o = must.Get(w.d.Observe(t.Context(), look))(t)
	require.False(t, o.Present)
	require.Empty(t, o.Lingers)
}

// If a guest is missing from the list but its vmid is taken, its name is not free.
func TestAGuestThatTheTokenCannotSee(t *testing.T) {
	hide := map[string]func(*world, int){
		"out of the pool": func(w *world, vmid int) { w.Hide(vmid, true) },
		"no VM.Audit":     func(w *world, _ int) { w.Revoke("VM.Audit") },
	}
	either(t, func(t *testing.T, kind string) {
		for name, hide := range hide {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
			hide(w, vmid)
			_, err := w.d.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: "web"}))
			require.ErrorIs(t, err, refusal.Unavailable, name)
			_, err = w.d.List(t.Context())
			require.NotEmpty(t, driver.Missing(err), name)
			require.ErrorIs(t, w.Execute(r.ID), refusal.Unavailable, name)
			require.Equal(t, op.StateAuthorized, w.Step(r.ID).State, name)
			must.Fail(w.Submit(drivertest.Hub, guestAsk("create", "web")))(t, refusal.Unavailable, name)
			w.Remove(vmid)
			must.Get(w.d.List(t.Context()))(t, "%s: it is gone by now", name)
			require.False(t, w.Look("web").Present)
		}
	})
}

// If many guests are missing at once, several rounds ask for them.
func TestManyGuestsThatAreGone(t *testing.T) {
	w := newWorld(t, "qemu")
	const guests = 40
	for i := range guests {
		w.Make(pvetest.Spec{VMID: 100 + i, Name: "g" + num(i)})
	}
	must.Get(w.d.List(t.Context()))(t)
	for i := range guests {
		w.Remove(100 + i)
	}
	for round := range 4 {
		list, err := w.d.List(t.Context())
		require.Empty(t, list)
		require.Equal(t, round < 2, driver.Missing(err) != "", "round %d", round)
	}
}

// A token that cannot see guests makes none, because it would not see them. The same holds for
// a token whose privilege is on / without the levels below.
func TestNoCreateWithoutSight(t *testing.T) {
	for name, blind := range map[string]func(*world){
		"no VM.Audit":    func(w *world) { w.Revoke("VM.Audit") },
		"not propagated": func(w *world) { w.Narrow() },
	} {
		w := newWorld(t, "qemu")
		s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
		blind(w)
		require.ErrorIs(t, w.Execute(s.ID), refusal.Unavailable, name)
		require.Zero(t, w.VMID("web"), name)
		require.Equal(t, op.StatePlanned, w.Step(s.ID).State, name)
		require.Contains(t, check(t, w.d), "permission VM.Audit", name)
	}
}

// A guest that was turned into a template keeps its name.
func TestAGuestThatBecameATemplate(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	s := w.Ask(drivertest.Hub, guestAsk("create", "other"))
	require.Equal(t, op.StatePlanned, s.State)
	w.Set(vmid, map[string]string{"template": "1"})
	must.Fail(w.Submit(drivertest.Hub, guestAsk("create", "web")))(t, refusal.Conflict)
	list := must.Get(w.d.List(t.Context()))(t)
	require.Len(t, list, 1)
	require.Equal(t, proxmox.Unknown, list[0].Running)
	w.Make(pvetest.Spec{Name: "web"})
	require.True(t, w.Look("web").Present, "a guest beside the template has the name")
}
