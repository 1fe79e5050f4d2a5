package proxmox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// If the configuration changes between the look and the change of the flag, the old digest
// makes the request fail. Nothing is destroyed.
func TestADigestThatIsOldDestroysNothing(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("victim")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
		w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.FailBefore, Times: 1, Reason: "checksum missmatch (file change by other user?)"})
		require.ErrorContains(t, must.Err(w.run(r.ID))(t), "checksum")
		require.True(t, w.Exists(vmid))
		require.Equal(t, "1", w.Guest(vmid).Config["protection"])
	})
}

// If DELETE fails, the protection is set again.
func TestADestroyThatFailsProtectsAgain(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for status, unknown := range map[int]bool{500: false, 595: false, 596: true} {
			w := newWorld(t, kind)
			vmid := w.ours("victim")
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
			w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.FailBefore, Status: status, Reason: "no quorum"})
			_, err := w.run(r.ID)
			require.ErrorContains(t, err, "no quorum")
			require.Equal(t, unknown, driver.IsUnknown(err), "%d", status)
			require.True(t, w.Exists(vmid))
			require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		}
	})
}

// If the task fails, the guest stays, with the flag on again.
func TestADestroyWhoseTaskFails(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("victim")
	r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
	held := w.Hold("qmdestroy")
	did := must.Get(w.run(r.ID))(t)
	require.NotEmpty(t, did.Task)
	p := must.Get(w.d.Task(t.Context(), did.Task))(t)
	require.False(t, p.Done)
	held.Fail("lvremove failed")
	p = must.Get(w.d.Task(t.Context(), did.Task))(t)
	require.True(t, p.Done)
	require.ErrorContains(t, p.Err, "lvremove failed")
	require.True(t, w.Exists(vmid))
	require.Equal(t, "1", w.Guest(vmid).Config["protection"])
	must.Fail(w.d.Task(t.Context(), strings.Replace(did.Task, ":0000", ":FFFF", 1)))(t, refusal.UnknownTarget)
}

// The signature covers what the operator saw. Any change by another program between approval
// and run ends the step before it does anything.
func TestChangesBetweenApprovalAndRun(t *testing.T) {
	changes := map[string]func(w *world, vmid int){
		"a label in the mark": func(w *world, vmid int) { w.edit(vmid, `"labels":{}`, `"labels":{"tier":"prod"}`) },
		"protected":           func(w *world, vmid int) { w.edit(vmid, `"protected":false`, `"protected":true`) },
		"a tag":               func(w *world, vmid int) { w.Set(vmid, map[string]string{"tags": "prod"}) },
		"rolled back":         func(w *world, vmid int) { w.Set(vmid, map[string]string{"parent": "s1"}) },
		"a disk":              func(w *world, vmid int) { w.w.MoveDisk("bystander", "victim") },
		"another one":         func(w *world, vmid int) { w.Remake(vmid, pvetest.Spec{Name: "victim"}) },
		"a disk is deleted": func(w *world, vmid int) {
			for key, line := range w.Guest(vmid).Config {
				if id, _, _ := strings.Cut(line, ","); key == "scsi0" || key == "rootfs" {
					w.RemoveVolume(id)
					w.Set(vmid, map[string]string{key: ""})
				}
			}
		},
		"a volume is deleted, and its line stays": func(w *world, vmid int) { w.RemoveVolume("local-lvm:vm-" + num(vmid) + "-disk-0") },
		"renamed": func(w *world, vmid int) {
			w.Set(vmid, map[string]string{map[string]string{"qemu": "name", "lxc": "hostname"}[w.Guest(vmid).Kind]: "other"})
		},
	}
	either(t, func(t *testing.T, kind string) {
		for name, change := range changes {
			w := newWorld(t, kind)
			w.w.Make("bystander")
			vmid := w.ours("victim")
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
			change(w, vmid)
			_, err := w.run(r.ID)
			require.Error(t, err, name)
			require.False(t, driver.IsUnknown(err), name)
			require.True(t, w.Exists(vmid), name)
			require.NotEqual(t, op.StateSucceeded, w.Step(r.ID).State, name)
		}
	})
}

