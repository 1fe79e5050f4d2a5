package proxmox_test

import (
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

// option is a disk of a guest's configuration, as an administrator attaches it.
func option(kind, key, volume string) map[string]string {
	value := volume + ",size=1G"
	if kind == "lxc" {
		value += ",mp=/srv"
	}
	return map[string]string{key: value}
}

// whoHas are the ways in which another guest has a guest's disk.
var whoHas = map[string]func(w *world, kind string, app int, volume string){
	"attached": func(w *world, kind string, app int, volume string) {
		w.Set(app, option(kind, secondDisk[kind], volume))
	},
	"unused": func(w *world, _ string, app int, volume string) {
		w.Set(app, map[string]string{"unused0": volume})
	},
	"in a snapshot alone": func(w *world, kind string, app int, volume string) {
		w.Set(app, option(kind, secondDisk[kind], volume))
		w.Done(drivertest.Hub, guestAsk("snapshot", "app", "snapshot", "before"))
		w.Set(app, map[string]string{secondDisk[kind]: ""})
	},
	"below a linked clone": func(w *world, kind string, app int, volume string) {
		w.Set(app, option(kind, secondDisk[kind], volume+"/vm-"+num(app)+"-disk-9"))
	},
	"as a device of the node": func(w *world, kind string, app int, volume string) {
		w.Set(app, option(kind, secondDisk[kind], "/dev/pve/"+volume[len("local-lvm:"):]))
	},
	"on a guest that nobody can read": func(w *world, kind string, app int, volume string) {
		w.SetNode(app, "pve2")
		w.SetOffline("pve2", true)
	},
	"on a guest that the token cannot see": func(w *world, kind string, app int, volume string) {
		w.Hide(app, true)
	},
}

// spellings are other words for the volume local-lvm:vm-N-disk-0, by the key of a machine's configuration.
var spellings = []struct{ key, value string }{
	{"scsi1", "fast:vm-N-disk-0"}, {"scsi1", "file=fast:vm-N-disk-0"}, {"scsi1", "local-lvm:base-7-disk-0/vm-N-disk-0"}, {"scsi1", "local-lvm:vm-N-disk-0/vm-101-disk-0"},
	{"scsi1", "/dev/pve/vm-N-disk-0"}, {"scsi1", "/dev/mapper/pve-vm--N--disk--0"}, {"scsi1", "/dev/zvol/rpool/data/vm-N-disk-0-part1"}, {"scsi1", "/dev/dm-7"},
	{"scsi1", "dir:N/vm-N-disk-0.qcow2"}, {"ide2", "local-lvm:vm-N-disk-0,media=cdrom"}, {"efidisk0", "local-lvm:vm-N-disk-0"}, {"tpmstate0", "local-lvm:vm-N-disk-0"},
	{"args", "-drive file=/dev/pve/vm-N-disk-0,if=virtio"}, {"unused7", "fast:vm-N-disk-0"},
	{"scsi1", "/dev/loop3"}, {"scsi1", "/dev/disk/by-uuid/0b1c"}, {"scsi1", "/dev/disk/by-partlabel/data"},
	{"args", "-drive file=/dev/dm-7,if=virtio"}, {"scsi1", "/dev/disk/by-id/dm-uuid-LVM-abc"},
}

func TestSpellingsOfADiskThatAnotherGuestHas(t *testing.T) {
	for _, c := range spellings {
		t.Run(c.value, func(t *testing.T) {
			w := newWorld(t, "qemu")
			app := w.ours("app")
			w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
			w.Set(app, map[string]string{c.key: strings.ReplaceAll(c.value, "-N-", "-"+num(w.VMID("s1"))+"-")})
			require.Equal(t, "cascade", w.Waiting(drivertest.Builder, guestAsk("destroy", "s1")).Step.Verdict.Rule)
		})
	}
}

// A LUN has no number in its name. Nobody knows whose it is, so it counts as the guest's own: a destroy names it, and who else has it, also
// as a device of the node.
func TestADiskWhoseNameHasNoNumber(t *testing.T) {
	for _, theirs := range []string{"iscsi:0.0.1.scsi-36001405abc", "far:0.0.2.scsi-36001405abc", "/dev/disk/by-id/scsi-36001405abc", "/dev/mapper/36001405abc-part1"} {
		w := newWorld(t, "qemu")
		app := w.ours("app")
		w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
		const lun = "iscsi:0.0.1.scsi-36001405abc"
		w.AddStorage(pvetest.Storage{Name: "iscsi", Type: "iscsi", Content: "images", Shared: true})
		w.AddVolume(pvetest.Volume{ID: lun, Size: 1 << 30, Format: "raw", Content: "images"})
		w.Set(w.VMID("s1"), option("qemu", "scsi1", lun))
		require.Contains(t, w.factsOf(guestAsk("destroy", "s1"))["unsure"], "scsi1 "+lun)
		require.Equal(t, "destroy-unproven", w.Waiting(drivertest.Builder, guestAsk("destroy", "s1")).Step.Verdict.Rule)
		w.Set(app, option("qemu", "scsi1", theirs))
		for _, verb := range []string{"destroy", "disk-detach"} {
			r := w.Waiting(drivertest.Hub, guestAsk(verb, "s1", map[string][]any{"disk-detach": {"disk", "scsi1"}}[verb]...))
			require.Equal(t, "cascade", r.Step.Verdict.Rule, theirs)
			require.Contains(t, r.Step.Verdict.Why, "guest/app depends on it", theirs)
		}
		must.Fail(w.Submit(drivertest.Hub, guestAsk("disk-delete", "s1", "disk", "scsi1")))(t, refusal.Conflict)
	}
}

// A guest with disks of its own, of the node or of a template is nobody's user.
func TestOthersDisksAreNoUse(t *testing.T) {
	w := newWorld(t, "qemu")
	app := w.ours("app")
	w.Set(app, map[string]string{"scsi1": "/dev/disk/by-id/ata-1,size=1G", "ide2": "local:iso/debian.iso,media=cdrom", "scsi2": "local-lvm:base-8-disk-0/vm-" + num(app) + "-disk-3",
		"args": "-cpu host", "hostpci0": "0000:01:00.0", "virtiofs0": "dirid=srv"})
	w.Make(pvetest.Spec{Name: "odd", Config: map[string]string{"description": "gated: a note of mine"}})
	w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
	w.Done(drivertest.Builder, guestAsk("destroy", "s1"))

	// A CD is no guest's own, also in a snapshot.
	w.Done(drivertest.Builder, guestAsk("create", "s2", "scratch", true))
	w.Set(w.VMID("s2"), map[string]string{"ide2": "local:iso/debian.iso,media=cdrom"})
	w.Done(drivertest.Builder, guestAsk("snapshot", "s2", "snapshot", "first"))
	require.NotEqual(t, "cascade", w.Ask(drivertest.Builder, guestAsk("destroy", "s2")).Verdict.Rule)
}

// One that lost the disk since is no danger, and what was signed runs.
func TestAStepRunsIfAnotherGuestLostTheDisk(t *testing.T) {
	w := newWorld(t, "qemu")
	app, db := w.ours("app"), w.ours("db")
	volume := "local-lvm:vm-" + num(db) + "-disk-0"
	w.Set(app, option("qemu", "scsi1", volume))
	r := w.Approved(drivertest.Hub, guestAsk("destroy", "db"))
	held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
	go func() { <-held.Came(); w.Set(app, map[string]string{"scsi1": ""}); held.Release() }()
	must.Get(w.run(r.ID))(t)
	require.Eventually(t, func() bool { return !w.Exists(db) }, time.Minute, time.Millisecond)
}

// What the guest itself got while the others were asked is not destroyed with it.
func TestADiskThatTheGuestGotMeanwhileIsNotDestroyed(t *testing.T) {
	w := newWorld(t, "qemu")
	app, db := w.ours("app"), w.ours("db")
	r := w.Approved(drivertest.Hub, guestAsk("destroy", "db"))
	first := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
	go func() {
		<-first.Came()
		asked := w.Break(pvetest.Rule{Method: "GET", Path: "/config", VMID: num(app), Fault: pvetest.HangBefore, Times: 1})
		go func() {
			<-asked.Came()
			w.Set(db, map[string]string{"scsi1": "local-lvm:vm-" + num(db) + "-disk-5,size=1G"})
			asked.Release()
		}()
		first.Release()
	}()
	must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
	require.True(t, w.Exists(db))
}

// A guest that goes to another node while it is asked is not gone.
func TestAGuestThatMovesWhileItIsAskedMayHaveTheDisk(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		app := w.ours("app")
		w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
		w.Break(pvetest.Rule{Method: "GET", Path: "/config", VMID: num(app), Fault: pvetest.FailBefore, Status: 500, Reason: "Configuration file 'nodes/pve1/" + num(app) + ".conf' does not exist"})
		require.Equal(t, "cascade", w.Waiting(drivertest.Builder, guestAsk("destroy", "s1")).Step.Verdict.Rule)
	})
}

