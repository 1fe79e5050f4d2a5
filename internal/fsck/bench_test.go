package fsck_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/audit"
	"gated/internal/fsck"
	"gated/internal/op"
	"gated/internal/store"
)

// BenchmarkMillionEntries checks a log of a million entries about 300,000
// benign steps, and reports the memory that it holds at its end.
func BenchmarkMillionEntries(b *testing.B) {
	const jobs = 333_333
	w := newWorld(b)
	for from := 1; from <= jobs; from += 5000 {
		require.NoError(b, w.store.Update(b.Context(), func(tx *store.Tx) error { return fill(tx, from, min(from+4999, jobs)) }))
	}
	b.ResetTimer()
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		require.NoError(b, w.store.View(b.Context(), func(tx *store.Tx) error {
			r, err := fsck.Run(tx)
			require.Empty(b, r.Problems)
			return err
		}))
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapSys)/(1<<20), "MiB-of-heap")
	}
}

// fill writes jobs of one start each, as the gate would.
func fill(tx *store.Tx, from, to int) error {
	for i := from; i <= to; i++ {
		if _, err := tx.Exec(`INSERT INTO jobs(id, reason, created_at, finished_at) VALUES(?, '', 1, 1)`, i); err != nil {
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