// If the guest changes after the permit was used, right before the DELETE, it is not destroyed.
func TestChangesUnderTheDestroy(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("victim")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
		stop := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangAfter, Times: 1})
		ended := make(chan error)
		go func() { _, err := w.run(r.ID); ended <- err }()
		require.Eventually(t, func() bool { return stop.Met() == 1 && w.Guest(vmid).Config["protection"] == "0" }, time.Minute, 2*time.Millisecond)
		w.Set(vmid, map[string]string{"tags": "prod"})
		stop.Release()
		require.ErrorIs(t, <-ended, refusal.StaleTarget)
		require.True(t, w.Exists(vmid))
	})
}

// If Proxmox VE is working on a guest, the step waits, and its permit is not used.
func TestLocks(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("victim")
	r := w.Approved(drivertest.Hub, guestAsk("destroy", "victim"))
	w.SetLock(vmid, "backup")
	must.Fail(w.run(r.ID))(t, refusal.Unavailable)
	require.Equal(t, op.StateAuthorized, w.Step(r.ID).State)
	w.SetLock(vmid, "")
	w.Reconcile()
	require.Equal(t, op.StateSucceeded, w.Step(r.ID).State)
	require.False(t, w.Exists(vmid))
}

// A name of two guests, and a guest whose node is away, are unknown. A template is no guest.
// None of them hides another guest.
func TestWhatIsUnclearIsUnknown(t *testing.T) {
	w := newWorld(t, "qemu", "pve1", "pve2")
	w.w.Make("alone")
	w.Make(pvetest.Spec{Name: "twice"})
	w.Make(pvetest.Spec{Kind: "lxc", Name: "twice"})
	w.Make(pvetest.Spec{Name: "away", Node: "pve2"})
	w.Make(pvetest.Spec{Name: "broken", Config: map[string]string{"description": "gated: {}"}})
	w.Make(pvetest.Spec{Name: "base", Config: map[string]string{"template": "1"}})
	w.SetOffline("pve2", true)
	list, err := w.d.List(t.Context())
	require.NotEmpty(t, driver.Missing(err), "of a node that is away there are no names: any guest may be there")
	require.NotContains(t, fmt.Sprint(list), "away")
	w.SetOffline("pve2", false)
	must.Get(w.d.List(t.Context()))(t)
	w.SetOffline("pve2", true)
	list = must.Get(w.d.List(t.Context()))(t, "the name is known from before")
	state := map[string]string{}
	for _, o := range list {
		state[o.Target.Name] = o.Running
		require.Equal(t, o.Running == "unknown", o.Incarnation == "", o.Target.Name)
	}
	require.Equal(t, map[string]string{"alone": "stopped", "twice": "unknown", "away": "unknown", "broken": "unknown", "base": "unknown"}, state)
	for name, code := range map[string]refusal.Code{"twice": refusal.Conflict, "away": refusal.Unavailable, "broken": refusal.Unavailable} {
		must.Fail(w.d.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: name})))(t, code, name)
	}
	_, err = w.d.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: "base"}))
	require.ErrorIs(t, err, refusal.Unavailable, "the guest that is away may have any name")
	w.SetOffline("pve2", false)
	_, err = w.d.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: "base"}))
	require.ErrorIs(t, err, refusal.Conflict, "a template's name is not free: it may have been the guest")
	require.True(t, w.Look("alone").Present)
}

// A clone of a scratch guest, made by another program, has its description. It does not count
// as scratch, and not as the guest of an interrupted create.
func TestACopyIsNotOurs(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		made := w.Ask(drivertest.Builder, guestAsk("create", "scratch", "scratch", true))
		w.Reconcile()
		require.Equal(t, made.Birth, w.Look("scratch").Birth)
		text := w.Guest(w.VMID("scratch")).Config["description"]
		require.Contains(t, text, made.Birth)
		w.Remove(w.VMID("scratch"))
		w.Make(pvetest.Spec{Kind: kind, VMID: 700, Name: "scratch", Config: map[string]string{"description": text}})
		require.Empty(t, w.Look("scratch").Birth)
		w.Waiting(drivertest.Builder, guestAsk("destroy", "scratch"))
	})
}
