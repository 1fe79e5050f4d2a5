package proxmox_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// The destroy is done, and before the gate looks, other hands gave the number to a new guest. The destroy is recorded as done, also if its
// answer was lost, and after a restart.
func TestADestroyWhoseNumberIsGivenAgain(t *testing.T) {
	takers := map[string]pvetest.Spec{"another name": {Name: "other"}, "the same name": {Name: "web"}}
	ends := map[string]func(*world){
		"its task was seen":   func(*world) {},
		"its answer was lost": func(w *world) { w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.DropAfter, Times: 1}) },
	}
	either(t, func(t *testing.T, kind string) {
		for name, spec := range takers {
			for how, end := range ends {
				for _, restart := range []bool{false, true} {
					w := newWorld(t, kind)
					vmid := w.ours("web")
					r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
					end(w)
					err := w.Execute(r.ID)
					require.Equal(t, how == "its answer was lost", err != nil, err)
					require.False(t, w.Exists(vmid))
					spec.VMID, spec.Kind = vmid, kind
					w.Make(spec)
					if restart {
						w.restarts(kind)
					}
					w.Reconcile()
					s := w.Step(r.ID)
					require.Equal(t, op.StateSucceeded, s.State, "%s, %s, restart %t: %s", name, how, restart, s.Detail)
					require.True(t, w.Exists(vmid), "the new guest is nobody's to destroy")
				}
			}
		}
	})
}

// The guest is still there, and other hands changed what they can. That it has another name, other network addresses or no mark is no
// proof that it is gone.
func TestAGuestThatOtherHandsChangedIsNotGone(t *testing.T) {
	changes := map[string]func(w *world, vmid int){
		"its name":      func(w *world, vmid int) { w.Set(vmid, map[string]string{nameKey[w.kind()]: "web-old"}) },
		"its addresses": func(w *world, vmid int) { w.readdress(vmid) },
		"its mark":      func(w *world, vmid int) { w.Set(vmid, map[string]string{"description": ""}) },
		"its birth":     func(w *world, vmid int) { w.edit(vmid, `"birth":"`, `"birth":"other`) },
		"a machine's uuid": func(w *world, vmid int) {
			if w.kind() == "qemu" {
				w.Set(vmid, map[string]string{"smbios1": "uuid=00000000-0000-4000-8000-000000000001"})
			}
		},
		"a machine's mark and addresses": func(w *world, vmid int) {
			if w.kind() == "qemu" { // a container has nothing else
				w.Set(vmid, map[string]string{"description": ""})
				w.readdress(vmid)
			}
		},
	}
	either(t, func(t *testing.T, kind string) {
		for name, change := range changes {
			for _, fault := range []pvetest.Rule{{Method: "DELETE", Fault: pvetest.DropBefore, Times: 1}, {Fault: pvetest.Lie, Path: map[string]string{"qemu": "qmdestroy", "lxc": "vzdestroy"}[kind], Times: 1}} {
				w := newWorld(t, kind)
				vmid := w.ours("web")
				r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
				w.Break(fault)
				_ = w.Execute(r.ID) // a lie has no error
				require.True(t, w.Exists(vmid))
				change(w, vmid)
				w.Set(vmid, map[string]string{nameKey[kind]: "web-old"})
				w.Reconcile()
				s := w.Step(r.ID)
				require.NotEqual(t, op.StateSucceeded, s.State, "%s: %s", name, s.Detail)
				require.NotEqual(t, op.StateDispatched, s.State, name)
			}
		}
	})
}

// readdress gives a guest's network another address.
func (w *world) readdress(vmid int) {
	w.Set(vmid, map[string]string{"net0": map[string]string{"qemu": "virtio=BC:24:11:FF:FF:01,bridge=vmbr0",
		"lxc": "name=eth0,bridge=vmbr0,hwaddr=BC:24:11:FF:FF:01,type=veth"}[w.kind()]})
}

// The gate itself makes a guest between the end of a destroy and the look after it. The new guest gets another number, also if the
// destroy is of a guest that the gate did not make, and after a restart.
func TestACreateBeforeTheLookAtADestroy(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for _, ours := range []bool{true, false} {
			for _, restart := range []bool{false, true} {
				w := newWorld(t, kind)
				w.restarts(kind)
				vmid := 500
				if ours {
					vmid = w.ours("web")
				} else {
					w.Make(pvetest.Spec{VMID: vmid, Kind: kind, Name: "web"})
				}
				r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
				require.NoError(t, w.Execute(r.ID))
				require.False(t, w.Exists(vmid))
				if restart {
					w.restarts(kind)
				}
				s := w.Ask(drivertest.Hub, guestAsk("create", "next"))
				require.NoError(t, w.Execute(s.ID))
				require.NotEqual(t, vmid, w.VMID("next"))
				w.Reconcile()
				require.Equal(t, op.StateSucceeded, w.Step(r.ID).State, w.Step(r.ID).Detail)
				require.Equal(t, op.StateSucceeded, w.Step(s.ID).State, w.Step(s.ID).Detail)
			}
		}
	})
}

// Proxmox VE refuses it, and the guest would have been stopped for nothing.
func TestADestroyUnderHighAvailabilityIsRefusedAtOnce(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.Done(drivertest.Hub, guestAsk("start", "web"))
		w.SetHA(vmid, true)
		_, err := w.Submit(drivertest.Hub, guestAsk("destroy", "web"))
		require.ErrorIs(t, err, refusal.Conflict)
		require.Contains(t, refusal.As(err).Hint, "ha-manager remove "+map[string]string{"qemu": "vm", "lxc": "ct"}[w.kind()]+":"+num(vmid))
		w.SetHA(vmid, false)
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
		w.SetHA(vmid, true)
		must.Fail(w.run(r.ID))(t, refusal.Conflict)
		require.Equal(t, "running", w.Look("web").Running, "it was stopped for a step that cannot be done")
		w.SetHA(vmid, false)
		w.Done(drivertest.Hub, guestAsk("destroy", "web"))
	})
}

// A guest that other hands start after the look writes what nobody was shown. So nothing is taken from it.
func TestAGuestIsStartedBeforeSomethingIsTaken(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		key := map[string]string{"qemu": "scsi0", "lxc": "rootfs"}[kind]
		other := map[string]string{"qemu": "scsi1", "lxc": "mp1"}[kind]
		for _, ask := range []op.Ask{guestAsk("destroy", "web"), guestAsk("restore", "web", "snapshot", "s1"), guestAsk("disk-delete", "web", "disk", other)} {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", other, "size", int64(1024)))
			if ask.Op == "guest.restore" {
				w.Done(drivertest.Hub, guestAsk("snapshot", "web", "snapshot", "s1"))
			}
			p := w.Permitted(w.Approved(drivertest.Hub, ask).ID)
			var once sync.Once
			w.Store.OnCommit(func() {
				once.Do(func() { w.SetRunning(vmid, true); require.True(t, w.Add(vmid, key, []byte("written since"))) })
			})
			_, err := driver.Run(t.Context(), p, w.d)
			require.ErrorIs(t, err, refusal.StaleTarget, ask.Op)
			require.True(t, w.Guest(vmid).Running, ask.Op)
			require.Len(t, w.Look("web").Disks, 2, ask.Op)
			volume, _, _ := strings.Cut(w.Guest(vmid).Config[key], ",")
			data, _ := w.Data(volume)
			require.Contains(t, string(data), "written since", ask.Op)
			require.Equal(t, "1", w.Guest(vmid).Config["protection"], ask.Op)
		}
	})
}
