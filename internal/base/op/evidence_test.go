package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestWhatALookShows: the look must show exactly the labels that a step names, and a
// backup that was not there before.
func TestWhatALookShows(t *testing.T) {
	labels := func(want map[string]any, have map[string]string) op.Evidence {
		step := op.Step{Op: "guest.set-config", Target: web1, Incarnation: "one", Params: op.Params{"labels": want}}
		return lookup(t, step.Op).Evidence(step, op.Observed{Target: web1, Present: true, Incarnation: "one", Labels: have})
	}
	for name, c := range map[string]struct {
		want map[string]any
		have map[string]string
		then op.Evidence
	}{
		"as asked for":     {map[string]any{"a": "b", "c": ""}, map[string]string{"a": "b", "c": ""}, op.ShowsDone},
		"none, as nothing": {map[string]any{}, nil, op.ShowsDone},
		"none":             {map[string]any{}, map[string]string{}, op.ShowsDone},
		"one stayed":       {map[string]any{"a": "b"}, map[string]string{"a": "b", "c": ""}, op.ShowsUndone},
		"all stayed":       {map[string]any{}, map[string]string{"c": ""}, op.ShowsUndone},
		"one is missing":   {map[string]any{"a": "b", "c": ""}, map[string]string{"a": "b"}, op.ShowsUndone},
		"another value":    {map[string]any{"a": "b"}, map[string]string{"a": "c"}, op.ShowsUndone},
		"another name":     {map[string]any{"a": ""}, map[string]string{"b": ""}, op.ShowsUndone},
	} {
		require.Equal(t, c.then, labels(c.want, c.have), name)
	}
	spec := lookup(t, "guest.backup")
	for name, c := range map[string]struct {
		before, after []string
		then          op.Evidence
	}{
		"one more":     {[]string{"a"}, []string{"a", "b"}, op.ShowsDone},
		"another":      {[]string{"a"}, []string{"b"}, op.ShowsDone},
		"the same":     {[]string{"a"}, []string{"a"}, op.ShowsUndone},
		"none":         {[]string{}, []string{}, op.ShowsUndone},
		"unknown":      {[]string{}, nil, op.ShowsNothing},
		"unknown then": {nil, []string{"a"}, op.ShowsNothing},
	} {
		step := op.Step{Op: spec.Name, Target: web1, Incarnation: "one", Before: c.before}
		after := op.Observed{Target: web1, Present: true, Incarnation: "one", Backups: c.after}
		require.Equal(t, c.then, spec.Shows(step, after), name)
		if c.then == op.ShowsDone { // it may be half a backup, or another caller's
			require.Equal(t, op.ShowsNothing, spec.Evidence(step, after), name)
		} else {
			require.Equal(t, c.then, spec.Evidence(step, after), name)
		}
		require.Equal(t, c.then == op.ShowsNothing, spec.Silent(step, after), name)
		require.Equal(t, c.then == op.ShowsUndone, spec.Denied(step, after) != "", name)
	}
}

