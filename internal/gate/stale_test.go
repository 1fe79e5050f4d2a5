package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
)

// A command is neither destroyed nor made, so the words are about its program and
// entry.
func TestStaleSaysWhatBecameOfTheTarget(t *testing.T) {
	guest := op.Step{Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web"}, Incarnation: "one", Fingerprint: "a"}
	command := op.Step{Op: op.Run, Target: op.Target{Kind: op.KindCommand, Name: "drop-db"}, Incarnation: "one", Fingerprint: "a"}
	for _, c := range []struct {
		step             op.Step
		says, hint, over string
	}{
		{guest, "destroyed or made again", "a new request names the new one", "not what is there any more"},
		{command, "its program, interpreter, probe, user or entry in gated.yaml is another one now", "gated commands drop-db",
			"its program, interpreter, probe, user or entry in gated.yaml is another one now: ask again"},
	} {
		now := op.Observed{Incarnation: "two", Fingerprint: "a"}
		err := gate.Stale(c.step, now)
		require.ErrorIs(t, err, refusal.StaleTarget)
		require.ErrorContains(t, err, c.says)
		require.Contains(t, refusal.As(err).Hint, c.hint)
		require.Contains(t, gate.Overtaken(c.step, now), c.over)
		require.NoError(t, gate.Stale(c.step, op.Observed{Incarnation: "one", Fingerprint: "a"}))
	}
	require.NotContains(t, gate.Overtaken(command, op.Observed{Incarnation: "one", Missing: "it"}), "gated.yaml")
}