// An agent's own scratch is no longer its own alone if an administrator gave one of its disks to another guest.
func TestScratchWhoseDiskAnotherGuestHasWaits(t *testing.T) {
	for name, attach := range whoHas {
		t.Run(name, func(t *testing.T) {
			either(t, func(t *testing.T, kind string) {
				w := newWorld(t, kind, "pve1", "pve2")
				app := w.ours("app")
				w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
				volume := "local-lvm:vm-" + num(w.VMID("s1")) + "-disk-0"
				require.Contains(t, w.Volumes(w.VMID("s1")), volume)
				attach(w, kind, app, volume)
				r := w.Waiting(drivertest.Builder, guestAsk("destroy", "s1"))
				require.Equal(t, "cascade", r.Step.Verdict.Rule)
				require.Contains(t, r.Step.Verdict.Why, "guest/app depends on it")
				_, there := w.Data(volume)
				require.True(t, there)
			})
		})
	}
}

// Each step that takes or overwrites bytes names who else has them.
func TestStepsThatTakeNameWhoElseHasIt(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		app, db := w.ours("app"), w.ours("db")
		key := secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
		w.BackUp(db, "local")
		w.Set(app, option(kind, key, "local-lvm:vm-"+num(db)+"-disk-1"))
		backup := w.Look("db").Backups[0]
		for _, a := range []op.Ask{guestAsk("destroy", "db"), guestAsk("restore", "db", "snapshot", "first"), guestAsk("snapshot-delete", "db", "snapshot", "first"),
			guestAsk("disk-detach", "db", "disk", key), guestAsk("disk-delete", "db", "disk", key), guestAsk("backup-restore", "db", "backup", backup)} {
			r := w.Waiting(drivertest.Hub, a)
			require.Equal(t, "cascade", r.Step.Verdict.Rule, a.Op)
			require.Contains(t, r.Step.Verdict.Why, "guest/app depends on it", a.Op)
			must.Get(w.Cancel(t.Context(), drivertest.Hub, r.ID.Job))(t)
		}
	})
}

