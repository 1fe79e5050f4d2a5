package life

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/state"
	"gated/internal/ledger"
	"gated/internal/ledger/lease"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// MigrateOptions say which gate gets a ledger, or leaves it. Its daemon must not run.
type MigrateOptions struct {
	StateDir string
	Engines  Engines // open the ledger, or make it; nil is PostgreSQL
	// Waiting is told, before the gate leaves a ledger that another member may act for, that this takes as long as the lease.
	Waiting func(Store)
	// Lost is for a ledger that is lost for good: the gate goes on from what is here, under a new id.
	Lost bool
}

// Migrated is what became of it.
type Migrated struct {
	state.Identity
	StateDir string
	Groups   uint64 // of the ledger
	Was      state.Identity
}

// ToLedger gives a gate the ledger that its gated.yaml names: all that it has is the first group. Cut off at any moment,
// it can be called again.
func ToLedger(ctx context.Context, o MigrateOptions) (m Migrated, err error) {
	c, err := ledgerSettings(o.StateDir)
	if err != nil {
		return m, err
	}
	if o.Engines == nil {
		o.Engines = CreatePostgres
	}
	return withState(ctx, o.StateDir, func(dir *state.Dir, id state.Identity) (m Migrated, err error) {
		m = Migrated{StateDir: dir.Path(), Identity: id, Was: id}
		in, err := inAny(ctx, dir)
		if err == nil && in {
			err = refusal.New(refusal.Conflict, "this gate is in a ledger already").WithHint("gated member ledger status says how it is")
		}
		if err != nil {
			return m, err
		}
		if err := enrolled(ctx, dir, id); err != nil {
			return m, err
		}
		e, err := o.Engines(ctx, c, id.Gate)
		if err != nil {
			return m, err
		}
		m.Groups, err = begin(ctx, dir, id, e)
		return m, errors.Join(err, e.Close())
	})
}

// enrolled refuses a gate whose key its log does not name yet: other members check each group with it.
func enrolled(ctx context.Context, dir *state.Dir, id state.Identity) error {
	return reading(ctx, dir, func(s *store.Store) error {
		_, err := publicKey(ctx, s, id.Gate, "start the daemon once without the section store, stop it, and say this again")
		return err
	})
}

// begin makes the rows of a database the first group of an empty ledger.
func begin(ctx context.Context, dir *state.Dir, id state.Identity, e ledger.Engine) (uint64, error) {
	at, err := e.Position(ctx)
	if err != nil {
		return 0, ledgerSays(dir, err)
	}
	if at.Era == ledger.Ended {
		return 0, refusal.New(refusal.Conflict, "the gate left this ledger, and no member comes back to it").
			WithHint("name another PostgreSQL database in the section store of gated.yaml: it gets a ledger of its own")
	}
	if at.Last > 1 {
		return 0, refusal.New(refusal.Conflict, "the ledger has %d groups of this gate already, and this database is none of its members'", at.Last).
			WithHint("to make this host a member: gated member join, with another state directory")
	}
	s, err := memberSettings(dir, id, e)
	if err != nil {
		return 0, err
	}
	here, era, err := catchUp(ctx, dir, s)
	if err == nil {
		err = RememberEra(dir.Path(), era)
	}
	return here.Number, err
}

// catchUp begins an era, and brings the database and the ledger to the same group.
func catchUp(ctx context.Context, dir *state.Dir, s ledger.Settings) (store.Place, uint64, error) {
	k := ledger.New(s)
	opened, err := store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations(), Keeper: k, Local: ledger.LocalNames()})
	if err != nil {
		return store.Place{}, 0, cannotOpen(ctx, dir.Database(), err)
	}
	here, err := opened.Place(ctx)
	return here, k.Era(), errors.Join(err, opened.Close())
}

