// Package life is what happens to a gate's state directory from its first day:
// init, open, check, backup, restore, a new list of signers, a new time. A daemon
// opens it; everything else here works while no daemon runs, or only reads.
package life

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/headroom"
	"gated/internal/base/hostgate"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/config"
	"gated/internal/host/state"
	"gated/internal/host/unit"
	"gated/internal/log/canary"
)

// Migrations returns the whole schema of a gate's database, in the order in which
// its parts came.
func Migrations() []store.Migration {
	g := gate.Migrations()
	all := []store.Migration{g[0],
		{Name: "identity", SQL: state.Schema},
		g[1],
		{Name: "agents and reservations", SQL: agent.Schema + reserve.Schema},
		g[2],
		g[3],
		{Name: "the canary", SQL: canary.Schema},
		g[4],
		g[5],
		g[6],
		g[7],
		g[8],
		g[9],
		g[10],
		g[11],
		{Name: "holders of several members", SQL: agent.SchemaMembers + reserve.SchemaMembers},
		g[12],
		g[13],
	}
	for i := range all {
		all[i].Version = i + 1
	}
	return all
}

// Opened is a state directory whose identity was checked.
type Opened struct {
	Dir   *state.Dir
	Store *store.Store
	ID    state.Identity
	Room  *headroom.Room // nil if it was only looked at
}

// Open locks and checks a state directory for a daemon. A gate that has a ledger is Conflict; see OpenStandby and OpenActive.
func Open(ctx context.Context, path string, log *slog.Logger) (*Opened, error) {
	return open(ctx, path, log, func(*state.Dir, state.Identity) (store.Options, error) { return store.Options{}, nil })
}

// open is Open with options of the store for a gate, without migrations and logger.
func open(ctx context.Context, path string, log *slog.Logger, with func(*state.Dir, state.Identity) (store.Options, error)) (*Opened, error) {
	dir, err := state.Open(path, state.Options{Waiting: func(pid int) {
		log.Warn("waiting for a process that ends to give the state directory back", "pid", pid)
	}})
	if err != nil {
		return nil, err
	}
	o := &Opened{Dir: dir}
	if o.Room, err = headroom.Open(dir.Path(), filepath.Join(dir.Path(), state.ReserveName), headroom.Options{}); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	o.Room.Make(false) // a start on a full disk has to write, too
	if o.ID, err = identity(ctx, dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if err := dropCopies(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	options, err := with(dir, o.ID)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	options.Migrations, options.Logger = Migrations(), log
	if o.Store, err = store.Open(ctx, dir.Database(), options); err != nil {
		return nil, errors.Join(cannotOpen(ctx, dir.Database(), err), dir.Close())
	}
	return o, nil
}

// dropCopies removes the copies of the database that a backup or a restore had
// not finished when the program was killed.
func dropCopies(dir *state.Dir) error {
	for _, pattern := range []string{state.BackupPrefix + "*", state.DatabaseName + state.Restoring + "*"} {
		left, err := filepath.Glob(filepath.Join(dir.Path(), pattern))
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("take away a copy that was not finished: %w", err)
			}
		}
	}
	return nil
}

// identity checks whose database it is before anything of it may change: one
// that was copied here is refused as it is, not migrated first.
func identity(ctx context.Context, dir *state.Dir) (id state.Identity, err error) {
	err = reading(ctx, dir, func(s *store.Store) error {
		id, err = dir.Check(ctx, s)
		return err
	})
	return id, err
}

// reading calls do with a directory's database, which is opened to read.
func reading(ctx context.Context, dir *state.Dir, do func(*store.Store) error) error {
	s, err := store.OpenReadOnly(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return cannotOpen(ctx, dir.Database(), err)
	}
	return errors.Join(do(s), s.Close())
}

// look opens a state directory to read, beside a running daemon.
func look(ctx context.Context, path string) (*Opened, error) {
	dir, err := state.Look(path, state.Options{})
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return nil, errors.Join(cannotOpen(ctx, dir.Database(), err), dir.Close())
	}
	o := &Opened{Dir: dir, Store: s}
	if err := current(ctx, s); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// current refuses a database that no daemon of this version has brought up to
