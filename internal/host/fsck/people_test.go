package fsck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// TestRulesInTheLog: fsck finds that the journal lost what rules ask for a request,
// because the log has it too.
func TestRulesInTheLog(t *testing.T) {
	w := newWorld(t)
	w.guests["g"] = op.Observed{Target: op.Target{Kind: "guest", Name: "g"}, Present: true, Incarnation: "g-0",
		Fingerprint: op.FingerprintOf([]byte("g")), Running: "stopped"}
	p := policy.Default()
	p.Rules = []policy.Rule{{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2}}
	require.NoError(t, w.gate.Reload(t.Context(), nil, p))
	must.Get(w.gate.Submit(t.Context(), op.Submission{Requester: hub, Steps: []op.Ask{{Op: "guest.destroy",
		Target: op.Target{Kind: "guest", Name: "g"}, Params: op.Params{}}}}))(t)
	require.NoError(t, w.store.Close())
	require.Empty(t, check(t, w.path).Problems)

	for _, sql := range []string{
		`UPDATE requests SET need = replace(need, '"threshold":2', '"threshold":1')`,
		`UPDATE requests SET need = replace(need, '"rule":"gated.yaml:3"', '"rule":"gated.yaml:4"')`,
		`UPDATE requests SET need = replace(need, '"max_validity":', '"max_validity":1')`,
	} {
		r := check(t, byHand(t, w.path, sql))
		require.Len(t, r.Problems, 1, sql)
		require.Equal(t, "j1.1", r.Problems[0].Where)
	}
}

// TestTrustInTheLog: fsck finds a forged version of the trust file, because that
// could approve everything.
func TestTrustInTheLog(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		for epoch := range int64(3) {
			v := journal.TrustVersion{Epoch: epoch + 1, Text: w.trust.Text(), How: "test", At: w.wall}
			if err := journal.AddTrust(tx, v); err != nil {
				return err
			}
		}
		return nil
	}))
	for epoch := range int64(3) {
		v := journal.TrustVersion{Epoch: epoch + 1, How: "test"}
		require.NoError(t, w.gate.Log(t.Context(), gate.RotatedEntry("test", authz.Rotation{Trust: w.trust}, v)))
	}
	require.NoError(t, w.store.Close())
	r := check(t, w.path)
	require.Empty(t, r.Problems)
	require.Equal(t, int64(3), r.Checked["trust versions"])

	for sql, where := range map[string]string{
		`UPDATE trust SET text = x'23' WHERE epoch = 2`:        "trust epoch 2",
		`DELETE FROM trust WHERE epoch = 2`:                    "trust epoch 3",
		`DELETE FROM trust WHERE epoch = 3`:                    "trust epoch 2",
		`INSERT INTO trust SELECT 4, text, how, at FROM trust`: "trust epoch 4",
	} {
		if sql[0] == 'I' {
			sql += ` WHERE epoch = 1`
		}
		r := check(t, byHand(t, w.path, sql))
		require.Len(t, r.Problems, 1, sql)
		require.Equal(t, where, r.Problems[0].Where, sql)
	}
}