// TestALookShowsWhatAStepDid: a step whose answer was lost counts as done, or is tried again, by what a look shows.
func TestALookShowsWhatAStepDid(t *testing.T) {
	seen := func(change func(*op.Observed)) op.Observed {
		o := op.Observed{Target: web1, Present: true, Incarnation: "one"}
		change(&o)
		return o
	}
	as := func(running string) op.Observed { return seen(func(o *op.Observed) { o.Running = running }) }
	snapshots := func(names ...string) op.Observed { return seen(func(o *op.Observed) { o.Snapshots = names }) }
	backups := func(names ...string) op.Observed { return seen(func(o *op.Observed) { o.Backups = names }) }
	disks := func(list ...op.Disk) op.Observed { return seen(func(o *op.Observed) { o.Disks = list }) }
	same := seen(func(*op.Observed) {})
	for name, c := range map[string]struct {
		params       op.Params
		done, undone op.Observed
	}{
		"guest.start":           {nil, as(op.Running), as(op.Stopped)},
		"guest.stop":            {nil, as(op.Stopped), as(op.Running)},
		"guest.snapshot":        {op.Params{"snapshot": "a"}, snapshots("b", "a"), snapshots("b")},
		"guest.snapshot-delete": {op.Params{"snapshot": "a"}, snapshots("b"), snapshots("b", "a")},
		"guest.backup-delete":   {op.Params{"backup": "a"}, backups("b"), backups("b", "a")},
		"guest.disk-create":     {op.Params{"disk": "vdb", "size": int64(1)}, disks(op.Disk{Name: "vdb"}), disks(op.Disk{Name: "vda"})},
		"guest.disk-resize":     {op.Params{"disk": "vda", "size": int64(2)}, disks(op.Disk{Name: "vda", Size: 2 << 20}), disks(op.Disk{Name: "vda", Size: 1 << 20})},
		"guest.disk-detach":     {op.Params{"disk": "vda"}, same, disks(op.Disk{Name: "vda"})},
		"guest.disk-delete":     {op.Params{"disk": "vda"}, same, disks(op.Disk{Name: "vda"})},
		"guest.destroy":         {nil, op.Observed{Target: web1}, same},
	} {
		spec, step := lookup(t, name), op.Step{Op: name, Target: web1, Incarnation: "one", Params: c.params}
		require.Equal(t, op.ShowsDone, spec.Evidence(step, c.done), name)
		require.Equal(t, op.ShowsUndone, spec.Evidence(step, c.undone), name)
	}
}

// TestEvidenceIsOfTheIncarnation: what stands under the name now may be another guest, about which the step says nothing.
func TestEvidenceIsOfTheIncarnation(t *testing.T) {
	keeps, renews := 0, 0
	for _, spec := range op.Catalogue() {
		step := op.Step{Op: spec.Name, Target: web1, Incarnation: "one"}
		other, gone := op.Observed{Target: web1, Present: true, Incarnation: "two", Running: op.Running}, op.Observed{Target: web1}
		switch spec.Identity {
		case op.Keeps:
			keeps++
			require.Equal(t, op.ShowsAnother, spec.Evidence(step, other), spec.Name)
			require.Equal(t, op.ShowsAnother, spec.Evidence(step, gone), spec.Name)
		case op.Renews:
			renews++
			require.Equal(t, op.ShowsNothing, spec.Evidence(step, other), "%s may have renewed it", spec.Name)
			require.Equal(t, op.ShowsAnother, spec.Evidence(step, gone), spec.Name)
		}
	}
	require.NotZero(t, keeps)
	require.NotZero(t, renews)
}

// TestEveryRowCanBeAskedWhatALookShows: an operation of which a look shows nothing is neither denied nor silent.
func TestEveryRowCanBeAskedWhatALookShows(t *testing.T) {
	keeps := 0
	for _, spec := range op.Catalogue() {
		step := op.Step{Op: spec.Name, Target: web1, Incarnation: "one"}
		here := op.Observed{Target: web1, Present: true, Incarnation: "one"}
		if spec.Shows == nil {
			require.False(t, spec.Silent(step, here), spec.Name)
			require.Equal(t, op.ShowsNothing, spec.Evidence(step, here), spec.Name)
		}
		if spec.Identity == op.Keeps && !spec.Unseen {
			keeps++
			other := here
			other.Incarnation = "two"
			require.Equal(t, "guest/web-1 is another one now", spec.Denied(step, other), spec.Name)
		}
	}
	require.NotZero(t, keeps)
}

func TestARestoreMakesANewIncarnation(t *testing.T) {
	for _, name := range []string{"guest.restore", "guest.backup-restore"} {
		spec := lookup(t, name)
		require.Equal(t, op.Renews, spec.Identity, name)
		require.NotEmpty(t, spec.Takes, name)
		require.NotEmpty(t, spec.Done, name)
		require.Equal(t, "a step restored something into it", spec.Promotes, name)
	}
}