// date yet: what reads it would find other tables than it knows.
func current(ctx context.Context, s *store.Store) error {
	var have int
	err := s.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT user_version FROM pragma_user_version`).Scan(&have)
	})
	if want := len(Migrations()); err == nil && have < want {
		err = refusal.New(refusal.Unavailable, "the database %s has schema %d, and this gated reads %d",
			s.Path(), have, want).
			WithHint("gated serve brings it up to date when it starts")
	}
	return err
}

// Close gives the directory back.
func (o *Opened) Close() error { return errors.Join(o.Store.Close(), o.Dir.Close()) }

// Settings reads gated.yaml. NotAllowed: others could have written it.
func Settings(dir string) (config.Config, error) { return settingsOf(ownfile.Own(), dir) }

// settingsOf is Settings of a directory that another uid may have.
func settingsOf(own ownfile.StrictModes, dir string) (config.Config, error) {
	return settingsIn(own, filepath.Join(dir, state.SettingsName))
}

// settingsIn is settingsOf for a file of any name.
func settingsIn(own ownfile.StrictModes, path string) (config.Config, error) {
	text, err := own.Read(path, maxSettings)
	if errors.Is(err, refusal.NotAllowed) {
		return config.Config{}, err
	}
	if err != nil {
		return config.Config{}, refusal.New(refusal.Unavailable, "the configuration cannot be read: %v", err)
	}
	return config.Parse(path, text)
}

// now is the wall clock for deadlines and logs; decisions use the gate's own.
func now() time.Time { return time.Now() }

// SystemStateDir is the state directory of the system's own gate.
const SystemStateDir = hostgate.StateDir

// DefaultStateDir returns /var/lib/gated for root, else $XDG_STATE_HOME/gated,
// which is ~/.local/state/gated where that variable is not set.
func DefaultStateDir() string {
	if os.Geteuid() == 0 {
		return SystemStateDir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gated")
	}
	home := ownfile.Home(os.Getenv)
	if home == "" {
		return "gated"
	}
	return filepath.Join(home, ".local", "state", "gated")
}

// maxSettings bounds how much of gated.yaml is read, in bytes. config.Parse refuses
// a file that has more.
const maxSettings = 16 << 20

// CheckDeciding refuses, as NotAllowed, a configuration that names a file or
// directory which anybody but root and the daemon's own uid could change: what is
// in it decides what the gate runs, whom it believes or what it wishes. It says
// which setting names it. What is not there decides nothing, and whoever reads it
// says so; the directory in which it would be made has to be the daemon's own, too.
//
// Whatever is read later, while the daemon runs, is checked again as it is opened.
func CheckDeciding(c config.Config) error { return checkDeciding(ownfile.Own(), c) }

// checkDeciding is CheckDeciding for the daemon of another uid.
func checkDeciding(own ownfile.StrictModes, c config.Config) error {
	for _, n := range namedBy(own, c) {
		err := n.check(n.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = own.CheckAbove(n.path)
		}
		if err != nil {
			return notBelieved(n.key, err)
		}
	}
	return nil
}

// CheckUnit refuses, as NotAllowed, the unit that systemd runs this daemon by, if
// anybody but root and the daemon's own uid could change it: it says which program is
// the gate, as whom it runs and on which state. Where no unit runs it, none decides.
func CheckUnit(p unit.Place) error {
	s, err := p.Service()
	if err == nil {
		err = s.Check(ownfile.Own())
	}
	if err != nil {
		return notBelieved(cmp.Or(s.Name, "the daemon's unit"), err)
	}
	return nil
}

// notBelieved is the refusal of what a key names, with what mends it.
func notBelieved(key string, err error) error {
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return refusal.New(r.Code, "%s: %s", key, r.Detail).WithHint("%s", r.Hint)
	}
	return refusal.New(refusal.NotAllowed, "%s cannot be looked at, so that it is not believed: %v", key, err).
		WithHint("let the daemon's user search the directories above it")
}

// named is a path that gated.yaml names.
type named struct {
	key, path string
	check     func(path string) error
}

// namedBy returns everything by which a configuration decides, beside itself.
func namedBy(own ownfile.StrictModes, c config.Config) []named {
	all := []named{{"revocation_file", c.RevocationFile, own.Check}, {"desired.dir", c.Desired.Dir, own.Check}, {"local.root", c.Local.Root, own.Check}}
	if h := c.Hub; h != nil {
		all = append(all, named{"hub.ca", h.CA, own.Check}, named{"hub.token_file", h.TokenFile, own.Check})
	}
	if p := c.Proxmox; p != nil {
		all = append(all, named{"proxmox.ca_file", p.CAFile, own.Check}, named{"proxmox.token_file", p.TokenFile, own.Check})
	}
	if s := c.Store; s != nil {
		all = append(all, named{"store.certificate", s.Certificate, own.Check}, named{"store.key", s.Key, own.Check})
	}
	if l := c.Libvirt; l != nil {
		all = append(all, named{"libvirt.socket", l.Socket, own.CheckAbove}) // who may connect is libvirt's to say
	}
	for _, name := range slices.Sorted(maps.Keys(c.Local.Commands)) {
		all = append(all, named{"local.commands." + name, program(c.Local.Commands[name].Argv), own.CheckProgram})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Commands)) {
		e := c.Commands[name]
		all = append(all, named{"commands." + name, program(e.Argv), own.CheckProgram}, named{"commands." + name + ".probe", program(e.Probe), own.CheckProgram})
	}
	return slices.DeleteFunc(all, func(n named) bool { return n.path == "" })
}

// program returns the program of a command line, "" if there is none.
func program(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}
