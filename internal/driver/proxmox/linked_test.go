package proxmox_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// linked is a world with the guest base, of which an administrator made a template and the linked clone of it, and then a guest again.
func linked(t *testing.T, kind, storage string) (w *world, base, clone int) {
	t.Helper()
	w = newWorld(t, kind)
	w.AddStorage(pvetest.Storage{Name: "zfs", Type: "zfspool", Content: "images,rootdir"})
	root := map[string]string{"qemu": "scsi0", "lxc": "rootfs"}[kind]
	second := map[string]string{"qemu": "", "lxc": ",mp=/srv"}[kind]
	base = w.Make(pvetest.Spec{Kind: kind, Name: "base", Disks: map[string]string{root: storage + ":1", secondDisk[kind]: storage + ":1" + second},
		Data: map[string][]byte{root: []byte("of both"), secondDisk[kind]: []byte("more of both")}})
	clone = w.LinkedClone(base, "clone")
	w.Set(base, map[string]string{"template": ""})
	require.Contains(t, w.Guest(clone).Config[root], "base-")
	return w, base, clone
}

// A linked clone reads what its base has. So what takes or writes the base's disks waits, and names the clone.
func TestTheBaseOfALinkedClone(t *testing.T) {
	for _, storage := range []string{"zfs", "dir"} {
		either(t, func(t *testing.T, kind string) {
			w, base, clone := linked(t, kind, storage)
			w.BackUp(base, "local")
			backup := w.Look("base").Backups[0]
			rules := map[string]string{"guest.start": "start-shared", "guest.restart": "start-shared"}
			for _, a := range []op.Ask{guestAsk("destroy", "base"), guestAsk("disk-detach", "base", "disk", secondDisk[kind]),
				guestAsk("backup-restore", "base", "backup", backup), guestAsk("start", "base"), guestAsk("restart", "base")} {
				r := w.Waiting(drivertest.Hub, a)
				rule, named := rules[a.Op]
				if !named {
					rule = "cascade"
				}
				require.Equal(t, rule, r.Step.Verdict.Rule, a.Op)
				require.Contains(t, r.Step.Verdict.Why, "guest/clone", a.Op)
				must.Get(w.Cancel(t.Context(), drivertest.Hub, r.ID.Job))(t)
			}
			// Proxmox VE would take the disk off and then keep it, so no operator is asked.
			_, err := w.Submit(drivertest.Hub, guestAsk("disk-delete", "base", "disk", secondDisk[kind]))
			must.Fail(0, err)(t, refusal.Conflict)
			require.ErrorContains(t, err, "the linked clone guest/clone is based on it")
			w.Done(drivertest.Hub, guestAsk("start", "clone")) // it writes only what is its own
			w.Done(drivertest.Hub, guestAsk("stop", "clone"))
			require.Equal(t, "destroy-unproven", w.Waiting(drivertest.Hub, guestAsk("destroy", "clone")).Step.Verdict.Rule)
			w.Remove(clone)
			w.Done(drivertest.Hub, guestAsk("start", "base"))
		})
	}
}

// An administrator makes a template of an agent's scratch, with linked clones. Its creator's destroy waits then.
func TestScratchThatIsTheBaseOfALinkedClone(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
		s1 := w.VMID("s1")
		w.AddStorage(pvetest.Storage{Name: "local-lvm", Type: "zfspool", Content: "images,rootdir"})
		w.LinkedClone(s1, "clone")
		_, err := w.Submit(drivertest.Builder, guestAsk("destroy", "s1"))
		require.ErrorContains(t, err, "is the name of the template")
		w.Set(s1, map[string]string{"template": ""})
		r := w.Waiting(drivertest.Builder, guestAsk("destroy", "s1"))
		require.Equal(t, "cascade", r.Step.Verdict.Rule)
		require.Contains(t, r.Step.Verdict.Why, "guest/clone depends on it")
	})
}

// A linked clone that is made after the signature makes the signed step stale, also in the middle of the run.
func TestALinkedCloneAfterTheSignature(t *testing.T) {
	for name, ask := range map[string]op.Ask{"destroy": guestAsk("destroy", "base"), "disk-delete": guestAsk("disk-delete", "base", "disk", "scsi1"), "start": guestAsk("start", "base")} {
		t.Run(name, func(t *testing.T) {
			w, base, clone := linked(t, "qemu", "zfs")
			if name == "disk-delete" {
				w.Remove(clone)
			}
			r := w.Approved(drivertest.Hub, ask)
			w.Set(base, map[string]string{"template": "1"})
			w.LinkedClone(base, "second")
			w.Set(base, map[string]string{"template": ""})
			was := w.Volumes(0)
			require.ErrorContains(t, must.Err(w.run(r.ID))(t), map[bool]string{false: "stale_target", true: "the linked clone guest/second is based on it"}[name == "disk-delete"])
			require.Equal(t, was, w.Volumes(0))
			require.True(t, w.Exists(base))
		})
	}
}

