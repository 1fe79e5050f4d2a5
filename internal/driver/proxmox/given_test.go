package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
)

// given are what an administrator can give a new guest before the gate looks at it. The gate did not make it.
var given = map[string]func(w *world){
	"a disk with data": func(w *world) { w.w.Make("app"); w.w.MoveDisk("app", "web") },
	"an unused disk": func(w *world) {
		id := "local-lvm:vm-" + num(w.VMID("web")) + "-disk-7"
		w.AddVolume(pvetest.Volume{ID: id, VMID: w.VMID("web"), Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("of app")})
		w.Set(w.VMID("web"), map[string]string{"unused0": id})
	},
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
			held.Release()
			require.ErrorContains(t, <-ended, "is not as it was made", what)
			require.True(t, w.Exists(w.VMID("web")), what)
			_, there := w.Data("local-lvm:vm-" + num(w.VMID("web")) + "-disk-7")
			require.True(t, there, what)
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
