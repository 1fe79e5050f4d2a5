package matrix_test

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gated/internal/authz"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/policy"
	"gated/internal/state"
	"gated/internal/store"
)

// commands are all that guests of the matrix can run.
var commands = map[string]local.Command{
	"idle": {Argv: []string{"/bin/sleep", "1000"}},
	"deaf": {Argv: []string{"/bin/sh", "-c", "trap '' TERM; echo up > up; while :; do sleep 1000; done"},
		Env: map[string]string{"PATH": "/usr/bin:/bin"}},
}

// host is what the daemon puts together: a locked state directory, its store, a
// gate and the local driver.
type host struct {
	state  *state.Dir
	store  *store.Store
	gate   *gate.Gate
	driver *local.Driver
}

type hostConfig struct {
	dir, root, trust string
	rules            policy.Policy
	read             func() nonce.Reading
	wake             func(op.Target)
	log              *slog.Logger
	grace            time.Duration // of a stop
}

func migrations() []store.Migration {
	all := gate.Migrations()
	return append(all, store.Migration{Version: len(all) + 1, Name: "identity", SQL: state.Schema})
}

// initHost makes a new gate's state and opens it.
func initHost(ctx context.Context, c hostConfig) (host, error) {
	dir, err := state.Init(c.dir, state.Options{})
	if err != nil {
		return host{}, err
	}
	h := host{state: dir}
	if h.store, err = store.Open(ctx, dir.Database(), store.Options{Migrations: migrations()}); err == nil {
		err = dir.Bind(ctx, h.store, state.Identity{Gate: state.NewGateID(), Host: testHost})
	}
	return h.assemble(ctx, c, err)
}

// openHost does what the daemon does at its start.
func openHost(ctx context.Context, c hostConfig) (host, error) {
	dir, err := state.Open(c.dir, state.Options{})
	if err != nil {
		return host{}, err
	}
	h := host{state: dir}
	h.store, err = store.Open(ctx, dir.Database(), store.Options{Migrations: migrations()})
	return h.assemble(ctx, c, err)
}

func (h host) assemble(ctx context.Context, c hostConfig, err error) (host, error) {
	if err == nil {
		err = h.fill(ctx, c)
	}
	if err != nil {
		return host{}, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *host) fill(ctx context.Context, c hostConfig) error {
	id, err := h.state.Check(ctx, h.store)
	if err != nil {
		return err
	}
	trust, err := authz.LoadTrust([]byte(c.trust))
	if err != nil {
		return err
	}
	var clock *nonce.Clock
	if viewErr := h.store.View(ctx, func(tx *store.Tx) error {
		clock, err = nonce.LoadClock(tx, c.read)
		return err
	}); viewErr != nil {
		return viewErr
	}
	h.driver, err = local.New(local.Config{Root: c.root, StopGrace: c.grace, Commands: commands, SingleUser: true,
		Now: func() time.Time { return c.read().Wall }, Logger: c.log})
	if err != nil {
		return err
	}
	h.gate, err = gate.New(gate.Config{Store: h.store, Observer: h.driver, Clock: clock, Host: id.Host, ID: id.Gate, Trust: trust,
		Policy: c.rules, UID: daemonUID, Logger: c.log, Wake: c.wake})
	return err
}

func (h host) close() error {
	var errs []error
	if h.driver != nil {
		errs = append(errs, h.driver.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	return errors.Join(append(errs, h.state.Close())...)
}
