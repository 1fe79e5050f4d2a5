package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/test/gateworld"
)

// BenchmarkReplay makes a database of a ledger with requests that were approved, one decision a group.
func BenchmarkReplay(b *testing.B) {
	w := newWorld(b)
	const approved = 500
	for n := range approved {
		name := fmt.Sprint("g", n)
		w.guests.Put(name, nil)
		job, err := w.now.gate.Submit(b.Context(), op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: uint32(1000 + n/10)},
			Steps: []op.Ask{gateworld.Ask("guest.destroy", name)}})
		require.NoError(b, err)
		r, err := w.now.gate.Request(b.Context(), op.RequestID(job.Steps[0].ID))
		require.NoError(b, err)
		_, err = w.now.gate.Approve(b.Context(), uid, r.ID, gateworld.Signed(b, r.Payload, w.alice))
		require.NoError(b, err)
	}
	bytes := 0
	for _, g := range w.ledger.Groups() {
		bytes += len(g.Body) + len(g.Signature) + len(g.Previous)
	}
	for b.Loop() {
		//fsck:none a replay of a store that is checked elsewhere
		s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "replay.db"), store.Options{Migrations: gate.Migrations(),
			Keeper: ledgertest.Keeper(w.ledger.Member()), Local: ledger.LocalNames()})
		require.NoError(b, err)
		require.NoError(b, s.Close())
	}
	b.ReportMetric(float64(bytes)/(2*approved), "bytes/decision")
	b.ReportMetric(2*approved*float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
