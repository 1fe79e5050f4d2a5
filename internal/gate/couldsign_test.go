package gate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// listing makes a text the list of signers, as the next epoch.
func (w *world) listing(epoch int64, text string) {
	w.t.Helper()
	w.trust = must.Get(authz.LoadTrust([]byte(text)))(w.t)
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: epoch, Text: []byte(text), How: "test", At: w.Now()})
	}))
	require.NoError(w.t, w.gate.Log(w.ctx, gate.RotatedEntry("test", authz.Rotation{Trust: w.trust}, journal.TrustVersion{Epoch: epoch})))
	require.NoError(w.t, w.gate.ReplaceTrust(w.ctx, w.trust))
}

// A rotation that needs a role in which no key is listed would wait for ever, so the gate refuses it and says what to do.
func TestARotationThatNobodyCouldSignIsRefused(t *testing.T) {
	t.Parallel()
	dave := newKey("dave")
	managers := policy.Rule{Where: "gated.yaml:9", Op: "guest.destroy", Role: "manager", Threshold: 1}
	recovery := rotate(2, []string{dave.line("recovery@gated")}, nil)
	manager := rotate(2, []string{dave.line("manager@gated")}, nil)
	operator := rotate(2, []string{dave.line("operational@gated")}, nil)
	for name, c := range map[string]struct {
		text  string
		rules []policy.Rule
		ask   op.Ask
		lacks string // empty: it waits
	}{
		"recovery, and none is listed":                    {alice.line("operational@gated"), nil, recovery, "it needs recovery, and no key is listed as that"},
		"recovery, and one is listed":                     {alice.line("operational@gated") + rita.line("recovery@gated"), nil, recovery, ""},
		"a role of a rule, and none is listed":            {alice.line("operational@gated"), []policy.Rule{managers}, manager, "it needs manager, or recovery, and"},
		"a role of a rule, which recovery can list alone": {alice.line("operational@gated") + rita.line("recovery@gated"), []policy.Rule{managers}, manager, ""},
		"a role of a rule, and one is listed":             {alice.line("operational@gated") + mona.line("manager@gated"), []policy.Rule{managers}, manager, ""},
		"a role that no rule asks for":                    {alice.line("operational@gated"), nil, manager, ""},
		"an operator":                                     {alice.line("operational@gated"), []policy.Rule{managers}, operator, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := rotating(t, c.rules...)
			w.listing(2, c.text)
			w.setRules(c.rules...)
			c.ask.Params["epoch"] = w.gate.Epoch() + 1
			_, err := w.submit(c.ask)
			if c.lacks == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, refusal.BadParams)
			require.ErrorContains(t, err, c.lacks)
			require.Contains(t, refusal.As(err).Hint, "gated trust adopt FILE")
			require.False(t, strings.Contains(err.Error(), "alice"), "it names roles")
		})
	}
}
