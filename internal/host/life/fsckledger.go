package life

import (
	"context"
	"errors"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	_ "gated/internal/host/fsck/book" // agents and reservations, too
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
		var here replayable
		if err := l.Store.View(ctx, here.read); err != nil {
			return err
		}
		s := ledger.Settings{Engine: l.engine, Gate: string(l.ID.Gate), Verifier: key}
		others, err := here.differ(ctx, s, o.Progress)
		if err != nil {
			return err
		}
		for _, d := range others {
			report.Add(fsck.LedgerRows, l.Dir.Database(), "the table %s has %d rows that are not those of the ledger, which makes %d", d.table, d.here, d.there)
		}
		if report.Checked != nil {
			report.Checked["tables of the ledger"] += int64(len(here.sums))
		}
		return nil
	})
}

// replayable is the place of a database, and the sums of its tables there.
type replayable struct {
	at   store.Place
	sums map[string]store.TableSum
}

// read reads the tables that travel. The numbers of AUTOINCREMENT are left out, because they may differ: an INSERT that was
// ignored moves them on where it ran alone.
func (r *replayable) read(tx *store.Tx) error {
	at, list, err := tx.Sums(ledger.LocalNames())
	r.at, r.sums = at, map[string]store.TableSum{}
	for _, t := range list {
		if t.Table != "sqlite_sequence" {
			r.sums[t.Table] = t
		}
	}
	return err
}

// difference is a table that has other rows here than those that the ledger makes.
type difference struct {
	table       string
	here, there int64 // rows
}

// differ replays the ledger up to the place, and returns the tables that differ.
func (r *replayable) differ(ctx context.Context, s ledger.Settings, progress func(groups, of uint64)) (others []difference, err error) {
	if err := s.Check(ctx, r.at); err != nil {
		return nil, err
	}
	err = replayed(ctx, s, r.at.Number, told(progress, r.at.Number), func(replay *store.Store) error {
		var there replayable
		if err := replay.View(ctx, there.read); err != nil {
			return err
		}
		if there.at != r.at {
			return ledger.ErrForked
		}
		for _, t := range ledger.Travels {
			if here, there := r.sums[t.Name], there.sums[t.Name]; here != there {
				others = append(others, difference{t.Name, here.Rows, there.Rows})
			}
		}
		return nil
	})
	if errors.Is(err, ledger.ErrBehind) {
		return nil, newBase()
	}
	return others, err
}

// newBase is said if a base took the place of groups while they were read.
func newBase() error {
	return refusal.New(refusal.Unavailable, "the ledger got a new base meanwhile").WithHint("say it again")
}
