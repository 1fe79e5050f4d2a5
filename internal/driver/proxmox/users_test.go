package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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

// Who has the disks is signed. If another guest gets one later, the step runs no more, also after the driver's own look.
func TestWhoHasTheDisksIsSigned(t *testing.T) {
	for _, when := range []string{"before the step", "while the flag is taken off"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t, "qemu")
			app, db := w.ours("app"), w.ours("db")
			volume := "local-lvm:vm-" + num(db) + "-disk-0"
			r := w.Approved(drivertest.Hub, guestAsk("destroy", "db"))
			attach := func() { w.Set(app, option("qemu", "scsi1", volume)) }
			if when == "before the step" {
				attach()
			} else {
				held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
				go func() { <-held.Came(); attach(); held.Release() }()
			}
			must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
			require.True(t, w.Exists(db))
			require.Equal(t, "1", w.Guest(db).Config["protection"])
		})
	}
}
