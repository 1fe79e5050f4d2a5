package proxmox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// waits submits a step that must wait for a signature, and returns the reason.
func (w *world) waits(a op.Ask) string {
	w.t.Helper()
	j := must.Get(w.Submit(drivertest.Hub, a))(w.t)
	w.Reconcile()
	s := w.Step(j.Steps[0].ID)
	require.Equal(w.t, op.StatePending, s.State, "%s %s", s.Code, s.Detail)
	return s.Verdict.Why
}

// Two systems that write one disk destroy its content. So the start of the second is not
// benign, whichever of the two starts second.
func TestAStartThatWritesAnothersDiskWaits(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		db, thief := w.ours("db"), w.ours("thief")
		w.Done(drivertest.Hub, guestAsk("start", "db"))
		key := secondDisk[kind]
		value := "local-lvm:vm-" + num(db) + "-disk-0,size=1G"
		if kind == "lxc" {
			value += ",mp=/srv"
		}
		w.Set(thief, map[string]string{key: value})
		why := w.waits(guestAsk("start", "thief"))
		require.Contains(t, why, "it would write "+key)
		require.Contains(t, why, "the guest "+num(db))
		require.Equal(t, "stopped", w.Look("thief").Running)
		require.Contains(t, w.waits(guestAsk("restart", "thief")), "it would write "+key, "a restart starts what stands still")

		require.Contains(t, w.waits(guestAsk("restart", "db")), "the guest "+num(thief), "what is configured takes effect with it")
		w.Done(drivertest.Hub, guestAsk("stop", "db"))
		require.Contains(t, w.waits(guestAsk("start", "db")), "the guest "+num(thief))
	})
}

// A guest writes another one's disk under each name of it. A device that does not say which volume it is may be any, so its guest's start
// waits, and no other start does.
func TestAStartThatWritesAnothersDiskUnderAnotherName(t *testing.T) {
	for _, c := range spellings {
		t.Run(c.value, func(t *testing.T) {
			w := newWorld(t, "qemu")
			db, thief := w.ours("db"), w.ours("thief")
			value := strings.ReplaceAll(c.value, "N", num(db))
			w.Set(thief, map[string]string{c.key: value})
			any := strings.Contains(value, "/dev/d") && !strings.Contains(value, "mapper") || strings.Contains(value, "/dev/loop")
			switch {
			case strings.Contains(value, "cdrom"), c.key == "unused7": // it only reads, or does not use it
			case strings.HasSuffix(value, "/vm-101-disk-0"): // its own disk, based on the other one
			default:
				require.Contains(t, w.waits(guestAsk("start", "thief")), c.key)
			}
			if any || strings.Contains(value, "cdrom") {
				w.Done(drivertest.Hub, guestAsk("start", "db"))
			} else {
				require.Contains(t, w.waits(guestAsk("start", "db")), "scsi0")
			}
		})
	}
}

// A disk that a guest keeps without using it is still that guest's data.
func TestAStartThatWritesAnUnusedDiskOfAnotherWaits(t *testing.T) {
	w := newWorld(t, "qemu")
	db, thief := w.ours("db"), w.ours("thief")
	w.Set(db, map[string]string{"unused0": "local-lvm:vm-" + num(db) + "-disk-7"})
	w.Set(thief, map[string]string{"scsi1": "local-lvm:vm-" + num(db) + "-disk-7,size=1G"})
	require.Contains(t, w.waits(guestAsk("start", "thief")), "scsi1")
	w.Done(drivertest.Hub, guestAsk("start", "db"))
}

// A copy keeps the lines that give a guest a directory or a device of the node. Its start would
// write there, too.
func TestACopyWithADirectoryOfTheNodeWaits(t *testing.T) {
	for key, value := range map[string]string{"virtiofs0": "dirid=srv,cache=auto", "hostpci0": "0000:01:00.0,pcie=1", "usb0": "host=1234:5678"} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, "qemu")
			db := w.ours("db")
			w.Set(db, map[string]string{key: value})
			w.Done(drivertest.Hub, guestAsk("start", "db"))
			w.Done(drivertest.Hub, guestAsk("stop", "db"))
			w.Done(drivertest.Hub, guestAsk("clone", "copy", "from", "db"))
			require.Contains(t, w.waits(guestAsk("start", "copy")), key)
		})
	}
}