// ToSQLite takes a gate out of its ledger: it goes on in the database of this member alone, with the same id. The ledger is
// ended first, so that no other member decides. With Lost it does that if the ledger answers, and the gate gets a new id, because
// approvals that only the ledger had would count a second time. Cut off at any moment, it can be called again.
func ToSQLite(ctx context.Context, o MigrateOptions) (Migrated, error) {
	c, err := ledgerSettings(o.StateDir)
	if err != nil {
		return Migrated{}, err
	}
	if o.Engines == nil {
		o.Engines = Postgres
	}
	return withState(ctx, o.StateDir, func(dir *state.Dir, id state.Identity) (m Migrated, err error) {
		m = Migrated{StateDir: dir.Path(), Identity: id, Was: id}
		in, err := inAny(ctx, dir)
		if err == nil && !in {
			err = refusal.New(refusal.Conflict, "this gate is in no ledger").WithHint("take the section store out of gated.yaml, and start it")
		}
		if err != nil {
			return m, err
		}
		if !o.Lost {
			if m.Groups, err = leave(ctx, dir, id, c, o); err != nil {
				return m, err
			}
			return m, alone(ctx, dir, (*store.Tx).Leave)
		}
		if m.Groups, err = endWhatIsLeft(ctx, dir, id, c, o); err != nil {
			return m, err
		}
		m.Gate = state.NewGateID()
		return m, alone(ctx, dir, func(tx *store.Tx) error {
			e := audit.Entry{Kind: audit.LedgerLost, Gate: m.Gate, Detail: "the ledger is lost, and the gate goes on from the database of one member"}
			if err := tx.Leave(); err != nil {
				return err
			}
			if err := newLife(tx, nonce.System(), e, "the ledger is lost, and what it had of this guest with it"); err != nil {
				return err
			}
			return dir.BindIn(tx, m.Identity)
		})
	})
}

// leave brings the database up to date, and ends the ledger.
func leave(ctx context.Context, dir *state.Dir, id state.Identity, c config.Store, o MigrateOptions) (groups uint64, err error) {
	e, err := o.Engines(ctx, c, id.Gate)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	at, err := e.Position(ctx)
	if err != nil {
		return 0, ledgerSays(dir, err)
	}
	if at.Era == ledger.Ended {
		return at.Last, endedHere(dir, at)
	}
	mine := Began(dir.Path(), at.Era)
	held := lease.New(e, c.Lease, nonce.SinceBoot)
	s, err := memberSettings(dir, id, held)
	if err != nil {
		return 0, err
	}
	here, era, err := catchUp(ctx, dir, s)
	if err != nil {
		return 0, err
	}
	if !mine { // another member may be at something, and not know of the era yet
		before, err := lookBehind(ctx, dir)
		if err != nil {
			return 0, err
		}
		c.Lease = max(c.Lease, time.Duration(before.Lease)*time.Second)
		if o.Waiting != nil {
			o.Waiting(c)
		}
		if err := errors.Join(held.Wait(ctx, c.Lease), ctx.Err()); err != nil {
			return 0, ledgerSays(dir, err)
		}
	}
	if err := RememberEra(dir.Path(), era); err != nil {
		return 0, err
	}
	return here.Number, ledgerSays(dir, held.End(ctx, era))
}

// endWhatIsLeft ends a ledger that an operator calls lost and that still answers: another member may decide with it. If it is
// whole, the gate leaves it as ever.
func endWhatIsLeft(ctx context.Context, dir *state.Dir, id state.Identity, c config.Store, o MigrateOptions) (groups uint64, err error) {
	e, err := o.Engines(ctx, c, id.Gate)
	if err != nil {
		return 0, ctx.Err() // it is lost
	}
	whole, at, err := isWhole(ctx, dir, id, e)
	if err == nil && !whole && at.Era != ledger.Ended {
		_ = e.End(ctx, at.Era) // one that keeps nothing any more serves no other member, either
	}
	if err = errors.Join(err, e.Close()); err != nil || !whole {
		return 0, err
	}
	return leave(ctx, dir, id, c, o)
}