// The disk that a guest has of another one stays, and nobody is told that it goes.
func TestADiskOfAnothersNumberStays(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		app, db := w.ours("app"), w.ours("db")
		volume := "local-lvm:vm-" + num(db) + "-disk-0"
		w.Set(app, option(kind, secondDisk[kind], volume))
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "app"))
		facts := map[string]string{}
		for _, f := range r.Facts {
			facts[f.Name] = f.Text
		}
		require.NotContains(t, facts["disks"], volume)
		require.Contains(t, facts["remains"], volume)
		must.Get(w.run(r.ID))(t)
		_, there := w.Data(volume)
		require.True(t, there)
	})
}

// Proxmox VE takes such a disk off a guest, and deletes it with its own guest alone. So no operator is asked to delete it.
func TestADiskOfAnothersNumberIsTakenOffAlone(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		app, db := w.ours("app"), w.ours("db")
		key, volume := secondDisk[kind], "local-lvm:vm-"+num(db)+"-disk-0"
		for _, at := range []string{key, "unused0"} {
			w.Set(app, option(kind, at, volume))
			must.Fail(w.Submit(drivertest.Hub, guestAsk("disk-delete", "app", "disk", at)))(t, refusal.Conflict)
			w.Set(app, map[string]string{at: ""})
		}
		w.Set(app, option(kind, key, volume))
		require.Contains(t, w.signed(guestAsk("disk-detach", "app", "disk", key)).Detail, "the guest has it no more")
		require.NotContains(t, w.Guest(app).Config, key)
		_, there := w.Data(volume)
		require.True(t, there)
	})
}

