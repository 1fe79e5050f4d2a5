package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
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
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/people/pubkey"
)

// InitOptions says what a new gate guards and who may approve.
type InitOptions struct {
	StateDir string // empty: DefaultStateDir
	Host     string // empty: the hostname

	Operators    []pubkey.Arg // at least one
	Recovery     []pubkey.Arg
	Coordinators []pubkey.Arg

	Group   string // whose members may connect; empty means the default
	Libvirt string // the socket of the libvirtd that has the guests; empty means directories and processes

	Store   *Store  // the ledger that the gate gets; nil for a gate of this host alone
	Engines Engines // make the ledger; nil is CreatePostgres

	Before func(path string) // is told each path before it is made; nil tells nobody
}

// Listed is a key that may sign.
type Listed = authz.Listed

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

// ServiceUser is the account that contrib/systemd makes for the daemon. A gate
// made for any other one shares its uid with a person.
const ServiceUser = "gated"

// Init makes the state directory of a new gate: configuration, allowed signers
// and database. Nothing is left behind if a part of it is refused.
func Init(ctx context.Context, o InitOptions) (InitResult, error) {
	if o.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return InitResult{}, refusal.New(refusal.BadParams, "this machine has no hostname").WithHint("name it with --host")
		}
		o.Host = host
	}
	if err := op.CheckName(o.Host); err != nil {
		return InitResult{}, refusal.New(refusal.BadParams, "the host %q is not a name", o.Host).
			WithHint("name it with --host")
	}
	if o.Store != nil {
		if err := o.Store.Check(); err != nil {
			return InitResult{}, err
		}
	}
	if len(o.Operators) == 0 {
		return InitResult{}, refusal.New(refusal.BadParams, "a gate needs an operator's key").
			WithHint("give one with --operator KEY.pub")
	}
	first, err := signers.Initial(map[op.Role][]pubkey.Arg{op.Operational: o.Operators, op.Recovery: o.Recovery,
		op.Coordination: o.Coordinators})
	if err != nil {
		return InitResult{}, err
	}
	dir, err := newDir(o.StateDir, o.Before)
	if err != nil {
		return InitResult{}, err
	}
	r, err := fill(ctx, dir, o, first)
	if err != nil {
		return InitResult{}, errors.Join(err, dir.TakeBack())
	}
	r.Listed = first.Trust.Signers()
	return r, dir.Close()
}

// fill writes the files of a new gate. What it made, and nothing else, is taken
// away again if it cannot finish.
func fill(ctx context.Context, dir *state.Dir, o InitOptions, first signers.List) (r InitResult, err error) {
	r = InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), state.SettingsName),
		Signers: filepath.Join(dir.Path(), state.SignersName), Database: dir.Database(), Host: o.Host, GateID: state.NewGateID(),
		SingleUser: !runsAsService()}
	text, err := config.Render(config.Initial{Host: o.Host, SingleUser: r.SingleUser, State: dir.Path(), Group: o.Group, Libvirt: o.Libvirt, Store: o.Store})
	if err != nil {
		return r, err
	}
	var key checkpoint.Key
	if o.Store != nil { // it signs the first group
		if key, err = checkpoint.NewKey(r.GateID); err != nil {
			return r, err
		}
	}
	files := []file{{state.SettingsName, text}, {state.SignersName, first.Version.Text}, {state.DatabaseName, nil}} // of an empty file the store makes a database
	if o.Store != nil {
		files = append(files, file{state.KeyName, []byte(key.Text())})
	}
	first.Version.At = now()
	return r, fillNew(dir, files, []string{state.DatabaseName + "-wal", state.DatabaseName + "-shm", eraName}, func() error {
		return createDatabase(ctx, dir, r, first, o, key)
	})
}

