package fsck_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
)

// BenchmarkRun checks a log of 100,000 entries about benign steps. Time is linear in
// entries, memory in steps.
func BenchmarkRun(b *testing.B) {
	const jobs = 33_333
	w := newWorld(b)
	for from := 1; from <= jobs; from += 5000 {
		require.NoError(b, w.store.Update(b.Context(), func(tx *store.Tx) error { return fill(tx, from, min(from+4999, jobs)) }))
	}
	b.ResetTimer()
	for range b.N {
		require.NoError(b, w.store.View(b.Context(), func(tx *store.Tx) error {
			r, err := fsck.Run(tx)
			require.Empty(b, r.Problems)
			return err
		}))
	}
	b.ReportMetric(float64(3*jobs*b.N)/b.Elapsed().Seconds(), "entries/s")
}

// fill writes jobs of one start each, as the gate would.
func fill(tx *store.Tx, from, to int) error {
	for i := from; i <= to; i++ {
		if _, err := tx.Exec(`INSERT INTO jobs(id, reason, created_at, finished_at) VALUES(?, '', 1, 1)`, i); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO requesters(job, who, source, uid, pid, agent, setname) VALUES(?, 'uid:1000', 'api', 1000, 1, '', '')`, i); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO steps(job, idx, op, kind, name, incarnation, params, fingerprint, class, rule, why, state, birth,
			undoes, wish, updated_at) VALUES(?, 1, 'guest.start', 'guest', 'web', 'x', '{}', 'x', 'benign', 'start', '', 'succeeded', '', 0, 'w', 1)`, i); err != nil {
			return err
		}
		for _, kind := range []audit.Kind{audit.Planned, audit.Dispatched, audit.Succeeded} {
			e := audit.Entry{Kind: kind, By: "uid:1000", Job: fmt.Sprintf("j%d", i), Step: fmt.Sprintf("j%d.1", i), Op: "guest.start",
				Target: "guest/web", Class: op.Benign, Rule: "start", Gate: testGate}
			if _, err := audit.Append(tx, e); err != nil {
				return err
			}
		}
	}
	return nil
}
