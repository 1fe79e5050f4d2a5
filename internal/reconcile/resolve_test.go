package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

func TestResolve(t *testing.T) {
	const (
		succeeded   = "succeeded"
		again       = "again"
		failed      = "failed"
		interrupted = "interrupted"
	)
	there := observed("g", running, params{"cpus": int64(2)})
	other := there
	other.Incarnation = "i2"
	mine := there
	mine.Birth = "b1"
	lingers := nothing("g")
	lingers.Lingers = "g is h now"
	still := observed("g", stopped, params{"cpus": int64(1)})
	snapped := there
	snapped.Snapshots = []string{"s1"}
	for _, c := range []struct {
		op     string
		params op.Params
		now    op.Observed
		what   string
		benign string
		signed string
	}{
		{"guest.create", nil, mine, "ours is there", succeeded, succeeded},
		{"guest.create", nil, nothing("g"), "nothing is there", again, interrupted},
		{"guest.create", nil, there, "somebody else's is there", failed, failed},

		{"guest.destroy", nil, nothing("g"), "nothing is there", succeeded, succeeded},
		{"guest.destroy", nil, other, "another is there", succeeded, succeeded},
		{"guest.destroy", nil, there, "it is still there", again, interrupted},

		{"guest.undelete", params{"incarnation": "i1"}, there, "it is back", succeeded, succeeded},
		{"guest.undelete", params{"incarnation": "i1"}, nothing("g"), "nothing is there", again, interrupted},
		{"guest.undelete", params{"incarnation": "i1"}, other, "another is there", failed, failed},
		{"guest.undelete", params{}, there, "the name was free and is taken by what was in the trash", succeeded, succeeded},

		{"guest.destroy", nil, lingers, "it is there under another name", again, interrupted},
		{op.Run, nil, there, "its catalogue has it", interrupted, interrupted},

		{"guest.start", nil, there, "it runs", succeeded, succeeded},
		{"guest.start", nil, still, "it does not run", again, interrupted},
		{"guest.start", nil, other, "another runs", failed, interrupted},
		{"guest.stop", nil, still, "it stands still", succeeded, succeeded},
		{"guest.stop", nil, there, "it runs", again, interrupted},
		{"guest.stop", nil, nothing("g"), "nothing is there", failed, interrupted},
		{"guest.restart", nil, there, "it runs", again, interrupted},
		{"guest.restart", nil, still, "it stands still", again, interrupted},

		{"guest.set-config", params{"cpus": int64(2)}, there, "as set", succeeded, succeeded},
		{"guest.set-config", params{"cpus": int64(2)}, still, "not as set", again, interrupted},
		{"guest.set-config", params{"cpus": int64(2)}, other, "another is as set", failed, interrupted},

		{"guest.snapshot", params{"snapshot": "s1"}, snapped, "it has the snapshot", succeeded, succeeded},
		{"guest.snapshot", params{"snapshot": "s1"}, there, "it has not", again, interrupted},
		{"guest.snapshot-delete", params{"snapshot": "s1"}, there, "the snapshot is gone", succeeded, succeeded},
		{"guest.snapshot-delete", params{"snapshot": "s1"}, snapped, "the snapshot is there", again, interrupted},

		{"guest.restore", params{"snapshot": "s1"}, snapped, "that does not show", again, interrupted},
		{"guest.wipe", nil, there, "that does not show", again, interrupted},
		{"guest.wipe", nil, nothing("g"), "nothing is there", failed, interrupted},
		{"trust.rotate", params{"epoch": int64(2)}, signers(2, "j7.1"), "this step made the epoch", succeeded, succeeded},
		{"trust.rotate", params{"epoch": int64(2)}, signers(2, "adopted by uid 0"), "somebody else made it", again, interrupted},
		{"trust.rotate", params{"epoch": int64(2)}, signers(1, "init"), "nobody made it", again, interrupted},
		{"trust.rotate", params{"epoch": int64(2)}, nothing("g"), "it is gone", failed, interrupted},
		{op.ReleaseAll, nil, scopeAfter("i1", "j7.1"), "this step was the last", succeeded, succeeded},
		{op.ReleaseAll, nil, scopeAfter("i1", "j7.10"), "another step was the last", again, interrupted},
		{op.ReleaseAll, nil, scopeAfter("i1", ""), "there was none", again, interrupted},
		{op.ReleaseAll, nil, scopeAfter("i2", "j7.1"), "another directory", failed, interrupted},
		{op.ReleaseAll, nil, nothing("g"), "the directory is not there", failed, interrupted},
		{op.ForceTransfer, params{"reservation": "r1", "to": "b"}, scopeAfter("i1", "j7.1"), "this step was the last", succeeded, succeeded},
		{op.ForceTransfer, params{"reservation": "r1", "to": "b"}, scopeAfter("i1", "j6.1"), "another step was the last", again, interrupted},
		{"guest.made-up", nil, there, "nobody knows the operation", again, interrupted},
	} {
		for class, want := range map[op.Class]string{op.Benign: c.benign, op.Destructive: c.signed} {
			s := op.Step{ID: op.StepID{Job: 7, Index: 1}, Op: c.op, Target: guestTarget("g"), Incarnation: "i1", Birth: "b1", Params: c.params,
				Verdict: op.Verdict{Class: class}}
			if c.op == "guest.create" || c.op == "guest.undelete" {
				s.Incarnation = ""
			}
			out := Resolve(s, c.now)
			got := succeeded
			switch {
			case out.Unknown:
				got = interrupted
			case out.Err != nil && out.Transient:
				got = again
			case out.Err != nil:
				got = failed
			}
			require.Equal(t, want, got, "%s, %s, %s", class, c.op, c.what)
			require.Equal(t, c.now, *out.After)
			if got != failed && got != again {
				require.NotEmpty(t, out.Detail)
			}
		}
	}
}

// signers is how the list of signers looks.
func signers(epoch int64, by string) op.Observed {
	return op.Observed{Target: op.Signers, Present: true, Incarnation: "i1", Spec: op.Params{"epoch": epoch, "made_by": by}}
}

// scopeAfter is how a scope looks whose reservations a step took away last.
func scopeAfter(incarnation op.Incarnation, last string) op.Observed {
	return op.Observed{Target: op.Target{Kind: op.KindScope, Name: "s3"}, Present: true, Incarnation: incarnation, Spec: op.Params{"last_step": last}}
}

// A destroy of which the incarnation is not known proves nothing by a free name.
func TestResolveWithoutAnIncarnation(t *testing.T) {
	s := op.Step{Op: "guest.destroy", Target: guestTarget("g"), Verdict: op.Verdict{Class: op.Destructive}}
	require.True(t, Resolve(s, nothing("g")).Unknown)
}

// Whatever is there, a destructive step is never run again.
func TestResolveNeverRunsADestructiveStepAgain(t *testing.T) {
	var ops []string
	for _, s := range op.Catalogue() {
		ops = append(ops, s.Name)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := op.Step{Op: rapid.SampledFrom(ops).Draw(t, "op"), Target: guestTarget("g"), Params: drawFields(t, "params"),
			Incarnation: op.Incarnation(rapid.SampledFrom([]string{"", "i1", "i2"}).Draw(t, "incarnation")),
			Birth:       rapid.SampledFrom([]string{"", "b1"}).Draw(t, "birth"), Verdict: op.Verdict{Class: op.Destructive}}
		require.False(t, Resolve(s, drawHave(t)).Transient)
	})
}
