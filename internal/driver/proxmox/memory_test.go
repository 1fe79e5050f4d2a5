package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/drivertest"
)

// Proxmox VE sets a container's limit at once, so one below what it holds waits for a signature. A machine has it from its next start on. The
// request stays as it was signed while the use changes.
func TestMemoryBelowWhatAGuestHolds(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web", "memory", int64(512), "state", "running")
		w.SetUsed(vmid, 200)
		less := guestAsk("set-config", "web", "memory", int64(100))
		if w.kind() == "qemu" {
			require.Equal(t, op.StateSucceeded, w.Do(drivertest.Hub, less).State)
			return
		}
		w.Done(drivertest.Hub, guestAsk("set-config", "web", "memory", int64(200)))
		r := w.Waiting(drivertest.Hub, less)
		require.Equal(t, "memory-in-use", r.Step.Verdict.Rule)
		for _, used := range []int64{300, 50, 250} {
			w.SetUsed(vmid, used)
			w.Reconcile()
			now, err := w.Request(t.Context(), r.ID)
			require.NoError(t, err)
			require.Equal(t, r.Payload, now.Payload)
		}
		require.Equal(t, "200", w.Guest(vmid).Config["memory"])
		_, err := w.Approve(r)
		require.NoError(t, err)
		w.Reconcile()
		require.Equal(t, op.StateSucceeded, w.Step(r.ID).State)
		require.Equal(t, "100", w.Guest(vmid).Config["memory"])
	})
}

// The use grew between the request and the run: the step asks then.
func TestMemoryThatTheGuestTookMeanwhile(t *testing.T) {
	w := newWorld(t, "lxc")
	vmid := w.ours("web", "memory", int64(512), "state", "running")
	s := w.Ask(drivertest.Hub, guestAsk("set-config", "web", "memory", int64(100)))
	require.Equal(t, op.StatePlanned, s.State)
	w.SetUsed(vmid, 200)
	w.Reconcile()
	require.Equal(t, op.StatePending, w.Step(s.ID).State)
	require.Equal(t, "512", w.Guest(vmid).Config["memory"])
}
