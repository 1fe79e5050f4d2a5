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
)

// again makes a guest's first disk again, as an administrator does: under its key and name, of its size, on its storage.
func (w *world) again(vmid int) (id string) {
	id, _, _ = strings.Cut(w.Guest(vmid).Config[rootDisk[w.kind()]], ",")
	w.RemoveVolume(id)
	w.AddVolume(pvetest.Volume{ID: id, VMID: vmid, Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("of other hands")})
	return id
}

// letThrough is a step that the gate let through, with a signature if it wants one.
func (w *world) letThrough(by op.Requester, a op.Ask) op.StepID {
	w.t.Helper()
	if by.Agent == "" {
		return w.Approved(by, a).ID
	}
	return w.Ask(by, a).ID
}

func (w *world) keeps(id string) {
	w.t.Helper()
	data, _ := w.Data(id)
	require.Equal(w.t, "of other hands", string(data))
}

// A disk of scratch that other hands made again is theirs, also under its old name. So its creator's destroy waits.
func TestADiskThatWasMadeAgainIsNotScratch(t *testing.T) {
	for _, makes := range []func(*testing.T, string) *world{func(t *testing.T, kind string) *world { return newWorld(t, kind) }, cloning} {
		either(t, func(t *testing.T, kind string) {
			w := makes(t, kind)
			w.Done(drivertest.Builder, guestAsk("create", "web", "scratch", true))
			id := w.again(w.VMID("web"))
			r := w.Waiting(drivertest.Builder, guestAsk("destroy", "web"))
			require.Equal(t, "destroy-unproven", r.Step.Verdict.Rule)
			require.Contains(t, r.Step.Verdict.Why, "storage that this gate did not make")
			w.keeps(id)
		})
	}
}

// Other hands make the disk again after the gate let the step through, signed or not: before the driver's look, or in the middle of the run.
func TestADiskThatIsMadeAgainMeanwhileStays(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		for _, late := range []bool{false, true} {
			for _, by := range []op.Requester{drivertest.Builder, drivertest.Hub} {
				w.Done(drivertest.Builder, guestAsk("create", "web", "scratch", true))
				vmid, id := w.VMID("web"), ""
				step := w.letThrough(by, guestAsk("destroy", "web"))
				if !late {
					id = w.again(vmid)
					require.Error(t, w.Execute(step))
				} else {
					held := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
					go func() { <-held.Came(); id = w.again(vmid); held.Release() }()
					_, err := w.run(step)
					require.ErrorIs(t, err, refusal.StaleTarget)
				}
				w.keeps(id)
				require.Equal(t, "1", w.Guest(vmid).Config["protection"])
				w.Remove(vmid)
			}
		}
	})
}

// If the storage does not say when a disk was made, it is in doubt.
func TestAStorageThatDoesNotSayWhenADiskWasMade(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.Done(drivertest.Builder, guestAsk("create", "web", "scratch", true))
		silent := w.Break(pvetest.Rule{Method: "GET", Path: "/content", Fault: pvetest.FailBefore})
		r := w.Waiting(drivertest.Builder, guestAsk("destroy", "web"))
		require.Equal(t, "destroy-unproven", r.Step.Verdict.Rule)
		silent.Release()
		w.Done(drivertest.Builder, guestAsk("destroy", "web"))
	})
}

// Scratch on a storage that lists no time of making stays usable, also after its disk was written to. If Proxmox VE's flag is off, other hands
// can delete the disk, so its creator's destroy waits, also after the driver has put the flag back.
func TestScratchOnAStorageWithoutTimes(t *testing.T) {
	for _, kind := range []string{"zfspool", "dir"} {
		either(t, func(t *testing.T, guest string) {
			w := newWorld(t, guest)
			w.AddStorage(pvetest.Storage{Name: "pool", Type: kind, Content: "images,rootdir"})
			w.restarts(guest, func(c *proxmox.Config) { c.Storage = "pool" })
			create := guestAsk("create", "web", "scratch", true)
			w.Done(drivertest.Builder, create)
			w.Write(w.VMID("web"), rootDisk[guest], []byte("of the agent"))
			w.Done(drivertest.Builder, guestAsk("destroy", "web"))

			for name, back := range map[string]func(){
				"off":      func() {},
				"put back": func() { w.Done(drivertest.Builder, guestAsk("set-config", "web", "cpus", int64(2))) },
				"put back by Mend": func() {
					w.restarts(guest, func(c *proxmox.Config) { c.Storage = "pool" })
					require.NoError(t, w.d.Mend(t.Context(), idle))
				},
			} {
				w.Done(drivertest.Builder, create)
				vmid := w.VMID("web")
				w.SetProtection(vmid, false)
				id := w.again(vmid)
				back()
				r := w.Waiting(drivertest.Builder, guestAsk("destroy", "web"))
				require.Equal(t, "destroy-unproven", r.Step.Verdict.Rule, name)
				w.keeps(id)
				w.Remove(vmid)
			}
		})
	}
}

// What other hands roll back or restore is made again.
func TestAContainerThatOtherHandsRolledBackIsNotScratch(t *testing.T) {
	w := newWorld(t, "lxc")
	w.Done(drivertest.Builder, guestAsk("create", "web", "scratch", true))
	vmid := w.VMID("web")
	w.TakeSnapshot(vmid, "before")
	w.RollBack(vmid, "before")
	w.DropSnapshot(vmid, "before")
	require.Equal(t, "destroy-unproven", w.Waiting(drivertest.Builder, guestAsk("destroy", "web")).Step.Verdict.Rule)
}
