package life

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/state"
	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/log/checkpoint"
)

// Store says where a gate's ledger is, as in gated.yaml.
type Store = config.Store

// Engines opens the ledger of a gate. Tests have their own.
type Engines func(ctx context.Context, c config.Store, gate op.GateID) (ledger.Engine, error)

// Postgres opens the ledger that gated.yaml names.
func Postgres(ctx context.Context, c config.Store, gate op.GateID) (ledger.Engine, error) {
	e, err := pg.Open(ctx, pgSettings(c, gate))
	if err != nil {
		return nil, away(err)
	}
	return e, nil
}

// away is what is said of a ledger that cannot be opened.
func away(err error) error {
	if r := new(refusal.Refusal); errors.As(err, &r) {
		return err
	}
	return refusal.New(refusal.Unavailable, "%v", err).WithHint("nothing is decided: see whether PostgreSQL answers, and store.postgres in gated.yaml")
}

// CreatePostgres is Postgres for a gate that has no ledger yet.
func CreatePostgres(ctx context.Context, c config.Store, gate op.GateID) (ledger.Engine, error) {
	if err := pg.Create(ctx, pgSettings(c, gate)); err != nil {
		return nil, away(err)
	}
	return Postgres(ctx, c, gate)
}

func pgSettings(c config.Store, gate op.GateID) pg.Settings {
	return pg.Settings{Connection: c.Postgres, Gate: string(gate), Single: c.Durability == "single"}
}

// Identity returns the gate of a state directory, also beside a running daemon.
func Identity(ctx context.Context, path string) (state.Identity, error) {
	dir, err := state.Look(path, state.Options{})
	if err != nil {
		return state.Identity{}, err
	}
	id, err := identity(ctx, dir)
	return id, errors.Join(err, dir.Close())
}

// OpenStandby is Open for a member of a gate that has a ledger, while another member decides. The database gets what the
// ledger has, and nothing here changes what travels.
func OpenStandby(ctx context.Context, path string, log *slog.Logger, e ledger.Engine) (*Opened, error) {
	return open(ctx, path, log, func(dir *state.Dir, id state.Identity) (store.Options, error) {
		s, err := ledgerOf(ctx, dir, id, e)
		return store.Options{Keeper: &ledger.Follower{Settings: s}, Follows: true, Local: ledger.LocalNames()}, err
	})
}

// OpenActive is Open for the member that decides from now on: it begins an era of the ledger, so an earlier active member
// decides nothing more. RememberEra is the caller's.
func OpenActive(ctx context.Context, path string, log *slog.Logger, e ledger.Engine) (*Opened, error) {
	return open(ctx, path, log, func(dir *state.Dir, id state.Identity) (store.Options, error) {
		s, err := ledgerOf(ctx, dir, id, e)
		return store.Options{Keeper: ledger.New(s), Local: ledger.LocalNames()}, err
	})
}

// ledgerOf returns the settings of a gate's ledger. A database that is in no ledger yet is Conflict: a start must not
// make one of its rows, because the ledger may be another gate's by mistake.
func ledgerOf(ctx context.Context, dir *state.Dir, id state.Identity, e ledger.Engine) (ledger.Settings, error) {
	if in, err := inAny(ctx, dir); err != nil {
		return ledger.Settings{}, err
	} else if !in {
		return ledger.Settings{}, refusal.New(refusal.Conflict, "gated.yaml has a store, and this gate is in no ledger yet").
			WithHint("gated member migrate --to postgres --state %s begins one; or take store out of gated.yaml", dir.Path())
	}
	return memberSettings(dir, id, e)
}

// memberSettings are ledger settings with the key of a state directory.
func memberSettings(dir *state.Dir, id state.Identity, e ledger.Engine) (ledger.Settings, error) {
	key, err := ReadKey(filepath.Join(dir.Path(), state.KeyName))
	if err != nil {
		return ledger.Settings{}, refusal.New(refusal.Unavailable, "the gate's own key cannot be used: %v", err).
			WithHint("copy gate.key from another member of the gate, with mode 0600")
	}
	return settingsWith(key, id, e)
}