// Proxmox VE deletes no LUN. So no operator is asked, and the LUN is taken off alone.
func TestALUNIsTakenOffAlone(t *testing.T) {
	for _, typ := range []string{"iscsi", "iscsidirect"} {
		w := newWorld(t, "qemu")
		app := w.ours("app")
		const lun = "san:0.0.1.scsi-36001405abc"
		w.AddStorage(pvetest.Storage{Name: "san", Type: typ, Content: "images", Shared: true})
		w.AddVolume(pvetest.Volume{ID: lun, Size: 1 << 30, Format: "raw", Content: "images"})
		w.Set(app, option("qemu", "scsi1", lun))
		_, err := w.Submit(drivertest.Hub, guestAsk("disk-delete", "app", "disk", "scsi1"))
		require.ErrorIs(t, err, refusal.Conflict)
		require.ErrorContains(t, err, "is a LUN")
		w.signed(guestAsk("disk-detach", "app", "disk", "scsi1"))
		require.NotContains(t, w.Guest(app).Config, "scsi1")
		_, there := w.Data(lun)
		require.True(t, there)
	}
}

// Another storage decides itself whose a volume without a number is. What it does not count as the guest's own is taken off, and the step
// says that it was not deleted.
func TestADeleteOfADiskWithoutANumberSaysThatItStays(t *testing.T) {
	w := newWorld(t, "qemu")
	app := w.ours("app")
	const lun = "array:volume-36001405abc"
	w.AddStorage(pvetest.Storage{Name: "array", Type: "custom", Content: "images", Shared: true})
	w.AddVolume(pvetest.Volume{ID: lun, Size: 1 << 30, Format: "raw", Content: "images"})
	w.Set(app, option("qemu", "scsi1", lun))
	r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "app", "disk", "scsi1"))
	require.ErrorContains(t, must.Err(w.run(r.ID))(t), "it was taken off, and not deleted")
	require.Equal(t, "1", w.Guest(app).Config["protection"])
	_, there := w.Data(lun)
	require.True(t, there)
}

// A disk that a guest's own snapshot alone has goes with the guest, too.
func TestADiskOfASnapshotThatAnotherGuestHas(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		app, db := w.ours("app"), w.ours("db")
		key := secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
		w.Set(db, map[string]string{key: ""})
		w.Set(app, option(kind, key, "local-lvm:vm-"+num(db)+"-disk-1"))
		require.Equal(t, "cascade", w.Waiting(drivertest.Hub, guestAsk("destroy", "db")).Step.Verdict.Rule)
	})
}

