package life

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/ledger"
	"gated/internal/log/audit"
)

// RepairOptions say whose ledger is repaired. Its daemon must not run.
type RepairOptions struct {
	LedgerOptions
	Agree func(Repair) error // is asked before anything is changed; its error ends the repair; nil agrees
}

// Repair is what a ledger has, and what this member has.
type Repair struct {
	LedgerState
	EntriesThere int64 // of the audit log
	EntriesHere  int64
	Began        uint64 // the era that this member began last; if the ledger's is later, another member may have decided since
	Era          uint64 // which the repair began, 0 before
}

// RepairLedger makes all rows of this member's database all that the ledger has, in a later era. It is for a ledger that
// lost groups or was set back, on the member that decided last: then every decision that a caller heard of stays, and the
// gate's id with it. Another member, as far as its files show that, and one whose ledger was written on meanwhile, are
// Conflict. Agree hears how much both have. Cut off at any moment, it can be called again.
func RepairLedger(ctx context.Context, o RepairOptions) (r Repair, err error) {
	c, err := ledgerSettings(o.StateDir)
	if err != nil {
		return r, err
	}
	dir, err := state.Open(o.StateDir, state.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	id, err := identity(ctx, dir)
	if err != nil {
		return r, err
	}
	err = reading(ctx, dir, func(here *store.Store) error {
		if err := current(ctx, here); err != nil {
			return err
		}
		return o.beside(ctx, c, &Opened{Dir: dir, Store: here, ID: id}, func(l opened) (err error) {
			r, err = l.repair(ctx, o)
			return err
		})
	})
	return r, err
}

// elsewhere is what to do if this member does not have every decision.
const elsewhere = "repair on the member that decided last; if its database is lost, the groups are, too: gated member migrate --to sqlite --lost"

func (l opened) repair(ctx context.Context, o RepairOptions) (r Repair, err error) {
	if r.LedgerState, err = l.state(ctx); err != nil {
		return r, err
	}
	s, err := memberSettings(l.Dir, l.ID, l.engine)
	if err != nil {
		return r, err
	}
	image, err := imageOf(ctx, l.Store, nil)
	if err != nil {
		return r, err
	}
	switch err := s.Check(ctx, image.Place); {
	case err == nil:
		return r, refusal.New(refusal.Conflict, "the ledger has all groups of this member, so there is nothing to repair").WithHint("start the daemon")
	case !errors.Is(err, ledger.ErrLost) && !errors.Is(err, ledger.ErrRolledBack):
		return r, err
	}
	r.Began = lastEra(l.Dir.Path())
	if image.Era > r.Began {
		return r, refusal.New(refusal.Conflict, "another member decided last: it began era %d, and this one began era %d", image.Era, r.Began).WithHint(elsewhere)
	}
	if err := l.goesOn(ctx, s, image.Place, &r, o.Progress); err != nil {
		return r, err
	}
	if o.Agree != nil {
		if err := o.Agree(r); err != nil {
			return r, err
		}
	}
	if r.Era, err = ledger.Mend(ctx, s, r.There, image, r.Began); errors.Is(err, ledger.ErrFenced) {
		return r, refusal.New(refusal.Conflict, "another member changed the ledger meanwhile, and nothing of it was dropped").
			WithHint("stop all members, compare gated member ledger status on each, and say it again on the one that decided last")
	}
	if err != nil {
		return r, err
	}
	r.LedgerState, err = l.state(ctx)
	return r, err
}

// goesOn checks that the database here goes on from what the ledger has: its audit log begins with the ledger's. Each
// member that takes over writes into the log, so a ledger with decisions of another one has another log.
func (l opened) goesOn(ctx context.Context, s ledger.Settings, here store.Place, r *Repair, progress func(groups, of uint64)) error {
	var there audit.Head
	var at store.Place
	err := replayed(ctx, s, r.There.Last, told(progress, r.There.Last), func(replay *store.Store) (err error) {
		if at, err = replay.Place(ctx); err != nil {
			return err
		}
		return replay.View(ctx, func(tx *store.Tx) (err error) {
			there, err = audit.ReadHead(tx)
			return err
		})
	})
	if err != nil {
		return err
	}
	r.EntriesThere = there.Seq
	same := at.Number < here.Number || at == here
	err = l.Store.View(ctx, func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		r.EntriesHere = head.Seq
		if err != nil || there.Seq == 0 {
			return err
		}
		texts, err := audit.Bodies(tx, there.Seq-1, 1)
		if err != nil {
			return err
		}
		same = same && len(texts) == 1 && hashes(texts[0], there.Hash)
		return nil
	})
	if err == nil && !same {
		err = refusal.New(refusal.Conflict, "another member decided after the ledger lost groups: its log is another one than the log here").WithHint(elsewhere)
	}
	return err
}

func hashes(text []byte, hash string) bool {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]) == hash
}

// told is a Follower's Passed that tells of a look at so many groups.
func told(progress func(groups, of uint64), of uint64) func(uint64) {
	if progress == nil {
		return nil
	}
	return func(n uint64) { progress(n, of) }
}
