package life

import (
	"context"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/ledger"
)

// FsckLedger adds to a report each table whose rows are others than those that the ledger makes, up to the place of this
// member's database. It replays the ledger into a database of its own, and works beside a running daemon.
func FsckLedger(ctx context.Context, o LedgerOptions, report *FsckReport) error {
	return withLedger(ctx, o, func(l opened) error {
		key, err := publicKey(ctx, l.Store, l.ID.Gate, "start the daemon once")
		if err != nil {
			return err
		}
		here, want, err := sumsOf(ctx, l.Store)
		if err != nil {
			return err
		}
		s := ledger.Settings{Engine: l.engine, Gate: string(l.ID.Gate), Verifier: key}
		if err := s.Check(ctx, here); err != nil {
			return err
		}
		return replayed(ctx, s, here.Number, told(o.Progress, here.Number), func(replay *store.Store) error {
			there, have, err := sumsOf(ctx, replay)
			if err != nil {
				return err
			}
			if there != here {
				return ledger.ErrForked
			}
			compare(report, l.Dir.Database(), want, have)
			return nil
		})
	})
}

func sumsOf(ctx context.Context, s *store.Store) (at store.Place, sums map[string]store.TableSum, err error) {
	sums = map[string]store.TableSum{}
	err = s.View(ctx, func(tx *store.Tx) error {
		here, list, err := tx.Sums(ledger.LocalNames())
		at = here
		for _, t := range list {
			sums[t.Table] = t
		}
		return err
	})
	return at, sums, err
}

// compare adds a problem for each table that differs. The numbers of AUTOINCREMENT may: an INSERT that was ignored moves
// them on where it ran alone.
func compare(report *FsckReport, path string, want, have map[string]store.TableSum) {
	for _, t := range ledger.Travels {
		if t.Name == "sqlite_sequence" {
			continue
		}
		if want, have := want[t.Name], have[t.Name]; want != have {
			report.Add(fsck.LedgerRows, path, "the table %s has %d rows that are not those of the ledger, which makes %d", t.Name, want.Rows, have.Rows)
		}
		if report.Checked != nil {
			report.Checked["tables of the ledger"]++
		}
	}
}