// Who has the disks is signed. If another guest gets one later, the step runs no more, also after the driver's own look.
func TestWhoHasTheDisksIsSigned(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		ask                func(backup string) op.Ask
		running, late      bool
	}{
		{"a destroy", "PUT", "/config", func(string) op.Ask { return guestAsk("destroy", "db") }, false, true},
		{"a destroy of a running guest", "PUT", "/config", func(string) op.Ask { return guestAsk("destroy", "db") }, true, true},
		{"before a destroy", "", "", func(string) op.Ask { return guestAsk("destroy", "db") }, false, false},
		{"before a restore", "", "", func(string) op.Ask { return guestAsk("restore", "db", "snapshot", "first") }, false, false},
		{"a restore of a backup", "PUT", "/config", func(b string) op.Ask { return guestAsk("backup-restore", "db", "backup", b) }, false, true},
		{"before a restore of a backup", "", "", func(b string) op.Ask { return guestAsk("backup-restore", "db", "backup", b) }, false, false},
		{"before the end of a snapshot", "", "", func(string) op.Ask { return guestAsk("snapshot-delete", "db", "snapshot", "first") }, false, false},
		{"a restore without the flag", "PUT", "/config", func(string) op.Ask { return guestAsk("restore", "db", "snapshot", "first") }, false, true},
		{"the end of a snapshot without the flag", "PUT", "/config", func(string) op.Ask { return guestAsk("snapshot-delete", "db", "snapshot", "first") }, false, true},
		{"a destroy without the flag", "PUT", "/config", func(string) op.Ask { return guestAsk("destroy", "db") }, false, true},
		{"the end of a disk", "PUT", "/config", func(string) op.Ask { return guestAsk("disk-delete", "db", "disk", "scsi1") }, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "qemu")
			app, db := w.ours("app"), w.ours("db")
			w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", "scsi1", "size", int64(1024)))
			if !strings.Contains(c.name, "disk") { // a disk in a snapshot cannot be deleted
				w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
			}
			w.BackUp(db, "local")
			w.SetRunning(db, c.running)
			w.SetProtection(db, !strings.HasSuffix(c.name, "without the flag"))
			volume := "local-lvm:vm-" + num(db) + "-disk-1"
			r := w.Approved(drivertest.Hub, c.ask(w.Look("db").Backups[0]))
			attach := func() { w.Set(app, option("qemu", "scsi1", volume)) }
			if c.late {
				held := w.Break(pvetest.Rule{Method: c.method, Path: c.path, Fault: pvetest.HangBefore, Times: 1})
				go func() { <-held.Came(); attach(); held.Release() }()
			} else {
				attach()
			}
			must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
			require.True(t, w.Exists(db))
			require.Equal(t, "1", w.Guest(db).Config["protection"])
			require.Len(t, w.Guest(db).Config["scsi1"], len(volume+",size=1G"))
			_, there := w.Data(volume)
			require.True(t, there)
		})
	}
}

// A disk that another guest gets after it was taken off is not deleted.
func TestADiskThatIsGivenAwayInTheMiddleIsNotDeleted(t *testing.T) {
	w := newWorld(t, "qemu")
	app, db := w.ours("app"), w.ours("db")
	w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", "scsi1", "size", int64(1024)))
	volume := "local-lvm:vm-" + num(db) + "-disk-1"
	r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", "scsi1"))
	held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", VMID: num(db), Fault: pvetest.HangAfter, Skip: 1, Times: 1})
	go func() { <-held.Came(); w.Set(app, option("qemu", "scsi1", volume)); held.Release() }()
	must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
	_, there := w.Data(volume)
	require.True(t, there)
}

// A disk that was taken off is still the guest's, with all that is on it. If the answer to its end is lost, nobody says that it is gone.
func TestADiskWhoseEndNobodyAnsweredIsNotCalledGone(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		db, key := w.ours("db"), secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", key))
		w.Break(pvetest.Rule{Method: "PUT", Path: "/config", VMID: num(db), Fault: pvetest.DropBefore, Skip: 2, Times: 1})
		_, err := w.run(r.ID)
		require.True(t, driver.IsUnknown(err), "%v", err)
		_, there := w.Data("local-lvm:vm-" + num(db) + "-disk-1")
		require.True(t, there)
		require.Equal(t, op.ShowsNothing, must.Get(op.Lookup(r.Step.Op))(t).Shows(r.Step, w.Look("db")))
	})
}

// Another disk that was off before hides no end.
func TestADiskIsDeletedBesideOneThatIsOff(t *testing.T) {
	w := newWorld(t, "qemu")
	w.ours("db")
	w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", "scsi1", "size", int64(1024)))
	w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", "scsi2", "size", int64(1024)))
	w.signed(guestAsk("disk-detach", "db", "disk", "scsi1"))
	w.signed(guestAsk("disk-delete", "db", "disk", "scsi2"))
	_, off := w.Look("db").Disk("unused0")
	require.True(t, off)
	r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", "unused0"))
	must.Get(w.run(r.ID))(t)
	require.False(t, must.Get(op.Lookup(r.Step.Op))(t).Silent(r.Step, w.Look("db")))
}

