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

// Proxmox VE says that it made a backup, and a look shows none. The step failed, also if the
// guest has an older backup.
func TestABackupThatIsNowhere(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web")
		for _, older := range []int{0, 1} {
			require.Len(t, w.Look("web").Backups, older)
			lie := w.Break(pvetest.Rule{Path: "vzdump", Fault: pvetest.Lie})
			s := w.Do(drivertest.Hub, guestAsk("backup", "web"))
			lie.Release()
			require.Equal(t, op.StateFailed, s.State, s.Detail)
			require.Contains(t, s.Detail, "does not show it")
			w.Done(drivertest.Hub, guestAsk("backup", "web"))
		}
	})
}

// If backups cannot be listed, a step for a backup is refused before. If the list fails after
// the step, the result is not known.
func TestABackupThatNobodyCanLookFor(t *testing.T) {
	w := newWorld(t, "qemu")
	w.ours("web")
	none := pvetest.Rule{Method: "GET", Path: "/content", Fault: pvetest.FailBefore}
	cut := w.Break(none)
	must.Fail(w.Submit(drivertest.Hub, guestAsk("backup", "web")))(t, refusal.Unavailable)
	require.Nil(t, w.Look("web").Backups)
	cut.Release()
	require.NotNil(t, w.Look("web").Backups, "that there are none is known")

	s := w.Ask(drivertest.Hub, guestAsk("backup", "web"))
	require.NoError(t, w.Execute(s.ID))
	cut = w.Break(none)
	w.Reconcile()
	cut.Release()
	require.Equal(t, op.StateInterrupted, w.Step(s.ID).State, w.Step(s.ID).Detail)
}

// The answer to a backup is lost. The look shows a backup, which may be incomplete or made by
// another program. So the step does not count as done.
func TestABackupWhoseAnswerIsLost(t *testing.T) {
	w := newWorld(t, "qemu")
	w.ours("web")
	s := w.Ask(drivertest.Hub, guestAsk("backup", "web"))
	w.Break(pvetest.Rule{Method: "POST", Path: "/vzdump", Fault: pvetest.DropAfter, Times: 1})
	w.Reconcile()
	require.Equal(t, op.StatePlanned, w.Step(s.ID).State, w.Step(s.ID).Detail)
	require.Len(t, w.Look("web").Backups, 1)
}

// Proxmox VE says that it changed the notes, and did not.
func TestALabelThatStays(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web", "labels", map[string]any{"hold": "legal", "tier": "prod"})
		lie := w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.Ignore})
		s := w.Do(drivertest.Hub, guestAsk("set-config", "web", "labels", map[string]any{"tier": "prod"}))
		lie.Release()
		require.Equal(t, op.StateFailed, s.State, s.Detail)
		require.Contains(t, w.Look("web").Labels, "hold")
	})
}

// Tags are labels. Tags that the step does not name are removed, and the others stay.
func TestTagsThatAreNotNamedGo(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.Set(vmid, map[string]string{"tags": "web;hold;prod"})
		for _, c := range []struct {
			labels map[string]any
			tags   string
		}{
			{map[string]any{"web": "", "hold": "", "prod": "", "more": "x"}, "web;hold;prod"},
			{map[string]any{"prod": "", "web": "2"}, "prod;web"},
			{map[string]any{}, ""},
		} {
			w.Done(drivertest.Hub, guestAsk("set-config", "web", "labels", c.labels))
			require.Equal(t, op.Params{"labels": c.labels}.Labels("labels"), w.Look("web").Labels)
			require.Equal(t, c.tags, w.Guest(vmid).Config["tags"])
		}
		w.Set(vmid, map[string]string{"tags": "hold"})
		require.Contains(t, w.waits(guestAsk("set-config", "web", "labels", map[string]any{})), "hold")
	})
}
