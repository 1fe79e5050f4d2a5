package life

import (
	"context"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/ledger"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// LedgerState is a gate's ledger beside the database of one member.
type LedgerState struct {
	Gate   op.GateID
	Member string
	There  ledger.Position
	Base   uint64 // the number of the newest group of the ledger's base, 0 without one
	Here   store.Place
	Mine   bool // this state directory began the newest era
	Ended  bool // the gate left the ledger
}

// LedgerOptions say whose ledger is looked at.
type LedgerOptions struct {
	StateDir string
	Engines  Engines                 // open the ledger; nil is Postgres
	Progress func(groups, of uint64) // is told of a look at all groups; nil is not
}

// LookAtLedger asks the ledger how far it is. It reads, and works beside a running daemon.
func LookAtLedger(ctx context.Context, o LedgerOptions) (LedgerState, error) {
	var s LedgerState
	err := withLedger(ctx, o, func(l opened) (err error) {
		s, err = l.state(ctx)
		return err
	})
	return s, err
}

// VerifyLedger checks the ledger's base, if it has one, and every group: its number, era, link and signature, and that the
// database here has the group of its place. It reads, and works beside a running daemon.
func VerifyLedger(ctx context.Context, o LedgerOptions) (LedgerState, error) {
	var s LedgerState
	err := withLedger(ctx, o, func(l opened) (err error) {
		if s, err = l.state(ctx); err != nil {
			return err
		}
		key, err := publicKey(ctx, l.Store, l.ID.Gate, "start the daemon once")
		if err != nil {
			return err
		}
		return l.all(ctx, key, s, o.Progress)
	})
	return s, err
}

// opened is a ledger beside the state directory of a member.
type opened struct {
	*Opened
	config config.Store
	engine ledger.Engine
}

func withLedger(ctx context.Context, o LedgerOptions, do func(opened) error) error {
	c, err := ledgerSettings(o.StateDir)
	if err != nil {
		return err
	}
	here, err := look(ctx, o.StateDir)
	if err != nil {
		return err
	}
	if here.ID, err = here.Dir.Check(ctx, here.Store); err == nil {
		err = o.beside(ctx, c, here, do)
	}
	return errors.Join(err, here.Close())
}

// beside opens the ledger of a member whose state directory is open.
func (o LedgerOptions) beside(ctx context.Context, c config.Store, here *Opened, do func(opened) error) error {
	engines := o.Engines
	if engines == nil {
		engines = Postgres
	}
	e, err := engines(ctx, c, here.ID.Gate)
	if err != nil {
		return ledgerSays(here.Dir, err)
	}
	return errors.Join(ledgerSays(here.Dir, do(opened{here, c, e})), e.Close())
}

func (l opened) state(ctx context.Context) (s LedgerState, err error) {
	s = LedgerState{Gate: l.ID.Gate, Member: l.config.Member}
	if s.There, err = l.engine.Position(ctx); err != nil {
		return s, err
	}
	if s.Here, err = l.Store.Place(ctx); err != nil {
		return s, err
	}
	b, err := l.engine.Base(ctx)
	if err != nil {
		return s, err
	}
	s.Base = b.Number
	s.Ended = s.There.Era == ledger.Ended
	s.Mine = Began(l.Dir.Path(), s.There.Era) || s.Ended && Began(l.Dir.Path(), s.There.Beat)
	return s, nil
}

// publicKey is the gate's public key as the audit log has it. Without one it is Conflict, with the hint.
func publicKey(ctx context.Context, s *store.Store, gate op.GateID, hint string) (key ledger.Verifier, err error) {
	var public string
	err = s.View(ctx, func(tx *store.Tx) (err error) {
		public, err = audit.PublicKey(tx, gate)
		return err
	})
	if err == nil && public == "" {
		err = refusal.New(refusal.Conflict, "the audit log does not name the gate's key yet").WithHint("%s", hint)
	}
	if err != nil {
		return nil, err
	}
	return checkpoint.NewVerifier(public)
}

// all reads and checks all groups, at least up to the one that is here.
func (l opened) all(ctx context.Context, key ledger.Verifier, s LedgerState, progress func(groups, of uint64)) error {
	var at store.Place
	for {
		kept, err := ledger.Read(ctx, l.engine, string(l.ID.Gate), key, at)
		if errors.Is(err, ledger.ErrBehind) {
			return newBase()
		}
		if err != nil {
			return err
		}
		for _, k := range kept {
			if k.Base && k.Number > s.Here.Number {
				return ledger.ErrBehind
			}
			if at = k.Place; at.Number == s.Here.Number && at != s.Here {
				return ledger.ErrForked
			}
		}
		if len(kept) == 0 {
			break
		}
		if progress != nil {
			progress(at.Number, s.There.Last)
		}
	}
	if most := max(s.There.Last, s.Here.Number); at.Number < most {
		return refusal.New(refusal.Conflict, "the ledger shows %d groups, and it had %d", at.Number, most).
			WithHint("groups are lost: see Lost groups in gated docs guides/high-availability")
	}
	return nil
}