// What this driver made and takes back is not taken from another guest, to which an administrator gave it meanwhile.
func TestANewGuestWhoseDiskIsGivenAwayIsNotUnmade(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := cloning(t, kind)
		app := w.Make(pvetest.Spec{Kind: kind, Name: "app"})
		s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
		held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
		ended := make(chan error, 1)
		go func() { _, err := w.run(s.ID); ended <- err }()
		<-held.Came()
		web := w.VMID("web")
		volume := "local-lvm:vm-" + num(web) + "-disk-0"
		w.Set(app, option(kind, secondDisk[kind], volume))
		w.Set(web, map[string]string{"tags": "mine"}) // the set-up no longer fits
		held.Release()
		err := <-ended
		require.ErrorContains(t, err, "another guest has a disk of the new guest")
		require.True(t, w.Exists(web))
		_, there := w.Data(volume)
		require.True(t, there)
	})
}

// Requests that wait for one guest are looked at anew together, and who has its disks matters to one of them alone.
func TestWhoHasTheDisksStaysInARequestThatIsLookedAtAnew(t *testing.T) {
	w := newWorld(t, "qemu")
	app, db := w.ours("app"), w.ours("db", "protected", true)
	w.Set(app, option("qemu", "scsi1", "local-lvm:vm-"+num(db)+"-disk-0"))
	w.Waiting(drivertest.Hub, guestAsk("set-config", "db", "protected", false))
	r := w.Waiting(drivertest.Hub, guestAsk("destroy", "db"))
	require.NoError(t, w.Refresh(t.Context(), r.Step.Target))
	now := must.Get(w.Request(t.Context(), r.ID))(t)
	require.Equal(t, r.Payload, now.Payload)
	must.Get(w.Approve(now))(t)
}

// The number of a guest that uses a disk goes to another guest, which gets the disk and perhaps the name, too. The request that was shown is
// issued anew, and what was signed runs no more, also if that happens right before the call.
func TestAnotherGuestWithTheNumberIsAnotherUser(t *testing.T) {
	asks := map[string]op.Ask{"destroy": guestAsk("destroy", "db"), "start": guestAsk("start", "db")}
	for _, name := range []string{"app", "newcomer"} {
		for verb, ask := range asks {
			t.Run(name+" "+verb, func(t *testing.T) {
				either(t, func(t *testing.T, kind string) {
					w := newWorld(t, kind)
					app, db := w.Make(pvetest.Spec{Kind: kind, Name: "app"}), w.ours("db")
					disk := option(kind, secondDisk[kind], "local-lvm:vm-"+num(db)+"-disk-0")
					again := func() { w.Remake(app, pvetest.Spec{Name: name}); w.Set(app, disk) }
					w.Set(app, disk)
					r := w.Waiting(drivertest.Hub, ask)
					require.NoError(t, w.Refresh(t.Context(), r.Step.Target))
					require.Equal(t, r.Payload, must.Get(w.Request(t.Context(), r.ID))(t).Payload)
					again()
					require.NoError(t, w.Refresh(t.Context(), r.Step.Target))
					now := must.Get(w.Request(t.Context(), r.ID))(t)
					require.NotEqual(t, r.Payload, now.Payload)
					must.Get(w.Approve(now))(t)
					again()
					require.ErrorIs(t, w.Execute(r.ID), refusal.StaleTarget)

					r = w.Approved(drivertest.Hub, ask)
					held := w.Break(pvetest.Rule{Method: "GET", Path: "/config", VMID: num(app), Fault: pvetest.HangBefore, Skip: 2, Times: 1})
					go func() { <-held.Came(); again(); held.Release() }()
					must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
					_, there := w.Data("local-lvm:vm-" + num(db) + "-disk-0")
					require.True(t, there)
				})
			})
		}
	}
}

