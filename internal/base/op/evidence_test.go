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
	for name, c := range map[string]struct {
		have []op.Disk
		then op.Evidence
	}{
		"the disk stayed":                 {[]op.Disk{{Name: "scsi1"}}, op.ShowsUndone},
		"the disk stayed beside one off":  {[]op.Disk{{Name: "scsi1"}, {Name: "unused0", Off: true}}, op.ShowsUndone},
		"no disk":                         {nil, op.ShowsDone},
		"another disk":                    {[]op.Disk{{Name: "scsi0"}}, op.ShowsDone},
		"it may be the one that was left": {[]op.Disk{{Name: "scsi0"}, {Name: "unused0", Off: true}}, op.ShowsNothing},
	} {
		step := op.Step{Op: "guest.disk-delete", Target: web1, Incarnation: "one", Params: op.Params{"disk": "scsi1"}}
		o := op.Observed{Target: web1, Present: true, Incarnation: "one", Disks: c.have}
		require.Equal(t, c.then, lookup(t, step.Op).Shows(step, o), name)
		o.Incarnation = "two"
		require.Equal(t, c.then == op.ShowsUndone, lookup(t, step.Op).Shows(step, o) == op.ShowsUndone, "another one is off, since before: %s", name)
		require.NotEqual(t, op.ShowsNothing, lookup(t, step.Op).Shows(step, o), name)
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
