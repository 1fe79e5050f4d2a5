package proxmox_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

func idle(op.Target) bool { return false }

// killed runs a signed step of a guest in a daemon that is killed before its request number n.
// It returns whether the step came that far.
func (w *world) killed(kind string, ask op.Ask, n int) bool {
	w.t.Helper()
	r := w.Approved(drivertest.Hub, ask)
	cut := w.Break(pvetest.Rule{Fault: pvetest.DropBefore, Skip: n})
	did, err := w.run(r.ID)
	if err == nil && did.Task != "" {
		_, _ = w.d.Task(w.t.Context(), did.Task)
	}
	cut.Release()
	w.use(pveworld.Config(w.t, w.Cluster, kind))
	return cut.Met() > 0
}

// TestTheFlagIsOnAgainAfterAKill kills the daemon at each request of a step that takes Proxmox
// VE's flag off. The next daemon sets the flag again without a step on that guest. That holds
// for guests of the gate and for guests that another user protected.
func TestTheFlagIsOnAgainAfterAKill(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		disk := secondDisk[kind]
		asks := []op.Ask{guestAsk("destroy", "web"), guestAsk("backup-restore", "web")}
		if kind == "qemu" { // the requests for a container's disk are the same
			asks = append(asks, guestAsk("disk-detach", "web", "disk", disk), guestAsk("disk-delete", "web", "disk", disk))
		}
		for _, ask := range asks {
			for _, ours := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, ours %t", ask.Op, ours), func(t *testing.T) {
					was := 0
					for n, more := 0, true; more; n++ {
						require.Less(t, n, 100, "the step makes requests for ever")
						w := newWorld(t, kind)
						vmid := w.protectedGuest(kind, ours)
						ask := ask
						if ask.Op == "guest.backup-restore" {
							ask = guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0])
						}
						more = w.killed(kind, ask, n)
						if w.Exists(vmid) && w.Guest(vmid).Config["protection"] != "1" {
							was++
						}
						require.NoError(t, w.d.Mend(t.Context(), idle), "killed before request %d", n)
						if w.Exists(vmid) {
							require.Equal(t, "1", w.Guest(vmid).Config["protection"], "killed before request %d", n)
						}
					}
					require.NotZero(t, was, "at no point was the flag off: this test tests nothing")
				})
			}
		}
	})
}

// protectedGuest makes web with two disks, a backup and the flag.
func (w *world) protectedGuest(kind string, ours bool) (vmid int) {
	w.t.Helper()
	if ours {
		vmid = w.ours("web")
	} else {
		vmid = w.Make(pvetest.Spec{Kind: kind, Name: "web"})
	}
	w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", secondDisk[kind], "size", int64(1024)))
	w.Done(drivertest.Hub, guestAsk("backup", "web"))
	w.SetProtection(vmid, true)
	return vmid
}

// TestMend leaves a guest alone if a step needs the flag off, or if an administrator took it
// off.
func TestMend(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		vmid := w.ours("web")
		flag := func() string { return w.Guest(vmid).Config["protection"] }
		byHand := w.Make(pvetest.Spec{Kind: kind, Name: "by-hand"})
		w.SetProtection(vmid, false)

		busy := func(t op.Target) bool { return t.Name == "web" }
		require.NoError(t, w.d.Mend(t.Context(), busy))
		require.Equal(t, "0", flag(), "a step of an earlier process is under way")

		gone := w.Break(pvetest.Rule{Fault: pvetest.DropBefore})
		require.Error(t, w.d.Mend(t.Context(), idle))
		gone.Release()
		require.Equal(t, "0", flag())

		require.NoError(t, w.d.Mend(t.Context(), idle))
		require.Equal(t, "1", flag(), "it tries until it could")
		require.Empty(t, w.Guest(byHand).Config["protection"], "a guest without mark and flag stays so")

		w.SetProtection(vmid, false)
		w.ResetCounts()
		require.NoError(t, w.d.Mend(t.Context(), idle))
		require.Equal(t, "0", flag(), "other hands took it off, and no step failed")
		require.Empty(t, w.Requests(), "and no round asks for it")
		w.use(pveworld.Config(t, w.Cluster, kind))
		require.NoError(t, w.d.Mend(t.Context(), idle))
		require.Equal(t, "1", flag(), "a start looks at all")
	})
}

// TestMendAfterAStepThatCouldNotPutItBack: it works in the same process.
func TestMendAfterAStepThatCouldNotPutItBack(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		require.NoError(t, w.d.Mend(t.Context(), idle))
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
		cut := w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.FailBefore})
		again := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.DropBefore, Skip: 1})
		must.Err(w.run(r.ID))(t)
		cut.Release()
		again.Release()
		require.Equal(t, "0", w.Guest(vmid).Config["protection"])
		require.NoError(t, w.d.Mend(t.Context(), idle))
		require.Equal(t, "1", w.Guest(vmid).Config["protection"])
	})
}

// TestMendDuringAStep: if a step of this process has the flag off, a round leaves it off.
func TestMendDuringAStep(t *testing.T) {
	w := newWorld(t, "qemu")
	vmid := w.ours("web")
	r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
	hung := w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.HangBefore, Times: 1})
	ended := make(chan error, 1)
	go func() { _, err := w.run(r.ID); ended <- err }()
	<-hung.Came()
	require.NoError(t, w.d.Mend(t.Context(), idle))
	require.Equal(t, "0", w.Guest(vmid).Config["protection"])
	held := w.Hold("qmdestroy")
	hung.Release()
	require.NoError(t, <-ended)
	require.NoError(t, w.d.Mend(t.Context(), idle))
	require.Equal(t, "0", w.Guest(vmid).Config["protection"], "the task is under way")
	held.Release()
}

// TestAConfigurationThatOtherHandsChange: if another user changes it between look and request,
// the gate does not change it. The request has the digest of the look.
func TestAConfigurationThatOtherHandsChange(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for _, ask := range []op.Ask{guestAsk("set-config", "web", "memory", int64(2048)), guestAsk("destroy", "web")} {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			var id op.StepID
			if ask.Op == "guest.destroy" {
				id = w.Approved(drivertest.Hub, ask).ID
			} else {
				id = w.Ask(drivertest.Hub, ask).ID
			}
			memory := w.Guest(vmid).Config["memory"]
			put := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.HangBefore, Times: 1})
			ended := make(chan error, 1)
			go func() { _, err := w.run(id); ended <- err }()
			<-put.Came()
			w.Set(vmid, map[string]string{"onboot": "1"})
			put.Release()
			err := <-ended
			require.Error(t, err, ask.Op)
			require.Regexp(t, "file changed? by other user", err.Error())
			require.True(t, w.Exists(vmid))
			require.Equal(t, memory, w.Guest(vmid).Config["memory"])
			require.Equal(t, "1", w.Guest(vmid).Config["protection"])
			require.Equal(t, "1", w.Guest(vmid).Config["onboot"])
		}
	})
}

// TestAChangeOfFieldsSetsTheFlagItself: in its one request, with the digest of the look. If the flag were set first, no digest would tell
// what a hand changed until the next look.
func TestAChangeOfFieldsSetsTheFlagItself(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.SetProtection(vmid, false)
		w.ResetCounts()
		w.Done(drivertest.Hub, guestAsk("set-config", "web", "memory", int64(2048)))
		changes := slices.DeleteFunc(w.Requests(), func(r pvetest.Request) bool { return r.Method != "PUT" })
		require.Len(t, changes, 1)
		require.Equal(t, "1", w.Guest(vmid).Config["protection"])
		require.Equal(t, "2048", w.Guest(vmid).Config["memory"])
	})
}
