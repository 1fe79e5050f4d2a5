package proxmox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

// If the answer to the request that takes the flag off is lost, the flag is on at the end.
func TestAChangeOfTheFlagThatIsLost(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for _, fault := range []pvetest.Fault{pvetest.DropAfter, pvetest.DropBefore} {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
			w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: fault, Times: 1})
			require.ErrorContains(t, must.Err(w.run(r.ID))(t), "take the protection off")
			require.True(t, w.Exists(vmid))
			require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		}
	})
}

// If a destroy failed, a process that did not begin it sets the flag again, too.
func TestADestroyThatFailsAfterARestart(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		vmid := w.ours("web")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
		held := w.Hold("")
		did := must.Get(w.run(r.ID))(t)
		require.Equal(t, "0", w.Guest(vmid).Config["protection"])
		held.Fail("lvremove failed")
		w.use(pveworld.Config(t, w.Cluster, kind))
		for range 2 {
			p := must.Get(w.d.Task(t.Context(), did.Task))(t)
			require.ErrorContains(t, p.Err, "lvremove failed")
			require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		}
	})
}

// If a guest with the mark lost the flag, to another user or in a crash, the next step sets it
// again. A look changes nothing.
func TestTheNextStepPutsTheFlagBack(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		key := secondDisk[kind]
		for _, ask := range []op.Ask{guestAsk("start", "web"), guestAsk("snapshot", "web", "snapshot", "s1"),
			guestAsk("disk-create", "web", "disk", key, "size", int64(1024))} {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			w.SetProtection(vmid, false)
			w.Look("web")
			must.Get(w.d.List(t.Context()))(t)
			require.Equal(t, "0", w.Guest(vmid).Config["protection"])
			w.Done(drivertest.Hub, ask)
			require.Equal(t, "1", w.Guest(vmid).Config["protection"], ask.Op)
		}
	})
}

// A clone has the flag, also if its original does not.
func TestACloneHasTheFlag(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		w.Make(pvetest.Spec{Kind: kind, Name: "by-hand"})
		w.Done(drivertest.Hub, guestAsk("clone", "copy", "from", "by-hand"))
		require.Equal(t, "1", w.Guest(w.VMID("copy")).Config["protection"])
		require.Empty(t, w.Guest(w.VMID("by-hand")).Config["protection"])
	})
}

// A rollback to a time before the mark or the flag keeps both, even if Proxmox VE does not keep
// the description. So does a backup.
func TestTheMarkStays(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for _, verb := range []string{"restore", "backup-restore"} {
			w := newWorld(t, kind)
			w.w.Make("web")
			vmid := w.VMID("web")
			ask := guestAsk("restore", "web", "snapshot", "before")
			if verb == "restore" {
				w.Done(drivertest.Hub, guestAsk("snapshot", "web", "snapshot", "before"))
			} else {
				w.Done(drivertest.Hub, guestAsk("backup", "web"))
				ask = guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0])
			}
			w.Done(drivertest.Hub, guestAsk("set-config", "web", "labels", map[string]any{"tier": "prod"}, "protected", true))
			require.Equal(t, "1", w.Guest(vmid).Config["protection"])
			w.Done(drivertest.Hub, guestAsk("set-config", "web", "protected", false))
			w.signed(ask)
			require.Equal(t, "1", w.Guest(vmid).Config["protection"], verb)
			require.Equal(t, "prod", w.Look("web").Labels["tier"], verb)
		}
	})
}

// If a node left the cluster, the results of its tasks are lost. If it is only away, they are
// not.
func TestATaskOfANodeThatLeft(t *testing.T) {
	w := newWorld(t, "qemu", "pve1", "pve2")
	w.Make(pvetest.Spec{Name: "web", Node: "pve2"})
	s := w.Ask(drivertest.Hub, guestAsk("start", "web"))
	did := must.Get(w.run(s.ID))(t)
	require.True(t, strings.HasPrefix(did.Task, "UPID:pve2:"))
	w.SetOffline("pve2", true)
	must.Fail(w.d.Task(t.Context(), did.Task))(t, refusal.Unavailable)
	w.RemoveNode("pve2")
	w.Break(pvetest.Rule{Path: "/status", Fault: pvetest.FailBefore, Status: 595, Reason: "No route to host"})
	must.Fail(w.d.Task(t.Context(), did.Task))(t, refusal.UnknownTarget)
}
