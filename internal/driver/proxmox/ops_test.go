package proxmox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

// signed asks for a step that needs a signature, signs it, and runs it.
func (w *world) signed(a op.Ask) op.Step {
	w.t.Helper()
	r := w.Approved(drivertest.Hub, a)
	w.Reconcile()
	s := w.Step(r.ID)
	require.Equal(w.t, op.StateSucceeded, s.State, "%s: %s %s", a.Op, s.Code, s.Detail)
	return s
}

var secondDisk = map[string]string{"qemu": "scsi1", "lxc": "mp0"}

// To delete an attached disk takes two requests. The flag is off only between them, and another
// disk stays.
func TestDisksOfAProtectedGuest(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		vmid, key := w.ours("web"), secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", key, "size", int64(1536)))
		d, ok := w.Look("web").Disk(key)
		require.True(t, ok)
		require.EqualValues(t, 1536<<20, d.Size)
		w.Write(vmid, key, []byte("to keep"))
		s := w.signed(guestAsk("disk-detach", "web", "disk", key))
		require.Contains(t, s.Detail, "unused0")
		data, there := w.Data("local-lvm:vm-500-disk-1")
		require.True(t, there)
		require.Equal(t, "to keep", string(data))
		w.signed(guestAsk("disk-delete", "web", "disk", "unused0"))
		_, there = w.Data("local-lvm:vm-500-disk-1")
		require.False(t, there)
		w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", key, "size", int64(1024)))
		w.signed(guestAsk("disk-delete", "web", "disk", key))
		require.Len(t, w.Look("web").Disks, 1)
		require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		must.Fail(w.Submit(drivertest.Hub, guestAsk("disk-delete", "web", "disk", key)))(t, refusal.UnknownTarget)
	})
}

// Proxmox VE cannot shrink a disk, so such a step is refused before anybody is asked.
func TestResize(t *testing.T) {
	w := newWorld(t, "qemu")
	w.ours("web")
	w.Done(drivertest.Hub, guestAsk("disk-resize", "web", "disk", "scsi0", "size", int64(2048)))
	d, _ := w.Look("web").Disk("scsi0")
	require.EqualValues(t, 2<<30, d.Size)
	w.ResetCounts()
	_, err := w.Submit(drivertest.Hub, guestAsk("disk-resize", "web", "disk", "scsi0", "size", int64(1024)))
	require.ErrorIs(t, err, refusal.BadParams)
	require.ErrorContains(t, err, "makes no disk smaller")
	require.NotEmpty(t, refusal.As(err).Hint)
	require.Zero(t, w.Counts().Change)
}

// A running container does not release a mount point, so nothing changes.
func TestADiskThatIsHeld(t *testing.T) {
	w := newWorld(t, "lxc")
	vmid := w.ours("web")
	w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", "mp0", "size", int64(1024)))
	w.Done(drivertest.Hub, guestAsk("start", "web"))
	before := w.Look("web")
	r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "web", "disk", "mp0"))
	must.Fail(w.run(r.ID))(t, refusal.Conflict)
	require.Equal(t, before.Fingerprint, w.Look("web").Fingerprint)
	require.Empty(t, w.Guest(vmid).Pending)
	require.Equal(t, "1", w.Guest(vmid).Config["protection"])
}

// Proxmox VE says that it took a disk off a stopped guest, and did not.
func TestADiskThatStays(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		w.ours("web")
		disk := map[string]string{"qemu": "scsi1", "lxc": "mp0"}[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", disk, "size", int64(1024)))
		r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "web", "disk", disk))
		lie := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.Ignore})
		_, err := w.run(r.ID)
		lie.Release()
		require.ErrorIs(t, err, refusal.Conflict)
		require.ErrorContains(t, err, "though the guest is stopped")
	})
}

// A backup keeps older ones unless its step says otherwise. A restore overwrites the guest: it
// then has another incarnation, and the flag.
func TestBackups(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		vmid := w.ours("web")
		disk := map[string]string{"qemu": "scsi0", "lxc": "rootfs"}[kind]
		w.Write(vmid, disk, []byte("one"))
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		w.Advance(60)
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		first := w.Look("web").Backups
		require.Len(t, first, 2, "a backup that was not told to pruned another")
		w.Write(vmid, disk, []byte("two"))
		w.signed(guestAsk("backup-restore", "web", "backup", first[0]))
		after := w.Look("web")
		require.True(t, after.Present)
		require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		data := w.Volumes(vmid)
		for _, v := range data {
			require.NotEqual(t, "two", string(v.Data))
		}
		for _, name := range first {
			w.signed(guestAsk("backup-delete", "web", "backup", name))
		}
		require.Empty(t, w.Look("web").Backups)
		_, err := w.Submit(drivertest.Hub, guestAsk("backup-restore", "web", "backup", first[0]))
		require.ErrorIs(t, err, refusal.UnknownTarget)
	})
}

