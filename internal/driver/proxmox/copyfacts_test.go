package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/drivertest"
)

// TestWhatIsShownOfACopy: the facts have what Proxmox VE reports of a snapshot and a backup,
// and name what it does not report.
func TestWhatIsShownOfACopy(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web")
		w.Done(drivertest.Hub, guestAsk("snapshot", "web", "snapshot", "before"))
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		backup := w.Look("web").Backups[0]
		facts := func(a op.Ask) map[string]string {
			o, err := w.Driver().Observe(t.Context(), op.Step{Op: a.Op, Target: a.Target, Params: a.Params}.Look())
			require.NoError(t, err)
			require.NotNil(t, o.Copy)
			require.Equal(t, a.Params.Str(o.Copy.Kind), o.Copy.Name)
			out := map[string]string{}
			for _, f := range o.Facts {
				out[f.Name] = f.Text
			}
			return out
		}
		snapshot := facts(guestAsk("restore", "web", "snapshot", "before"))
		require.Regexp(t, `^before, taken \d{4}-\d\d-\d\dT`, snapshot["snapshot"])
		require.Equal(t, "disks and settings as they were then; Proxmox VE does not say how large it is, nor how many files are in it", snapshot["snapshot holds"])
		require.Regexp(t, `^disks and settings: all that was written to its disk \(1 GiB\) since then; how much that is, Proxmox VE does not say$`, snapshot["overwritten"])
		require.NotContains(t, facts(guestAsk("snapshot-delete", "web", "snapshot", "before")), "overwritten")

		archive := facts(guestAsk("backup-restore", "web", "backup", backup))
		require.Regexp(t, `^`+backup+`, taken \d{4}-\d\d-\d\dT`, archive["backup"])
		require.Regexp(t, `(bytes|MiB|GiB) in .*; Proxmox VE does not say how many files are in it$`, archive["backup holds"])
		require.Contains(t, archive["overwritten"], "the whole guest with its disks and settings: ")
		require.NotContains(t, facts(guestAsk("backup-delete", "web", "backup", backup)), "overwritten")
	})
}