// firstLedger returns the options of a new gate's store, and what closes its ledger.
func firstLedger(ctx context.Context, dir *state.Dir, o InitOptions, key checkpoint.Key, gate op.GateID) (store.Options, func() error, error) {
	if o.Store == nil {
		return store.Options{}, func() error { return nil }, nil
	}
	engines := o.Engines
	if engines == nil {
		engines = CreatePostgres
	}
	e, err := engines(ctx, *o.Store, gate)
	if err != nil {
		return store.Options{}, nil, err
	}
	s, err := settingsWith(key, state.Identity{Gate: gate}, e)
	if err != nil {
		return store.Options{}, nil, errors.Join(err, e.Close())
	}
	k := ledger.New(s)
	return store.Options{Keeper: k, Local: ledger.LocalNames()}, func() error {
		return errors.Join(e.Close(), RememberEra(dir.Path(), k.Era()))
	}, nil
}

func createDatabase(ctx context.Context, dir *state.Dir, r InitResult, first signers.List, o InitOptions, key checkpoint.Key) error {
	options, closes, err := firstLedger(ctx, dir, o, key, r.GateID)
	if err != nil {
		return err
	}
	options.Migrations = Migrations()
	s, err := store.Open(ctx, r.Database, options)
	if err != nil {
		return errors.Join(cannotOpen(ctx, r.Database, err), closes())
	}
	s.OnGroup(audit.Seal)
	err = s.Update(ctx, func(tx *store.Tx) error {
		return first.Record(tx, signers.StateOwner, r.GateID, signers.Compare(nil, first.Trust))
	})
	if err == nil {
		err = dir.Bind(ctx, s, state.Identity{Gate: r.GateID, Host: r.Host})
	}
	return errors.Join(err, s.Close(), closes())
}

// runsAsService reports whether this process has the uid of the account that is
// the daemon's own.
func runsAsService() bool {
	u, err := user.Lookup(ServiceUser)
	return err == nil && u.Uid == strconv.Itoa(os.Geteuid())
}

// newLife writes what becomes of a database whose gate gets a new id, for which
// no old signature is good: an end for the time of what waits, so that it is
// issued anew; the end of every registration and reservation; and this machine's
// time, since what an old clock guarded against cannot be replayed under a new
// id. e is the entry of the audit log, but for who did it and when: its kind, the
// new id, and a detail to which the ended are added. Scratch ends with
// scratchWhy. Who calls it binds the id: state.Dir.Bind.
func newLife(tx *store.Tx, at nonce.Reading, e audit.Entry, scratchWhy string) (err error) {
	if err := nonce.SetMark(tx, at); err != nil {
		return err
	}
	if err := journal.RejectedAtLatest(tx, at.Wall); err != nil {
		return err
	}
	if err := journal.ExpireRequests(tx); err != nil {
		return err
	}
	if e.Ended, err = endAgents(tx); err != nil {
		return err
	}
	e.Time, e.By = at.Wall, signers.StateOwner
	if n := e.Ended; n != (audit.Ended{}) {
		e.Detail += fmt.Sprintf("; ended: registrations of agents: %d, reservations: %d", n.Registrations, n.Reservations)
	}
	if _, err := audit.Append(tx, e); err != nil {
		return err
	}
	return endScratch(tx, e, scratchWhy)
}

// endAgents ends every registration and reservation, and returns how many: those
// that are in a database of before may have been given up since, and their paths
// may be somebody else's by now. Agents register and reserve again.
func endAgents(tx *store.Tx) (n audit.Ended, err error) {
	if n.Registrations, err = agent.Clear(tx); err != nil {
		return n, err
	}
	n.Reservations, err = reserve.Clear(tx)
	return n, err
}

// endScratch ends what might be destroyed unsigned, which the new life does not
// know enough of. life is the entry that began it.
func endScratch(tx *store.Tx, life audit.Entry, why string) error {
	young, err := journal.MayEnd(tx, life.Time.Add(-policy.ScratchMaxAge))
	if err != nil {
		return err
	}
	for _, p := range young {
		if _, err := journal.EndScratch(tx, p.Incarnation, why); err != nil {
			return err
		}
		_, err := audit.Append(tx, audit.Entry{Kind: audit.Promoted, By: signers.StateOwner, Gate: life.Gate, Target: p.Target.String(),
			Incarnation: p.Incarnation, Detail: why, Time: life.Time})
		if err != nil {
			return err
		}
	}
	return nil
}
