package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/config"
	"gated/internal/journal"
	"gated/internal/op"
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
	signers, trust, err := signersText(map[op.Role][]KeyArg{op.Operational: o.Operators, op.Recovery: o.Recovery,
		op.Coordination: o.Coordinators})
	if err != nil {
		return InitResult{}, err
	}
	made, err := filepath.Abs(o.StateDir)
	if err != nil {
		return InitResult{}, err
	}
	absent := firstAbsent(made)
	dir, err := state.Init(made, state.Options{})
	if err != nil {
		if r := (*op.Refusal)(nil); !errors.As(err, &r) {
			err = op.Refuse(op.BadParams, "the state directory cannot be made: %v", err).WithHint("choose another one with --state")
		}
		return InitResult{}, errors.Join(err, takeBack(made, absent))
	}
	r, err := fill(ctx, dir, o, signers, trust)
	if err != nil {
		// The lock is given back when nothing is left that it guards.
		return InitResult{}, errors.Join(err, takeBack(made, absent), dir.Close())
	}
	r.Listed = trust.Signers()
	return r, dir.Close()
}

// firstAbsent returns the topmost directory of a path that does not exist yet,
// "" if the path exists.
func firstAbsent(path string) string {
	absent := ""
	for {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return absent
		}
		absent, path = path, filepath.Dir(path)
	}
}

// takeBack removes the directories that Init made, from path up to absent, with
// the lock that is in the last of them. What holds anything else stays.
func takeBack(path, absent string) error {
	if absent == "" {
		return nil
	}
	_ = os.Remove(filepath.Join(path, lockName))
	for {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take back what was made: %w", err)
		}
		if path == absent {
			return nil
		}
		path = filepath.Dir(path)
	}
}

// fill writes the files of a new gate. What it made, and nothing else, is taken
// away again if it cannot finish.
func fill(ctx context.Context, dir *state.Dir, o InitOptions, signers []byte, trust *authz.Trust) (r InitResult, err error) {
	r = InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), configName),
		Signers: filepath.Join(dir.Path(), signersName), Database: dir.Database(), Host: o.Host, GateID: state.NewGateID(),
		SingleUser: !runsAsService()}
	text, err := config.Render(config.Initial{Host: o.Host, SingleUser: r.SingleUser, State: dir.Path()})
	if err != nil {
		return r, err
	}
	var made []string
	defer func() {
		if err != nil {
			for _, path := range made {
				_ = os.Remove(path)
			}
		}
	}()
	for path, text := range map[string][]byte{r.Config: text, r.Signers: signers} {
		if err = writeNew(path, text); err != nil {
			return r, err
		}
		made = append(made, path)
	}
	made = append(made, r.Database, r.Database+"-wal", r.Database+"-shm") // state.Init refuses where there is one
	first := held{trust: trust, v: journal.TrustVersion{Epoch: 1, Text: signers, How: howInit, At: now()}}
	return r, createDatabase(ctx, dir, r, first)
}

func createDatabase(ctx context.Context, dir *state.Dir, r InitResult, first held) error {
	s, err := store.Open(ctx, r.Database, store.Options{Migrations: Migrations()})
	if err != nil {
		return cannotOpen(ctx, r.Database, err)
	}
	s.OnGroup(audit.Seal)
	err = s.Update(ctx, func(tx *store.Tx) error { return first.record(tx, stateOwner, r.GateID, compare(nil, first.trust)) })
	if err == nil {
		err = dir.Bind(ctx, s, state.Identity{Gate: r.GateID, Host: r.Host})
	}
	return errors.Join(err, s.Close())
}

// writeNew writes a file that must not exist yet, 0600 and on disk, or leaves
// none.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return op.Refuse(op.Conflict, "%s exists already", path).
			WithHint("init writes this file itself; move yours away, and put what you need of it back afterwards")
	}
	if err != nil {
		return op.Refuse(op.BadParams, "the state directory cannot be written: %v", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// runsAsService reports whether this process has the uid of the account that is
// the daemon's own.
func runsAsService() bool {
	u, err := user.Lookup(serviceUser)
	return err == nil && u.Uid == strconv.Itoa(os.Geteuid())
}