// inAny reports whether a directory's database is in a ledger.
func inAny(ctx context.Context, dir *state.Dir) (bool, error) {
	here, err := placeOf(ctx, dir)
	return here.Number > 0, err
}

// placeOf reads how far a directory's database is in a ledger.
func placeOf(ctx context.Context, dir *state.Dir) (here store.Place, err error) {
	err = reading(ctx, dir, func(s *store.Store) error {
		here, err = s.Place(ctx)
		return err
	})
	return here, err
}

func settingsWith(key checkpoint.Key, id state.Identity, e ledger.Engine) (ledger.Settings, error) {
	if !key.Of(id.Gate) {
		return ledger.Settings{}, refusal.New(refusal.Conflict, "gate.key is of another gate than %s", id.Gate).
			WithHint("copy gate.key from another member of this gate, with mode 0600")
	}
	public, err := checkpoint.NewVerifier(key.Public)
	return ledger.Settings{Engine: e, Gate: string(id.Gate), Signer: key.Signer, Verifier: public}, err
}

// inLedger is what is said of errors of a ledger at an open, nil for others.
func inLedger(path string, err error) error {
	for _, known := range []struct {
		err  error
		code refusal.Code
		hint string
	}{
		{store.ErrNeedsKeeper, refusal.Conflict, "this is for a gate without a ledger, and gated.yaml needs its section store for one with it; " +
			"to take this gate out of its ledger, stop all its members: gated member migrate --to sqlite"},
		{ledger.ErrLost, refusal.Conflict, "nothing is decided: find out what became of the PostgreSQL server; if the groups are lost for good, gated member ledger repair on the member that decided last; see Lost groups in gated docs guides/high-availability"},
		{ledger.ErrBehind, refusal.Conflict, "make this member anew, with another state directory or after moving this one away: gated member join"},
		{ledger.ErrForked, refusal.Conflict, "nothing is decided: two databases have decided under one name; see Lost groups in gated docs guides/high-availability"},
		{ledger.ErrRolledBack, refusal.Conflict, "nothing is decided: the PostgreSQL server was set back; gated member ledger repair on the member that decided last; see Lost groups in gated docs guides/high-availability"},
		{ledger.ErrEnded, refusal.Conflict, "nothing is decided: gated member migrate --to sqlite was run on a member, and that one goes on alone; make this one anew if the gate got another ledger: gated member join"},
		{ledger.ErrSignature, refusal.Conflict, "nothing is decided: the ledger was written by another program; see Suspected tampering in gated docs runbook"},
		{ledger.ErrBase, refusal.Conflict, "nothing is decided: the ledger's base was written by another program; see Suspected tampering in gated docs runbook"},
		{ledger.ErrBody, refusal.Conflict, "nothing is decided: the gate's key signed it, so a newer gated wrote it; upgrade this one"},
		{ledger.ErrInDoubt, refusal.Unavailable, "say it again: it goes on from what the ledger has"},
		{ledger.ErrLink, refusal.Conflict, "nothing is decided: the ledger was changed; see Suspected tampering in gated docs runbook"},
		{ledger.ErrNumber, refusal.Conflict, "nothing is decided: a group of the ledger is missing; see Suspected tampering in gated docs runbook"},
		{ledger.ErrEra, refusal.Conflict, "nothing is decided: the ledger was changed; see Suspected tampering in gated docs runbook"},
		{ledger.ErrFenced, refusal.Unavailable, "another member took over at the same moment: start again, and this one is a standby"},
		{ledger.ErrUnavailable, refusal.Unavailable, "nothing is decided: see whether PostgreSQL answers, and its synchronous standby"},
		{store.ErrDiverged, refusal.Conflict, "nothing is decided: this database is not the one that the ledger has; make this member anew from the ledger: gated member join"},
	} {
		if errors.Is(err, known.err) {
			return refusal.New(known.code, "the database %s does not open: %v", path, err).WithHint("%s", known.hint)
		}
	}
	return nil
}

// CannotFollow is what is said if a standby's database does not go on from what the ledger has.
func CannotFollow(ctx context.Context, o *Opened, err error) error {
	return cannotOpen(ctx, o.Dir.Database(), err)
}