// What Proxmox VE does with a signed destroy of a base: the guest goes, and the volume that the clone needs stays.
func TestASignedDestroyOfABaseLeavesWhatTheCloneNeeds(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w, base, _ := linked(t, kind, "zfs")
		facts := w.factsOf(guestAsk("destroy", "base"))
		require.Contains(t, facts["remains"], "zfs:base-"+num(base)+"-disk-0, ")
		require.Contains(t, facts["remains"], "as long as the clone has its disk")
		require.NotContains(t, facts["disks"], "zfs:base-"+num(base)+"-disk-0")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "base"))
		must.Get(w.run(r.ID))(t)
		for _, id := range slices.Sorted(maps.Keys(w.Volumes(base))) {
			if strings.Contains(id, "base-") {
				data, _ := w.Data(id)
				require.Contains(t, string(data), "of both")
			}
		}
		require.Contains(t, w.Volumes(base), "zfs:base-"+num(base)+"-disk-0")
	})
}

// A request calls no disk one that remains if the destroy takes it. Proxmox VE keeps a base volume alone, and only for a linked clone on the
// same storage.
func TestADestroyTakesNoDiskThatItsRequestCallsRemaining(t *testing.T) {
	for name, hand := range map[string]func(w *world, base, clone int){
		"the base was moved, and the clone needs the old volume": func(w *world, base, _ int) {
			w.AddStorage(pvetest.Storage{Name: "fast", Type: "zfspool", Content: "images,rootdir"})
			w.AddVolume(pvetest.Volume{ID: "fast:base-" + num(base) + "-disk-0", VMID: base, Content: "images", Size: 1 << 30})
			w.Set(base, map[string]string{"scsi0": "fast:base-" + num(base) + "-disk-0,size=1G", "unused0": "zfs:base-" + num(base) + "-disk-0"})
		},
		"the volume is no base": func(w *world, base, clone int) {
			w.AddVolume(pvetest.Volume{ID: "zfs:vm-" + num(base) + "-disk-5", VMID: base, Content: "images", Size: 1 << 30})
			w.Set(base, map[string]string{"scsi2": "zfs:vm-" + num(base) + "-disk-5,size=1G"})
			w.Set(clone, map[string]string{"scsi2": "zfs:vm-" + num(base) + "-disk-5/vm-" + num(clone) + "-disk-5,size=1G"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, base, clone := linked(t, "qemu", "zfs")
			hand(w, base, clone)
			facts := w.factsOf(guestAsk("destroy", "base"))
			require.Contains(t, facts["remains"], "zfs:base-"+num(base)+"-disk-0")
			before := w.Volumes(base)
			w.signed(guestAsk("destroy", "base"))
			after, taken := w.Volumes(base), 0
			for id := range before {
				if _, there := after[id]; !there {
					taken++
					require.NotContains(t, facts["remains"], id)
					require.Contains(t, facts["disks"], id)
				}
			}
			require.Equal(t, 1, taken)
		})
	}
}

// If the linked clone goes in the middle of a destroy, nothing keeps its base any more, and the signed request said that it remains.
func TestABaseWhoseCloneGoesInTheMiddleIsNotDestroyed(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w, base, clone := linked(t, kind, "zfs")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "base"))
		was := w.Volumes(base)
		held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", VMID: num(base), Fault: pvetest.HangBefore, Times: 1})
		go func() { <-held.Came(); w.Remove(clone); held.Release() }()
		must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
		require.Equal(t, was, w.Volumes(base))
	})
}

// A clone's snapshot alone may have the disk that is based on another guest's.
func TestTheBaseOfWhatASnapshotAloneHas(t *testing.T) {
	w, _, clone := linked(t, "qemu", "zfs")
	w.TakeSnapshot(clone, "before")
	w.Set(clone, map[string]string{"scsi0": "", "scsi1": ""})
	r := w.Waiting(drivertest.Hub, guestAsk("start", "base"))
	require.Equal(t, "start-shared", r.Step.Verdict.Rule)
	require.Contains(t, r.Step.Verdict.Why, "guest/clone")
}
