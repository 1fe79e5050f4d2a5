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
)

// restarts opens a new driver that the gate's journal answers, as a daemon does at its start.
func (w *world) restarts(kind string, change ...func(*proxmox.Config)) {
	w.t.Helper()
	cfg := pveworld.Config(w.t, w.Cluster, kind)
	cfg.Recorded = w.Gate.Incarnations
	for _, c := range change {
		c(&cfg)
	}
	w.use(cfg)
}

// backUpByHand makes a backup of a guest without the gate.
func (w *world) backUpByHand(vmid int) {
	w.Advance(60)
	w.BackUp(vmid, "local")
}

// No new guest gets the number of a guest that is gone, whoever made that one and ended it, and also after a restart. With it,
// the new guest would get the backups, the jobs and the permissions of that number.
func TestANumberIsGivenOnce(t *testing.T) {
	const first = 500
	ends := map[string]func(*world){
		"the gate made it and destroyed it": func(w *world) {
			w.ours("old")
			w.signed(guestAsk("destroy", "old"))
		},
		"the gate destroyed it": func(w *world) {
			w.Make(pvetest.Spec{VMID: first, Kind: w.kind(), Name: "old"})
			w.signed(guestAsk("destroy", "old"))
		},
		"the gate made it": func(w *world) {
			w.ours("old")
			w.Remove(first)
		},
		"a backup is left": func(w *world) {
			w.Make(pvetest.Spec{VMID: first, Kind: w.kind(), Name: "old"})
			w.BackUp(first, "local")
			w.Remove(first)
		},
		"a backup is left on another storage": func(w *world) {
			w.AddStorage(pvetest.Storage{Name: "far", Type: "pbs", Content: "backup", Shared: true})
			w.AddVolume(pvetest.Volume{ID: "far:backup/vm/500/2026-01-01T00:00:00Z", Storage: "far", VMID: first, Content: "backup"})
		},
		"a disk is left": func(w *world) {
			w.AddVolume(pvetest.Volume{ID: "dir:500/vm-500-disk-0.qcow2", Storage: "dir", VMID: first, Content: "images"})
		},
	}
	either(t, func(t *testing.T, kind string) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, kind)
				w.restarts(kind)
				end(w)
				require.False(t, w.Exists(first))
				w.restarts(kind)
				require.Equal(t, first+1, w.ours("new"))
				require.Empty(t, w.Look("new").Backups)
			})
		}
	})
}

// A storage that cannot be listed may have something of each number, so no guest is made until it can be.
func TestNoNumberWithoutEveryStorage(t *testing.T) {
	breaks := map[string]func(*world) func(){
		"the list of storages": func(w *world) func() {
			return w.Break(pvetest.Rule{Method: "GET", Path: "/cluster/resources", Skip: 2, Fault: pvetest.FailBefore}).Release
		},
		"a storage": func(w *world) func() {
			return w.Break(pvetest.Rule{Method: "GET", Path: "/content", Skip: 1, Fault: pvetest.FailBefore, Reason: "storage 'dir' is not online"}).Release
		},
		"a node": func(w *world) func() {
			w.SetOffline("pve2", true)
			return func() { w.SetOffline("pve2", false) }
		},
	}
	for name, breaks := range breaks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "qemu", "pve1", "pve2")
			s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
			mend := breaks(w)
			require.ErrorIs(t, w.Execute(s.ID), refusal.Unavailable)
			require.Equal(t, op.StatePlanned, w.Step(s.ID).State)
			require.Zero(t, w.VMID("web"))
			mend()
			require.NoError(t, w.Execute(s.ID))
			require.NotZero(t, w.VMID("web"))
		})
	}
}

// unread is a disk that nobody can read. Proxmox VE then lists its storage no more, except for the numbers of other guests.
func unread(storage string, vmid int) pvetest.Volume {
	return pvetest.Volume{ID: storage + ":" + num(vmid) + "/vm-" + num(vmid) + "-disk-0.qcow2", VMID: vmid, Content: "images", Unread: true}
}

// An image that nobody can read is something of its own number alone. That number is not used, nor are those under which the storage has
// something.
func TestAnImageThatNobodyCanReadStopsNoCreate(t *testing.T) {
	w := newWorld(t, "qemu", "pve1", "pve2")
	w.AddVolume(unread("dir", 9))
	require.Equal(t, 500, w.ours("a"))
	w.AddVolume(unread("dir", 501))
	w.AddVolume(pvetest.Volume{ID: "dir:502/vm-502-disk-0.qcow2", VMID: 502, Content: "images"})
	w.AddVolume(pvetest.Volume{ID: "dir:backup/vzdump-qemu-503-2026_01_01-00_00_00.vma", VMID: 503, Content: "backup"})
	w.AddVolume(pvetest.Volume{ID: "local:backup/vzdump-qemu-504-2026_01_01-00_00_00.vma", VMID: 504, Content: "backup"})
	require.Equal(t, 505, w.ours("b"))
	w.RemoveVolume(unread("dir", 501).ID)
	w.restarts("qemu", func(c *proxmox.Config) { c.First, c.Last = 500, 501 })
	require.Equal(t, 501, w.ours("c"), "a doubt is no guest")
}