// TestUnsignedBackupsPushNoneOut: unsigned backups prune nothing. They do not make a backup job
// of the cluster, or a signed rotation, prune a good backup.
func TestUnsignedBackupsPushNoneOut(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.AddStorage(pvetest.Storage{Name: "local", Type: "dir", Content: "backup,iso,vztmpl", KeepLast: 3})
		for range 3 {
			w.BackUp(vmid, "local")
			w.Advance(60)
		}
		good := w.Look("web").Backups
		require.Len(t, good, 3)
		for i := range 5 {
			w.Done(drivertest.Hub, guestAsk("backup", "web"))
			w.Advance(60)
			require.Subset(t, w.Look("web").Backups, good, "unsigned backup %d pruned another", i+1)
		}
		all := w.Look("web").Backups
		require.Len(t, all, 8)
		full := w.Do(drivertest.Hub, guestAsk("backup", "web"))
		require.Equal(t, op.StateRefused, full.State)
		require.Equal(t, refusal.OverLimit, full.Code)
		require.Equal(t, all, w.Look("web").Backups)

		w.BackUp(vmid, "local") // the nightly job
		after := w.Look("web").Backups
		require.Subset(t, after, good[1:])
		require.NotContains(t, after, good[0], "the oldest of the jobs' own, as without the gate")
		require.Subset(t, after, all[3:], "no retention takes what an unsigned step made")
		w.Advance(60)
		w.signed(guestAsk("backup", "web", "rotate", true))
		require.Len(t, w.Look("web").Backups, 3+5)
		w.signed(guestAsk("backup-delete", "web", "backup", all[3]))
		require.NotContains(t, w.Look("web").Backups, all[3])
		w.Advance(60)
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
	})
}

// TestABackupThatCannotBeDeleted: if the delete fails, the retention does not count the backup
// again. A backup that another user protected stays.
func TestABackupThatCannotBeDeleted(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	w.Done(drivertest.Hub, guestAsk("backup", "web"))
	name := w.Look("web").Backups[0]
	r := w.Approved(drivertest.Hub, guestAsk("backup-delete", "web", "backup", name))
	broken := w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.FailBefore})
	must.Err(w.run(r.ID))(t)
	broken.Release()
	for _, v := range w.Backups(vmid) {
		require.True(t, v.Protected)
	}
	w.Protect(w.Backups(vmid)[0].ID, "by hand")
	s := w.Do(drivertest.Hub, guestAsk("backup", "web"))
	require.Equal(t, op.StateSucceeded, s.State)
	must.Fail(w.Submit(drivertest.Hub, guestAsk("backup-delete", "web", "backup", name)))(t, refusal.Conflict)
	require.Len(t, w.Backups(vmid), 2)
}

// Without a configured storage for backups, no step can make one.
func TestNoBackups(t *testing.T) {
	w := newWorld(t, "qemu")
	cfg := pveworld.Config(t, w.Cluster, "qemu")
	cfg.BackupStorage = ""
	w.use(cfg)
	w.ours("web")
	for _, verb := range []string{"backup", "backup-restore", "backup-delete"} {
		kv := []any{"backup", "b"}
		if verb == "backup" {
			kv = nil
		}
		must.Fail(w.Submit(drivertest.Hub, guestAsk(verb, "web", kv...)))(t, refusal.UnknownOp)
	}
	require.Equal(t, "guest", w.d.Kind())
	require.Equal(t, proxmox.Name, w.d.Name())
}

// A guest that does not react to a shutdown is switched off. A running guest is stopped before
// it is destroyed.
func TestPower(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web", "state", "running")
		w.SetDeaf(vmid, true)
		w.Done(drivertest.Hub, guestAsk("stop", "web"))
		require.False(t, w.Guest(vmid).Running)
		w.Done(drivertest.Hub, guestAsk("stop", "web"))
		w.Done(drivertest.Hub, guestAsk("restart", "web"))
		require.True(t, w.Guest(vmid).Running)
		w.Done(drivertest.Hub, guestAsk("start", "web"))
		w.signed(guestAsk("destroy", "web"))
		require.False(t, w.Exists(vmid))
	})
}

