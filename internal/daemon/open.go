// Package daemon puts the parts together: it makes, opens and checks a state
// directory, serves the socket, and reloads and stops cleanly.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gated/internal/agent"
	"gated/internal/canary"
	"gated/internal/config"
	"gated/internal/driver/command"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/headroom"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/ownfile"
	"gated/internal/policy"
	"gated/internal/reserve"
	"gated/internal/state"
	"gated/internal/store"
)

// MaybeExecGuest takes over the process if it was started to become a guest's, or
// to watch a command; a program that serves calls it first.
func MaybeExecGuest() {
	local.MaybeExecGuest()
	command.MaybeWatch()
}

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
	}
	for i := range all {
		all[i].Version = i + 1
	}
	return all
}

// opened is a state directory whose identity was checked.
type opened struct {
	dir   *state.Dir
	store *store.Store
	id    state.Identity
	room  *headroom.Room // nil if it was only looked at
}

// open locks and checks a state directory for a daemon.
func open(ctx context.Context, path string, log *slog.Logger) (*opened, error) {
	dir, err := state.Open(path, state.Options{Waiting: func(pid int) {
		log.Warn("waiting for a process that ends to give the state directory back", "pid", pid)
	}})
	if err != nil {
		return nil, err
	}
	o := &opened{dir: dir}
	if o.room, err = headroom.Open(dir.Path(), filepath.Join(dir.Path(), reserveName), headroom.Options{}); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	o.room.Make(false) // a start on a full disk has to write, too
	if o.id, err = identity(ctx, dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if err := dropCopies(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if o.store, err = store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations(), Logger: log}); err != nil {
		return nil, errors.Join(cannotOpen(ctx, dir.Database(), err), dir.Close())
	}
	return o, nil
}

// dropCopies removes the copies of the database that a backup or a restore had
// not finished when the program was killed.
func dropCopies(dir *state.Dir) error {
	for _, pattern := range []string{backupPrefix + "*", dbName + restoringExt + "*"} {
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
func identity(ctx context.Context, dir *state.Dir) (state.Identity, error) {
	s, err := store.OpenReadOnly(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return state.Identity{}, cannotOpen(ctx, dir.Database(), err)
	}
	id, err := dir.Check(ctx, s)
	return id, errors.Join(err, s.Close())
}

// look opens a state directory to read, beside a running daemon.
func look(ctx context.Context, path string) (*opened, error) {
	dir, err := state.Look(path, state.Options{})
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return nil, errors.Join(cannotOpen(ctx, dir.Database(), err), dir.Close())
	}
	o := &opened{dir: dir, store: s}
	if err := current(ctx, s); err != nil {
		return nil, errors.Join(err, o.close())
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
		err = op.Refuse(op.Unavailable, "the database %s has schema %d, and this gated reads %d", s.Path(), have, want).
			WithHint("gated serve brings it up to date when it starts")
	}
	return err
}

func (o *opened) close() error { return errors.Join(o.store.Close(), o.dir.Close()) }

// settings reads gated.yaml. NotAllowed: others could have written it.
func settings(dir string) (config.Config, error) { return settingsOf(ownfile.Own(), dir) }

// settingsOf is settings of a directory that another uid may have.
func settingsOf(own ownfile.StrictModes, dir string) (config.Config, error) {
	path := filepath.Join(dir, configName)
	text, err := own.Read(path, maxSettings)
	if errors.Is(err, op.NotAllowed) {
		return config.Config{}, err
	}
	if err != nil {
		return config.Config{}, op.Refuse(op.Unavailable, "the configuration cannot be read: %v", err)
	}
	return config.Parse(path, text)
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
	c.Store, c.Host, c.ID, c.Policy = o.store, o.id.Host, o.id.Gate, p
	return gate.New(c)
}

// now is the wall clock for deadlines and logs; decisions use the gate's own.
func now() time.Time { return time.Now() }