// The driver asks about a few numbers in doubt, and then waits for a later try, which goes on after them. A range without another number
// is not used up: the doubt may go away.
func TestManyNumbersInDoubt(t *testing.T) {
	w := newWorld(t, "qemu")
	for vmid := 500; vmid < 507; vmid++ {
		w.AddVolume(unread("dir", vmid))
	}
	require.Equal(t, 507, w.ours("a"))
	for vmid := 508; vmid < 516; vmid++ {
		w.AddVolume(unread("dir", vmid))
	}
	s := w.Ask(drivertest.Hub, guestAsk("create", "b"))
	require.ErrorContains(t, w.Execute(s.ID), "could not parse qemu-img info")
	require.Equal(t, op.StatePlanned, w.Step(s.ID).State)
	require.NoError(t, w.Execute(s.ID))
	require.Equal(t, 516, w.VMID("b"))

	w.restarts("qemu", func(c *proxmox.Config) { c.First, c.Last = 508, 510 })
	s = w.Ask(drivertest.Hub, guestAsk("create", "c"))
	require.ErrorIs(t, w.Execute(s.ID), refusal.Unavailable)
}

// A storage that does not answer for one number, after it failed for all, is no doubt about that number alone.
func TestAStorageThatIsSilentForOneNumber(t *testing.T) {
	w := newWorld(t, "qemu")
	w.AddVolume(unread("dir", 9))
	s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
	w.ResetCounts()
	broken := w.Break(pvetest.Rule{Method: "GET", Path: "/content", VMID: "500", Fault: pvetest.FailBefore, Status: 596})
	require.ErrorIs(t, w.Execute(s.ID), refusal.Unavailable)
	require.Equal(t, 1, broken.Met())
	require.Equal(t, 4, w.reads("/content"), "each storage once, one number once")
	require.Zero(t, w.VMID("web"))
}

// A storage that its node waited for in vain is asked once in a create, and not again for each of several numbers.
func TestAStorageThatHangsIsAskedOnce(t *testing.T) {
	w := newWorld(t, "qemu")
	s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
	hangs := w.Break(pvetest.Rule{Method: "GET", Path: "/content", Fault: pvetest.FailBefore, Status: 500, Reason: "command 'zfs list' failed: got timeout"})
	err := w.Execute(s.ID)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "cannot be listed")
	require.Equal(t, 3, hangs.Met(), "each of three storages once")
	hangs.Release()
	require.NoError(t, w.Execute(s.ID))
}

// A storage that all nodes share is asked once, at a node that answers.
func TestASharedStorageIsAskedAtANodeThatAnswers(t *testing.T) {
	w := newWorld(t, "qemu", "pve0", "pve1")
	for _, name := range []string{"local", "local-lvm", "dir"} {
		w.AddStorage(pvetest.Storage{Name: name, Type: "rbd", Content: "images,rootdir,backup", Shared: true})
	}
	w.SetOffline("pve0", true)
	require.Equal(t, 500, w.ours("web"))
}

// A storage that has nothing of guests need not answer.
func TestAStorageForOtherThings(t *testing.T) {
	w := newWorld(t, "qemu")
	w.AddStorage(pvetest.Storage{Name: "isos", Type: "nfs", Content: "iso,import,snippets"})
	before := len(w.Requests())
	w.ours("web")
	for _, r := range w.Requests()[before:] {
		require.NotEqual(t, "isos", r.Values["storage"])
	}
}

// A range whose numbers were all given gives no more, and the doctor says so.
func TestARangeThatIsUsedUp(t *testing.T) {
	w := newWorld(t, "qemu")
	small := func(c *proxmox.Config) { c.First, c.Last = 200, 201 }
	w.restarts("qemu", small)
	w.Done(drivertest.Builder, guestAsk("create", "a", "scratch", true))
	w.Done(drivertest.Builder, guestAsk("destroy", "a"))
	require.Equal(t, 201, w.ours("b"))
	w.restarts("qemu", small)
	s := w.Do(drivertest.Hub, guestAsk("create", "c"))
	require.Equal(t, op.StateRefused, s.State)
	require.Equal(t, refusal.OverLimit, s.Code)
	require.Contains(t, s.Detail, "from 200 to 201")
	require.Equal(t, driver.Bad, check(t, w.d)["vmids"].State)
}

