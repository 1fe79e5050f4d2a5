package proxmox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// given are what an administrator can give a new guest before the gate looks at it. The gate did not make it.
var given = map[string]func(w *world){
	"a disk with data": func(w *world) { w.w.Make("app"); w.w.MoveDisk("app", "web") },
	"an unused disk": func(w *world) {
		id := "local-lvm:vm-" + num(w.VMID("web")) + "-disk-7"
		w.AddVolume(pvetest.Volume{ID: id, VMID: w.VMID("web"), Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("of app")})
		w.Set(w.VMID("web"), map[string]string{"unused0": id})
	},
	"another guest's disk under the key of its own": func(w *world) {
		w.w.Make("app")
		w.Write(w.VMID("app"), rootDisk[w.kind()], []byte("of app"))
		w.replace("local-lvm:vm-" + num(w.VMID("app")) + "-disk-0")
	},
	"a disk of its number on another storage under the key of its own": func(w *world) {
		id := "dir:" + num(w.VMID("web")) + "/vm-" + num(w.VMID("web")) + "-disk-7.raw"
		w.AddVolume(pvetest.Volume{ID: id, VMID: w.VMID("web"), Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("of app")})
		w.replace(id)
	},
}

// rootDisk is the key of the disk that a create makes.
var rootDisk = map[string]string{"qemu": "scsi0", "lxc": "rootfs"}

// replace puts a volume in the place of the disk that web was made with, which is deleted.
func (w *world) replace(id string) {
	vmid, key := w.VMID("web"), rootDisk[w.kind()]
	own, _, _ := strings.Cut(w.Guest(vmid).Config[key], ",")
	w.Set(vmid, map[string]string{key: id + ",size=1G"})
	w.RemoveVolume(own)
}

// A disk that other hands put in the place of the one that a create made has another size than that one, even under its name.
func TestADiskOfAnotherSizeIsNotScratch(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		s := w.Ask(drivertest.Builder, guestAsk("create", "web", "scratch", true))
		require.NoError(t, w.Execute(s.ID))
		key := rootDisk[w.kind()]
		id, _, _ := strings.Cut(w.Guest(w.VMID("web")).Config[key], ",")
		w.AddVolume(pvetest.Volume{ID: id, VMID: w.VMID("web"), Size: 2 << 30, Format: "raw", Content: "images", Data: []byte("of app")})
		w.Set(w.VMID("web"), map[string]string{key: id + ",size=2G"})
		w.Reconcile()
		w.Waiting(drivertest.Builder, guestAsk("destroy", "web"))
	})
}

// The mark of a gate before this one names no disk, or keys alone. What it made and no look saw yet is not scratch any more.
func TestAnOlderMarkProvesNoDisk(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		for _, older := range []string{`"disks":"` + rootDisk[w.kind()] + `",`, ""} {
			s := w.Ask(drivertest.Builder, guestAsk("create", "web", "scratch", true))
			require.NoError(t, w.Execute(s.ID))
			w.edit(w.VMID("web"), `"disks":"`+rootDisk[w.kind()]+`=local-lvm:1073741824",`, older)
			w.Reconcile()
			r := w.Approved(drivertest.Builder, guestAsk("destroy", "web"))
			require.Equal(t, "destroy-unproven", r.Step.Verdict.Rule)
			must.Get(w.run(r.ID))(t)
			w.Reconcile()
		}
	})
}

// An administrator gives a disk to a guest that the gate has just made, before the gate looks at the end of its create. The daemon may be
// down for hours then. The guest is not scratch: its creator's destroy would take that disk unsigned.
func TestWhatANewGuestWasGivenIsNotScratch(t *testing.T) {
	for _, makes := range []func(*testing.T, string) *world{func(t *testing.T, kind string) *world { return newWorld(t, kind) }, cloning} {
		either(t, func(t *testing.T, kind string) {
			for what, gives := range given {
				for _, restart := range []bool{false, true} {
					w := makes(t, kind)
					s := w.Ask(drivertest.Builder, guestAsk("create", "web", "scratch", true))
					require.NoError(t, w.Execute(s.ID))
					gives(w)
					if restart {
						w.restarts(kind)
					}
					w.Reconcile()
					require.NotEqual(t, op.StateDispatched, w.Step(s.ID).State, what)
					w.Waiting(drivertest.Builder, guestAsk("destroy", "web"))
				}
			}
		})
	}
}

// A disk that an administrator gave the new guest makes its set-up fail. The driver does not take that disk with what it made.
func TestANewGuestThatWasGivenADiskIsNotUnmade(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for what, gives := range given {
			w := cloning(t, kind)
			s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
			held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
			ended := make(chan error, 1)
			go func() { _, err := w.run(s.ID); ended <- err }()
			<-held.Came()
			gives(w)
			was := w.Volumes(0)
			held.Release()
			require.ErrorContains(t, <-ended, "is not as it was made", what)
			require.True(t, w.Exists(w.VMID("web")), what)
			require.Equal(t, was, w.Volumes(0), what)
		}
	})
}

// Other hands removed the new guest and made another one under its number before its set-up. It does not get the settings, and is not
// started or destroyed.
func TestANewGuestThatIsAnotherOneByNow(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := cloning(t, kind)
		s := w.Ask(drivertest.Hub, guestAsk("create", "web", "memory", int64(64), "state", "running"))
		const vmid = 500
		held := w.Break(pvetest.Rule{Method: "GET", Path: "/config", VMID: num(vmid), Fault: pvetest.HangBefore, Times: 1})
		ended := make(chan error, 1)
		go func() { _, err := w.run(s.ID); ended <- err }()
		<-held.Came()
		w.Remake(vmid, pvetest.Spec{Kind: kind, Name: "app", Config: map[string]string{"memory": "4096"}})
		was := w.Guest(vmid)
		held.Release()
		require.ErrorContains(t, <-ended, "is not as it was made")
		require.Equal(t, was, w.Guest(vmid))
	})
}
