package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/ledger"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// JoinOptions say which gate a new member joins.
type JoinOptions struct {
	StateDir string // empty: DefaultStateDir
	Config   string // the path of a gated.yaml with a store, from another member
	Key      string // the path of the gate's own key, from another member and never from the ledger
	// AtLeast is how many entries the audit log has at least, from another member or an operator's witness. PostgreSQL's
	// owner can leave out the newest groups, and a new member does not notice that by itself.
	AtLeast int64

	Engines  Engines                 // open the ledger; nil is Postgres
	Progress func(groups, of uint64) // is told of the replay; nil is not
	Agree    func(Joined) error      // is asked before the member is bound; its error ends the join; nil agrees
}

// Joined is what a new member has.
type Joined struct {
	StateDir string
	Member   string
	Gate     op.GateID
	Host     string
	Groups   uint64 // of the ledger
	Entries  int64  // of the audit log
	Head     string // of it, hex
	Signers  string // SHA-256 of the list of signers, hex
	Epoch    int64  // of that list
	Listed   []authz.Listed
}

// Join makes the state directory of a new member: every group of the ledger is checked and replayed. It leaves nothing
// behind if it cannot finish.
func Join(ctx context.Context, o JoinOptions) (Joined, error) {
	text, err := os.ReadFile(o.Config)
	if err != nil {
		return Joined{}, refusal.New(refusal.BadParams, "the configuration cannot be read: %v", err).
			WithHint("--config names a copy of another member's gated.yaml, with another member under store")
	}
	c, err := config.Parse(o.Config, text)
	if err != nil {
		return Joined{}, err
	}
	if c.Store == nil {
		return Joined{}, refusal.New(refusal.BadParams, "%s has no store, so there is no ledger to join", o.Config).
			WithHint("--config names a copy of another member's gated.yaml, with another member under store")
	}
	key, err := ReadKey(o.Key)
	if err != nil {
		return Joined{}, refusal.New(refusal.BadParams, "the gate's key cannot be used: %v", err).
			WithHint("--key names a copy of another member's gate.key, of mode 0600")
	}
	dir, err := newDir(o.StateDir, nil)
	if err != nil {
		return Joined{}, err
	}
	j := joining{JoinOptions: o, dir: dir, config: c, key: key, id: state.Identity{Gate: key.Gate(), Host: c.Host}}
	r, err := j.fill(ctx, text)
	if err != nil {
		return Joined{}, errors.Join(err, dir.TakeBack())
	}
	return r, dir.Close()
}

// joining is a join that is under way.
type joining struct {
	JoinOptions
	dir    *state.Dir
	config config.Config
	key    checkpoint.Key
	id     state.Identity
}

func (j joining) fill(ctx context.Context, settings []byte) (r Joined, err error) {
	files := []file{{state.SettingsName, settings}, {state.KeyName, []byte(j.key.Text())}, {state.DatabaseName, nil}}
	err = fillNew(j.dir, files, []string{state.DatabaseName + "-wal", state.DatabaseName + "-shm", state.SignersName}, func() error {
		engines := j.Engines
		if engines == nil {
			engines = Postgres
		}
		e, err := engines(ctx, *j.config.Store, j.id.Gate)
		if err != nil {
			return err
		}
		r, err = j.replay(ctx, e)
		return errors.Join(err, e.Close())
	})
	return r, err
}

// replay makes the database of the ledger, and binds it.
func (j joining) replay(ctx context.Context, e ledger.Engine) (r Joined, err error) {
	settings, err := settingsWith(j.key, j.id, e)
	if err != nil {
		return r, err
	}
	f := &ledger.Follower{Settings: settings}
	if at, err := e.Position(ctx); err == nil && j.Progress != nil {
		f.Passed = func(n uint64) { j.Progress(n, at.Last) }
	}
	s, err := store.Open(ctx, j.dir.Database(), store.Options{Migrations: Migrations(), Keeper: f, Follows: true, Local: ledger.LocalNames()})
	if err != nil {
		return r, cannotOpen(ctx, j.dir.Database(), err)
	}
	if r, err = j.look(ctx, s); err == nil && j.Agree != nil {
		err = j.Agree(r)
	}
	if err == nil {
		err = j.dir.Bind(ctx, s, j.id)
	}
	return r, errors.Join(err, s.Close())
}

// look checks what was replayed, and says what it is.
func (j joining) look(ctx context.Context, s *store.Store) (Joined, error) {
	r := Joined{StateDir: j.dir.Path(), Member: j.config.Store.Member, Gate: j.id.Gate, Host: j.id.Host}
	here, err := s.Place(ctx)
	if err != nil {
		return r, err
	}
	if r.Groups = here.Number; r.Groups == 0 {
		return r, refusal.New(refusal.Conflict, "the ledger has no groups of gate %s", j.id.Gate).
			WithHint("the gate's key or the PostgreSQL database is another one than the active member's")
	}
	var head audit.Head
	err = s.View(ctx, func(tx *store.Tx) error {
		public, err := audit.PublicKey(tx, j.id.Gate)
		if err == nil && public != "" && public != j.key.Public {
			err = refusal.New(refusal.Conflict, "the audit log names another key of gate %s than this file has", j.id.Gate).
				WithHint("copy gate.key from the active member")
		}
		if err != nil {
			return err
		}
		head, err = audit.Verify(tx, nil)
		return err
	})
	if err != nil {
		return r, err
	}
	if r.Entries, r.Head = head.Seq, head.Hash; r.Entries < j.AtLeast {
		return r, refusal.New(refusal.Conflict, "the ledger's audit log has %d entries, and the gate had %d: decisions are missing", r.Entries, j.AtLeast).
			WithHint("nothing was joined; see Lost groups in gated docs guides/high-availability")
	}
	v, err := signers.Newest(ctx, s)
	if err != nil {
		return r, err
	}
	trust, err := signers.Load(filepath.Join(r.StateDir, state.SignersName), v.Text)
	if err != nil {
		return r, err
	}
	r.Epoch, r.Signers, r.Listed = v.Epoch, trust.Digest(), trust.Signers()
	if err := create(j.dir, state.SignersName, v.Text); err != nil {
		return r, fmt.Errorf("write the list of signers: %w", err)
	}
	return r, nil
}