// TestARestoreOverARunningGuestAsksNobody: what the look tells is refused before a signature. A guest that is started while a
// request waits is left alone by the step.
func TestARestoreOverARunningGuestAsksNobody(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web")
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		restore := guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0])
		w.Done(drivertest.Hub, guestAsk("start", "web"))
		_, err := w.Submit(drivertest.Hub, restore)
		require.ErrorIs(t, err, refusal.Conflict)
		require.Equal(t, "stop it first", refusal.As(err).Hint)
		w.Done(drivertest.Hub, guestAsk("stop", "web"))
		r := w.Waiting(drivertest.Hub, restore)
		w.Done(drivertest.Hub, guestAsk("start", "web"))
		must.Get(w.Approve(r))(t)
		w.ResetCounts()
		require.ErrorIs(t, w.Execute(r.ID), refusal.Conflict)
		require.Zero(t, w.Counts().Change)
	})
}

// TestWhatGoesNamesTheVolumeOfCloudInit: Proxmox VE deletes it with the guest, unless another guest's number is in its name.
func TestWhatGoesNamesTheVolumeOfCloudInit(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	for number, fact := range map[int]string{vmid: "cloud-init", vmid + 1: "remains"} {
		volume := "local-lvm:vm-" + num(number) + "-cloudinit"
		w.Set(vmid, map[string]string{"ide2": volume + ",media=cdrom"})
		r := w.Waiting(drivertest.Hub, guestAsk("destroy", "web"))
		named := map[string]string{}
		for _, f := range r.Facts {
			if strings.Contains(f.Text, volume) {
				named[f.Name] = f.Text
			}
		}
		require.Len(t, named, 1)
		require.Contains(t, named[fact], "ide2 "+volume)
		must.Get(w.Cancel(t.Context(), drivertest.Hub, r.ID.Job))(t)
	}
}

// A request says what becomes of the backups and of cloud-init's volume. A look for another step says nothing of a destroy.
func TestARequestSaysWhatBecomesOfBackupsAndCloudInit(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	w.BackUp(vmid, "local")
	w.Set(vmid, map[string]string{"ide2": "local-lvm:vm-" + num(vmid) + "-cloudinit,media=cdrom"})
	leaves, takes := "a destroy leaves them", "a destroy and a restored backup take it"
	destroy := w.factsOf(guestAsk("destroy", "web"))
	require.Contains(t, destroy["backups"], leaves)
	require.Contains(t, destroy["cloud-init"], takes)
	restore := w.factsOf(guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0]))
	require.Contains(t, restore["backups"], "the newest")
	require.NotContains(t, restore["backups"], leaves)
	require.Contains(t, restore["cloud-init"], takes)
	stop := w.factsOf(guestAsk("stop", "web"))
	require.Contains(t, stop["cloud-init"], "makes it from the settings")
	require.NotContains(t, stop["cloud-init"], takes)
}

// ZFS would delete the newer snapshots, so Proxmox VE rolls back to the newest one alone.
func TestARollbackPastANewerSnapshotOnZFSIsRefusedAtOnce(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web")
		for _, name := range []string{"first", "second"} {
			w.Done(drivertest.Hub, guestAsk("snapshot", "web", "snapshot", name))
		}
		lvm := pvetest.Storage{Name: "local-lvm", Type: "lvmthin", Content: "images,rootdir"}
		zfs := lvm
		zfs.Type = "zfspool"
		w.AddStorage(zfs)
		_, err := w.Submit(drivertest.Hub, guestAsk("restore", "web", "snapshot", "first"))
		require.ErrorIs(t, err, refusal.Conflict)
		require.Contains(t, refusal.As(err).Hint, "snapshot=second")
		w.Waiting(drivertest.Hub, guestAsk("restore", "web", "snapshot", "second"))
		w.AddStorage(lvm)
		w.Waiting(drivertest.Hub, guestAsk("restore", "web", "snapshot", "first"))
		w.AddStorage(zfs)
		w.Done(drivertest.Hub, guestAsk("snapshot-delete", "web", "snapshot", "second"))
		w.Done(drivertest.Hub, guestAsk("restore", "web", "snapshot", "first"))
	})
}