// A benign step that gets no answer right before its call runs again: nobody did anything wrong, and nothing was done.
func TestABenignStepWithoutAnAnswerRightBeforeItsCallRunsAgain(t *testing.T) {
	asks := map[string]op.Ask{"start": guestAsk("start", "s1"), "destroy": guestAsk("destroy", "s1")}
	for verb, ask := range asks {
		for what, rule := range map[string]pvetest.Rule{
			"of another guest": {Method: "GET", Path: "/config", Skip: 2, Reason: "the node is busy"},
			"of the list":      {Method: "GET", Path: "/cluster/resources", Skip: 2, Status: 595},
		} {
			t.Run(verb+" "+what, func(t *testing.T) {
				either(t, func(t *testing.T, kind string) {
					w := newWorld(t, kind)
					w.Done(drivertest.Builder, guestAsk("create", "s1", "scratch", true))
					s1, app := w.VMID("s1"), w.Make(pvetest.Spec{Kind: kind, Name: "app"}) // which no list had
					s := w.Ask(drivertest.Builder, ask)
					rule.Fault, rule.Times = pvetest.FailBefore, 1
					if rule.Path == "/config" {
						rule.VMID = num(app)
					}
					met := w.Break(rule)
					err := w.Execute(s.ID)
					require.True(t, driver.IsTransient(err), "%v", err)
					<-met.Came()
					require.Equal(t, "1", w.Guest(s1).Config["protection"])
					require.False(t, w.Guest(s1).Running)
					w.Reconcile()
					require.NoError(t, w.Execute(s.ID))
					w.Reconcile()
					require.Equal(t, op.StateSucceeded, w.Step(s.ID).State, w.Step(s.ID).Detail)
				})
			})
		}
	}
}

// A disk that was taken off has another name, so the step does not run again.
func TestADiskThatNobodyCanAnswerForInTheMiddleIsNotDeleted(t *testing.T) {
	w := newWorld(t, "qemu")
	app, db := w.Make(pvetest.Spec{Name: "app"}), w.ours("db")
	w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", "scsi1", "size", int64(1024)))
	r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", "scsi1"))
	w.Break(pvetest.Rule{Method: "GET", Path: "/config", VMID: num(app), Fault: pvetest.FailBefore, Skip: 4, Times: 1})
	err := must.Err(w.run(r.ID))(t)
	require.ErrorContains(t, err, "it is unused0 of the guest now, and was not deleted")
	require.False(t, driver.IsTransient(err))
	_, there := w.Data("local-lvm:vm-" + num(db) + "-disk-1")
	require.True(t, there)
}

// The second request of a delete fails in a way that passes. To run the step again would find no such disk, and nobody would hear of the data.
func TestADiskThatWasTakenOffAndNotDeletedIsNamed(t *testing.T) {
	for what, rule := range map[string]pvetest.Rule{
		"no connection": {Status: 595}, "busy": {Status: 503}, "locked": {Reason: "VM is locked (backup)"},
		"changed": {Reason: "detected modified configuration"}, "refused": {Reason: "permission denied"},
	} {
		t.Run(what, func(t *testing.T) {
			eitherWorld(t, func(t *testing.T, w *world) {
				key := secondDisk[w.kind()]
				db := w.ours("db")
				w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
				r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", key))
				rule.Method, rule.Path, rule.VMID, rule.Fault, rule.Skip, rule.Times = "PUT", "/config", num(db), pvetest.FailBefore, 2, 1
				w.Break(rule)
				err := must.Err(w.run(r.ID))(t)
				require.ErrorIs(t, err, refusal.StaleTarget)
				require.ErrorContains(t, err, "it is unused0 of the guest now, and was not deleted")
				require.False(t, driver.IsTransient(err))
				_, there := w.Data("local-lvm:vm-" + num(db) + "-disk-1")
				require.True(t, there)
				require.Equal(t, "1", w.Guest(db).Config["protection"])
			})
		})
	}
}

// An answer that is lost leaves open if the disk is deleted.
func TestADiskThatWasTakenOffAndPerhapsDeleted(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		key := secondDisk[w.kind()]
		db := w.ours("db")
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		r := w.Approved(drivertest.Hub, guestAsk("disk-delete", "db", "disk", key))
		w.Break(pvetest.Rule{Method: "PUT", Path: "/config", VMID: num(db), Fault: pvetest.DropAfter, Skip: 2, Times: 1})
		err := must.Err(w.run(r.ID))(t)
		require.ErrorContains(t, err, "it is unused0 of the guest now; then")
		require.True(t, driver.IsUnknown(err))
	})
}
