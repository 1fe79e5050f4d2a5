package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/config"
	"gated/internal/gate"
	"gated/internal/journal"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/policy"
	"gated/internal/state"
	"gated/internal/store"
)

// InitOptions says what a new gate guards and who may approve.
type InitOptions struct {
	StateDir string // empty: DefaultStateDir
	Host     string // empty: the hostname

	Operators    []KeyArg // at least one
	Recovery     []KeyArg
	Coordinators []KeyArg
}

// InitResult says what was made.
type InitResult struct {
	StateDir   string
	Config     string // path of gated.yaml
	Signers    string // path of allowed_signers
	Database   string
	Host       string
	GateID     op.GateID
	SingleUser bool
	Listed     []authz.Listed
}

// serviceUser is the account that contrib/systemd makes for the daemon. A gate
// made for any other one shares its uid with a person.
const serviceUser = "gated"

// Init makes the state directory of a new gate: configuration, allowed signers
// and database. Nothing is left behind if a part of it is refused.
func Init(ctx context.Context, o InitOptions) (InitResult, error) {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir()
	}
	if o.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return InitResult{}, op.Refuse(op.BadParams, "this machine has no hostname").WithHint("name it with --host")
		}
		o.Host = host
	}
	if err := op.CheckName(o.Host); err != nil {
		return InitResult{}, op.Refuse(op.BadParams, "the host %q is not a name", o.Host).WithHint("name it with --host")
	}
	if len(o.Operators) == 0 {
		return InitResult{}, op.Refuse(op.BadParams, "a gate needs an operator's key").WithHint("give one with --operator KEY.pub")
	}
	signers, trust, err := signersFile(map[op.Role][]KeyArg{op.Operational: o.Operators, op.Recovery: o.Recovery,
		op.Coordination: o.Coordinators})
	if err != nil {
		return InitResult{}, err
	}
	dir, err := makeStateDir(o.StateDir)
	if err != nil {
		return InitResult{}, err
	}
	r, err := fill(ctx, dir, o, signers)
	r.Listed = trust.Signers()
	return r, errors.Join(err, dir.Close())
}

// makeStateDir makes the directory and, for a default in a home directory that
// has none yet, those above it.
func makeStateDir(path string) (*state.Dir, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, op.Refuse(op.BadParams, "the state directory cannot be made: %v", err)
	}
	return state.Init(path, state.Options{})
}

// fill writes the files of a new gate. What it made is taken away again if it
// cannot finish.
func fill(ctx context.Context, dir *state.Dir, o InitOptions, signers []byte) (r InitResult, err error) {
	r = InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), configName),
		Signers: filepath.Join(dir.Path(), signersName), Database: dir.Database(), Host: o.Host, GateID: state.NewGateID(),
		SingleUser: !runsAsService()}
	text, err := config.Render(config.Initial{Host: o.Host, SingleUser: r.SingleUser, State: dir.Path()})
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			for _, path := range []string{r.Config, r.Signers, r.Database, r.Database + "-wal", r.Database + "-shm"} {
				_ = os.Remove(path)
			}
		}
	}()
	if err = writeNew(r.Config, text); err != nil {
		return r, err
	}
	if err = writeNew(r.Signers, signers); err != nil {
		return r, err
	}
	return r, createDatabase(ctx, dir, r)
}

func createDatabase(ctx context.Context, dir *state.Dir, r InitResult) error {
	s, err := store.Open(ctx, r.Database, store.Options{Migrations: migrations()})
	if err != nil {
		return cannotOpen(err)
	}
	err = dir.Bind(ctx, s, state.Identity{Gate: r.GateID, Host: r.Host})
	return errors.Join(err, s.Close())
}

// writeNew writes a file that must not exist yet, 0600 and on disk.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return op.Refuse(op.Conflict, "%v", err).WithHint("there may be a gate here already: gated status")
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// restored writes what became of a restored database: a new gate id, for which
// no old signature is good, an audit entry that says so, and the time of this
// machine, since what an old clock guarded against cannot be replayed under a
// new id.
func restored(ctx context.Context, dir *state.Dir, s *store.Store, id state.Identity, detail string) (state.Identity, error) {
	id.Gate = state.NewGateID()
	if err := dir.Bind(ctx, s, id); err != nil {
		return id, err
	}
	s.OnGroup(audit.Seal)
	err := s.Update(ctx, func(tx *store.Tx) error {
		t := now()
		if err := nonce.SetMark(tx, t); err != nil {
			return err
		}
		if err := journal.ExpireRequests(tx); err != nil {
			return err
		}
		_, err := audit.Append(tx, audit.Entry{Kind: audit.Restored, By: "state owner", Gate: id.Gate, Detail: detail, Time: t})
		return err
	})
	return id, err
}

// newGate loads the clock and makes the gate of an opened state.
func newGate(ctx context.Context, o *opened, c gate.Config, p policy.Policy) (*gate.Gate, error) {
	var err error
	if viewErr := o.store.View(ctx, func(tx *store.Tx) error {
		c.Clock, err = nonce.LoadClock(tx, nonce.System)
		return err
	}); viewErr != nil {
		return nil, viewErr
	}
	c.Store, c.Host, c.ID, c.Policy, c.UID = o.store, o.id.Host, o.id.Gate, p, uint32(os.Geteuid())
	return gate.New(c)
}

// now is the wall clock for deadlines and logs; decisions use the gate's own.
func now() time.Time { return time.Now() }