// A device of a node has several spellings, and a directory may lie in another.
func TestSpellingsOfOneShare(t *testing.T) {
	for _, c := range []struct{ key, db, thief string }{
		{"hostpci0", "0000:01:00.0,pcie=1", "01:00.0,pcie=1"}, {"hostpci0", "host=0000:01:00.1", "01:00"}, {"hostpci0", "0000:02:00.0;0000:01:00.0", "01:00.0"},
		{"usb0", "host=0x1234:0x5678", "1234:5678"}, {"virtiofs0", "dirid=srv", "srv,cache=auto"},
	} {
		w := newWorld(t, "qemu")
		db, thief := w.ours("db"), w.ours("thief")
		w.Set(db, map[string]string{c.key: c.db})
		w.Set(thief, map[string]string{c.key: c.thief})
		require.Contains(t, w.waits(guestAsk("start", "thief")), c.key, c.thief)
	}
	for _, dir := range []string{"/srv/", "/srv/db", "/srv/../srv", "/"} {
		w := newWorld(t, "lxc")
		db, thief := w.ours("db"), w.ours("thief")
		w.Set(db, map[string]string{"mp0": "/srv,mp=/mnt"})
		w.Set(thief, map[string]string{"mp0": dir + ",mp=/mnt"})
		require.Contains(t, w.waits(guestAsk("start", "thief")), "mp0", dir)
	}
}

// The operator signs a list of the guests that share. If one more guest shares, the step needs
// another signature.
func TestSharesAreSigned(t *testing.T) {
	w := newWorld(t, "qemu")
	test, web, prod := w.ours("test"), w.ours("web"), w.ours("prod")
	for _, vmid := range []int{test, web} {
		w.Set(vmid, map[string]string{"virtiofs0": "dirid=srv"})
	}
	r := w.Approved(drivertest.Hub, guestAsk("start", "web"))
	w.Set(prod, map[string]string{"virtiofs0": "dirid=srv"})
	must.Fail(w.run(r.ID))(t, refusal.StaleTarget)
	require.Equal(t, "stopped", w.Look("web").Running)
}

// A guest that shares nothing starts without a signature, also beside guests that have a device
// of the node.
func TestAStartBesideOthersIsBenign(t *testing.T) {
	w := newWorld(t, "qemu")
	a, b := w.ours("a"), w.ours("b")
	w.Set(a, map[string]string{"usb0": "spice", "serial0": "socket", "hostpci0": "0000:01:00.0", "args": "-cpu host"})
	w.Set(b, map[string]string{"usb0": "spice", "serial0": "socket", "hostpci0": "0000:01:00.1", "args": "-cpu host", "ide2": "local:iso/debian.iso,media=cdrom"})
	w.Done(drivertest.Hub, guestAsk("start", "a"))
	w.Done(drivertest.Hub, guestAsk("start", "b"))
}

// between has a hand do something when the permit was used, before the driver's work.
type between struct {
	driver.Driver
	hand func()
}

func (b between) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, act, err := b.Driver.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		b.hand()
		return do(ctx)
	}), err
}

// The hand gives the guest another one's disk, or another guest its own, after the last look that the permit was for.
func TestADiskThatIsSharedRightBeforeAStart(t *testing.T) {
	for _, verb := range []string{"start", "restart"} {
		for _, to := range []string{"thief", "db"} {
			either(t, func(t *testing.T, kind string) {
				w := newWorld(t, kind)
				vmid := map[string]int{"db": w.ours("db"), "thief": w.ours("thief")}
				if verb == "restart" {
					w.Done(drivertest.Hub, guestAsk("start", "db"))
				}
				of := map[string]string{"thief": "db", "db": "thief"}[to]
				w.Use(between{w.d, func() {
					w.Set(vmid[to], option(kind, secondDisk[kind], "local-lvm:vm-"+num(vmid[of])+"-disk-0"))
				}})
				w.ResetCounts()
				s := w.Do(drivertest.Hub, guestAsk(verb, "db"))
				require.Equal(t, refusal.StaleTarget, s.Code, "%s %s", s.State, s.Detail)
				require.Zero(t, w.Counts().Change, "the guest was started")
			})
		}
	}
}

// QEMU would take all disks back with each start, and a start is benign.
func TestAStartThatTakesDisksBackIsRefused(t *testing.T) {
	for _, args := range []string{"-loadvm before", "--loadvm before", "-name x '-loadvm' 'before'", "-icount shift=7,rr=record,rrfile=r,rrsnapshot=before"} {
		w := newWorld(t, "qemu")
		w.Set(w.ours("db"), map[string]string{"args": args})
		must.Fail(w.Submit(drivertest.Hub, guestAsk("start", "db")))(t, refusal.Conflict, args)
		must.Fail(w.Submit(drivertest.Hub, guestAsk("restart", "db")))(t, refusal.Conflict, args)
		w.Set(w.VMID("db"), map[string]string{"args": "-name loadvm"})
		w.Done(drivertest.Hub, guestAsk("start", "db"))
		w.Set(w.VMID("db"), map[string]string{"args": args})
		must.Fail(w.Submit(drivertest.Hub, guestAsk("restart", "db")))(t, refusal.Conflict, args)
	}
}
