package fsck_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// BenchmarkSigned checks a log of 20,000 entries about 5,000 signed steps, by type
// of key. fsck verifies their signatures again.
func BenchmarkSigned(b *testing.B) {
	const jobs = 5_000
	for _, k := range []mint.Key{mint.Ed25519(b, "k"), mint.ECDSA(b, "k", 256), mint.RSA(b, "k", 3072)} {
		w := newWorld(b)
		require.NoError(b, w.store.Update(b.Context(), func(tx *store.Tx) error { return nonce.SetMark(tx, nonce.Reading{Wall: w.wall}) }))
		for from := 1; from <= jobs; from += 1000 {
			require.NoError(b, w.store.Update(b.Context(), func(tx *store.Tx) error {
				for i := from; i < from+1000; i++ {
					if err := fillSigned(b, tx, w, k, op.JobID(i)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		b.Run(k.Type(), func(b *testing.B) { checkSigned(b, w, jobs) })
	}
}

func checkSigned(b *testing.B, w *world, jobs int) {
	for range b.N {
		require.NoError(b, w.store.View(b.Context(), func(tx *store.Tx) error {
			r, err := fsck.Run(tx)
			require.Empty(b, r.Problems)
			require.Equal(b, int64(jobs), r.Checked["signatures"])
			return err
		}))
	}
	b.ReportMetric(float64(4*jobs*b.N)/b.Elapsed().Seconds(), "entries/s")
}

// fillSigned writes a signed and executed destroy of a guest, as the gate would.
func fillSigned(t testing.TB, tx *store.Tx, w *world, k mint.Key, job op.JobID) error {
	s := op.Step{ID: op.StepID{Job: job, Index: 1}, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web"}, Incarnation: "x",
		Fingerprint: op.FingerprintOf(nil), Params: op.Params{}, State: op.StateSucceeded, Verdict: op.Verdict{Class: op.Destructive}, UpdatedAt: w.wall}
	spec, err := op.Lookup(s.Op)
	require.NoError(t, err)
	r := op.Request{ID: s.ID, Step: s, Nonce: op.NewNonce(time.Now()), Labels: map[string]string{}, IssuedAt: w.wall, ExpiresAt: w.wall.Add(time.Hour), CreatedAt: w.wall,
		Need: op.Requirement{MaxValidity: time.Hour, Ways: []op.Way{{Demands: []op.Demand{{Rule: op.BuiltIn, Roles: spec.Roles, Threshold: 1}}}}}}
	r.Payload, err = op.Payload{Gate: testGate, Host: testHost, Op: s.Op, Target: s.Target, Incarnation: s.Incarnation, State: s.Fingerprint,
		Params: s.Params, Nonce: r.Nonce, IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt}.Encode()
	require.NoError(t, err)
	by := op.Signed{Principal: "alice", Role: op.Operational, Key: k.Fingerprint(), At: w.wall,
		Armor: mint.Sign(t, k, op.Operational.Namespace(), r.Payload).Armored()}
	id := must.Get(journal.NewJob(tx, hub, "", w.wall))(t)
	require.Equal(t, job, id)
	require.NoError(t, journal.AddStep(tx, s))
	require.NoError(t, journal.AddRequest(tx, r))
	must.Get(journal.AddSignature(tx, s.ID, by))(t)
	require.NoError(t, nonce.Issue(tx, nonce.Record{Nonce: r.Nonce, Request: s.ID, Payload: op.SHA256(r.Payload), ExpiresAt: r.ExpiresAt, Fate: nonce.Used}))
	if _, err := journal.Finish(tx, id, w.wall); err != nil {
		return err
	}
	for _, kind := range []audit.Kind{audit.Requested, audit.Approved, audit.Dispatched, audit.Succeeded} {
		e := audit.Entry{Kind: kind, By: "gate", Job: fmt.Sprint(id), Step: fmt.Sprint(s.ID), Op: s.Op, Target: s.Target.String(), Class: op.Destructive,
			Params: s.Params, Gate: testGate, Time: w.wall.Add(-time.Hour)}
		if kind == audit.Requested {
			e.By = hub.String()
		}
		if kind == audit.Approved {
			e.Signers, e.Payload = []string{by.String()}, op.SHA256(r.Payload)
		}
		if _, err := audit.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}