// isWhole reports whether a ledger answers, and has all that is here.
func isWhole(ctx context.Context, dir *state.Dir, id state.Identity, e ledger.Engine) (bool, ledger.Position, error) {
	at, err := e.Position(ctx)
	if err != nil {
		return false, ledger.Position{Era: ledger.Ended}, ctx.Err()
	}
	s, err := memberSettings(dir, id, e)
	if err != nil {
		return false, at, err
	}
	here, err := placeOf(ctx, dir)
	if err != nil {
		return false, at, err
	}
	return (&ledger.Follower{Settings: s}).Begin(ctx, here) == nil, at, ctx.Err()
}

// lookBehind returns the member that decided last. It refuses while a step is dispatched: the gate of one host would take it
// for a step of its own, and another host may still be at it.
func lookBehind(ctx context.Context, dir *state.Dir) (m audit.Member, err error) {
	var steps []op.Step
	err = reading(ctx, dir, func(s *store.Store) error {
		return s.View(ctx, func(tx *store.Tx) (err error) {
			if steps, err = journal.InState(tx, op.StateDispatched); err != nil {
				return err
			}
			started, err := audit.Newest(tx, audit.Started)
			m = started.Member
			return err
		})
	})
	if err == nil && len(steps) > 0 {
		err = refusal.New(refusal.Conflict, "the step %s on %s is under way, and another member began it", steps[0].ID, steps[0].Target).
			WithHint("start the daemon on this member, wait until gated status says that it decides and opsign list shows the end of the step, and stop it")
	}
	return m, err
}

// endedHere goes on with a call that was cut off after it ended the ledger, and refuses on every other member.
func endedHere(dir *state.Dir, at ledger.Position) error {
	if Began(dir.Path(), at.Beat) {
		return nil
	}
	return refusal.New(refusal.Conflict, "the gate left this ledger on another member, which goes on alone").WithHint("start the gate on that member")
}

// alone changes a database that leaves its ledger, in one transaction.
func alone(ctx context.Context, dir *state.Dir, change func(*store.Tx) error) error {
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations(), Leaves: true})
	if err != nil {
		return cannotOpen(ctx, dir.Database(), err)
	}
	s.OnGroup(audit.Seal)
	return errors.Join(s.Update(ctx, change), s.Close())
}

// ledgerSays is what is said of an error of the ledger itself.
func ledgerSays(dir *state.Dir, err error) error {
	if err == nil {
		return nil
	}
	if r := inLedger(dir.Database(), err); r != nil {
		return r
	}
	return err
}

// ledgerSettings is the section store of a gate that has one.
func ledgerSettings(dir string) (config.Store, error) {
	c, err := Settings(dir)
	if err != nil {
		return config.Store{}, err
	}
	if c.Store == nil {
		return config.Store{}, refusal.New(refusal.BadParams, "%s has no section store, so it names no ledger", filepath.Join(dir, state.SettingsName)).
			WithHint("gated docs guides/high-availability says what to write")
	}
	return *c.Store, nil
}

// withState calls do with a locked state directory.
func withState(ctx context.Context, path string, do func(*state.Dir, state.Identity) (Migrated, error)) (m Migrated, err error) {
	dir, err := state.Open(path, state.Options{})
	if err != nil {
		return m, err
	}
	id, err := identity(ctx, dir)
	if err == nil {
		m, err = do(dir, id)
	}
	return m, errors.Join(err, dir.Close())
}

// leftLedger refuses a restore over a database that is in a ledger: other members would go on with the gate that it was. A
// database that is lost or damaged says nothing of a ledger.
func leftLedger(ctx context.Context, dir *state.Dir) error {
	if in, err := inAny(ctx, dir); err == nil && in {
		return refusal.New(refusal.Conflict, "this gate is in a ledger, and its other members would go on with it beside the restored one").
			WithHint("stop all members; gated member migrate --to sqlite, with --lost if PostgreSQL is lost; then restore")
	}
	return nil
}