// Numbers under which a storage has something are passed over, however many they are, and each storage is asked once.
func TestManyNumbersWithBackups(t *testing.T) {
	w := newWorld(t, "qemu")
	w.restarts("qemu", func(c *proxmox.Config) { c.First, c.Last = 1000, 2000 })
	for vmid := 1000; vmid < 1300; vmid++ {
		w.AddVolume(pvetest.Volume{ID: "local:backup/vzdump-qemu-" + num(vmid) + "-2026_01_01-00_00_00.vma", Storage: "local", VMID: vmid, Content: "backup"})
	}
	s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
	w.ResetCounts()
	require.NoError(t, w.Execute(s.ID))
	require.Equal(t, 1300, w.VMID("web"))
	require.LessOrEqual(t, w.reads("/content"), 4, "one for each storage, and one of a look")
}

// More guests that the token cannot see than one step asks for keep a create back, and the next try goes on after them.
func TestManyNumbersOfGuestsThatAreHidden(t *testing.T) {
	w := newWorld(t, "qemu")
	w.restarts("qemu", func(c *proxmox.Config) { c.First, c.Last = 1000, 2000 })
	for vmid := 1000; vmid < 1300; vmid++ {
		w.Make(pvetest.Spec{VMID: vmid, Name: "g" + num(vmid), Disks: map[string]string{}})
		w.Hide(vmid, true)
	}
	s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
	require.ErrorIs(t, w.Execute(s.ID), refusal.Unavailable)
	require.NoError(t, w.Execute(s.ID))
	require.Equal(t, 1300, w.VMID("web"))
}

// A number is passed over because of something under it, and no guest had it. When nothing is under it any more, it is free, also without a
// restart.
func TestANumberUnderWhichNothingIsLeft(t *testing.T) {
	w := newWorld(t, "qemu")
	w.restarts("qemu", func(c *proxmox.Config) { c.First, c.Last = 500, 501 })
	id := "dir:500/vm-500-disk-0.qcow2"
	w.AddVolume(pvetest.Volume{ID: id, VMID: 500, Content: "images"})
	require.Equal(t, 501, w.ours("a"))
	require.Equal(t, refusal.OverLimit, w.Do(drivertest.Hub, guestAsk("create", "b")).Code)
	w.RemoveVolume(id)
	require.Equal(t, 500, w.ours("c"))
}

// A node that is away does not hold creates up, if the driver listed its storages before: nothing comes to them meanwhile. What is on
// them still counts.
func TestACreateWhileANodeIsAway(t *testing.T) {
	w := newWorld(t, "qemu", "pve1", "pve2")
	w.restarts("qemu")
	w.AddVolume(pvetest.Volume{ID: "local:backup/vzdump-qemu-501-2026_01_01-00_00_00.vma", VMID: 501, Content: "backup"})
	require.Equal(t, 500, w.ours("a"))
	w.SetOffline("pve2", true)
	require.Equal(t, 502, w.ours("b"))
	w.restarts("qemu")
	s := w.Do(drivertest.Hub, guestAsk("create", "c"))
	require.Equal(t, op.StatePlanned, s.State)
	require.ErrorContains(t, w.Execute(s.ID), "of pve2 cannot be listed")
}

// The last list of a node counts only if the cluster says that the node is offline. One that does not answer may work on, and get
// volumes and backups that the driver does not see.
func TestACreateWhileANodeIsSilent(t *testing.T) {
	for name, silence := range map[string]func(w *world) func(){
		"online":  func(w *world) func() { w.SetSilent("pve2", "online"); return func() { w.SetOffline("pve2", false) } },
		"unknown": func(w *world) func() { w.SetSilent("pve2", "unknown"); return func() { w.SetOffline("pve2", false) } },
		"nothing said": func(w *world) func() {
			w.SetOffline("pve2", true)
			return w.Break(pvetest.Rule{Method: "GET", Path: "/nodes", Fault: pvetest.FailBefore}).Release
		},
		"no answer": func(w *world) func() {
			return w.Break(pvetest.Rule{Method: "GET", Path: "/content", Fault: pvetest.DropBefore}).Release
		},
		"a failed worker": func(w *world) func() {
			return w.Break(pvetest.Rule{Method: "GET", Path: "/content", Fault: pvetest.FailBefore, Status: 596}).Release
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "qemu", "pve1", "pve2")
			w.restarts("qemu")
			w.ours("a")
			mend := silence(w)
			s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
			err := w.Execute(s.ID)
			require.ErrorIs(t, err, refusal.Unavailable)
			require.Contains(t, refusal.As(err).Hint, "systemctl restart pveproxy")
			require.Contains(t, refusal.As(err).Hint, "pvesm set")
			require.Equal(t, op.StatePlanned, w.Step(s.ID).State)
			require.Zero(t, w.VMID("web"))
			mend()
			w.SetOffline("pve2", false)
			require.NoError(t, w.Execute(s.ID))
		})
	}
}
