package matrix_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/driver/scope"
	"gated/internal/driver/trust"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// commands are all that guests of the matrix can run.
var commands = map[string]local.Command{
	"idle": {Argv: []string{"/bin/sleep", "1000"}},
	"deaf": {Argv: []string{"/bin/sh", "-c", "trap '' TERM; echo up > up; while :; do sleep 1000; done"},
		Env: map[string]string{"PATH": "/usr/bin:/bin"}},
}

// host is what the daemon puts together: a locked state directory, its store, a
// gate, the local driver, and the signers as a target.
type host struct {
	state   *state.Dir
	store   *store.Store
	gate    *gate.Gate
	driver  *local.Driver
	signers *trust.Driver
	book    *reserve.Book
	scopes  *scope.Driver
	looked  func(op.Target)
	back    driver.Driver // of guests, instead of the local driver; nil: that one

	commands driver.Driver // of the catalogue; nil: there is none
}

type hostConfig struct {
	dir, root string
	trust     string // is adopted where the newest version is another
	revoked   *authz.Revoked
	rules     policy.Policy
	read      func() nonce.Reading
	wake      func(op.Target)
	rotated   func(context.Context)
	looked    func(op.Target) // is called before each look of the gate's
	log       *slog.Logger
	grace     time.Duration  // of a stop
	key       checkpoint.Key // of the gate id, for the heads of the log; the zero one: unsigned
	uids      local.UIDRange // of guests; the zero one: they have none of their own
	quotas    gate.Quotas
	room      gate.Room
}

// emptyDatabase is a database with its schema and nothing in it: to make one
// takes longer than most rows do.
var emptyDatabase = sync.OnceValues(func() ([]byte, error) {
	path := filepath.Join(scratchDir, "empty.db")
	//fsck:none each row ends with fsck
	s, err := store.Open(context.Background(), path, store.Options{Migrations: life.Migrations(), Rehearse: true})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// initHost makes a new gate's state and opens it.
func initHost(ctx context.Context, c hostConfig) (*host, error) {
	dir, err := state.Init(c.dir, state.Options{})
	if err != nil {
		return nil, err
	}
	h := &host{state: dir}
	empty, err := emptyDatabase()
	if err == nil {
		err = os.WriteFile(dir.Database(), empty, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	//fsck:none each row ends with fsck
	if h.store, err = store.Open(ctx, dir.Database(), store.Options{Migrations: life.Migrations(), Rehearse: true}); err == nil {
		err = dir.Bind(ctx, h.store, state.Identity{Gate: state.NewGateID(), Host: testHost})
	}
	return h.assemble(ctx, c, err)
}

// openHost does what the daemon does at its start.
func openHost(ctx context.Context, c hostConfig) (*host, error) {
	dir, err := state.Open(c.dir, state.Options{})
	if err != nil {
		return nil, err
	}
	h := &host{state: dir}
	//fsck:none each row ends with fsck
	h.store, err = store.Open(ctx, dir.Database(), store.Options{Migrations: life.Migrations(), Rehearse: true})
	return h.assemble(ctx, c, err)
}

func (h *host) assemble(ctx context.Context, c hostConfig, err error) (*host, error) {
	if err == nil {
		err = h.fill(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *host) fill(ctx context.Context, c hostConfig) error {
	id, err := h.state.Check(ctx, h.store)
	if err != nil {
		return err
	}
	var clock *nonce.Clock
	var v journal.TrustVersion
	if err := h.store.View(ctx, func(tx *store.Tx) error {
		var clockErr, trustErr error
		clock, clockErr = nonce.LoadClock(tx, c.read)
		v, trustErr = journal.ReadTrust(tx)
		return errors.Join(clockErr, trustErr)
	}); err != nil {
		return err
	}
	adopt := string(v.Text) != c.trust
	if adopt {
		v = journal.TrustVersion{Epoch: v.Epoch + 1, Text: []byte(c.trust), How: "adopted", At: c.read().Wall}
	}
	signers, err := authz.LoadTrust(v.Text)
	if err != nil {
		return err
	}
	h.driver, err = local.New(local.Config{Root: c.root, StopGrace: c.grace, Commands: commands, SingleUser: true, GuestUIDs: c.uids,
		Now: func() time.Time { return c.read().Wall }, Logger: c.log,
		Wanted: func(ctx context.Context, name string, inc op.Incarnation) (bool, error) {
			return h.gate.Wanted(ctx, guest(name), inc)
		}})
	if err != nil {
		return err
	}
	g := gate.Config{Store: h.store, Observer: h, Clock: clock, Host: id.Host, ID: id.Gate,
		Trust: signers.WithRevoked(c.revoked), Epoch: v.Epoch, Policy: c.rules, UID: daemonUID, Logger: c.log, Wake: c.wake, Quotas: c.quotas, Room: c.room}
	if c.key.Of(id.Gate) {
		g.Key = c.key.Signer
	}
	h.gate, err = gate.New(g)
	if err == nil && adopt {
		err = h.adopt(ctx, v, signers)
	}
	if c.rotated == nil {
		c.rotated = func(context.Context) {}
	}
	h.looked = c.looked
	h.signers = trust.New(h.gate, v.How, c.rotated)
	h.fillBook(c.wake)
	h.scopes = scope.New(h.book, "")
	return err
}

// adopt records a trust file that root took over, as gated trust adopt does.
func (h *host) adopt(ctx context.Context, v journal.TrustVersion, t *authz.Trust) error {
	e := gate.RotatedEntry("uid:0", authz.Rotation{Trust: t, Added: t.Signers()}, v)
	e.Gate, e.Time, e.Target = h.gate.ID(), v.At, op.Signers.String()
	return h.store.Update(ctx, func(tx *store.Tx) error {
		_, err := audit.Append(tx, e)
		return errors.Join(journal.AddTrust(tx, v), err)
	})
}

// of returns the driver for targets of a kind.
func (h *host) of(kind string) driver.Driver {
	switch kind {
	case op.KindTrust:
		return h.signers
	case op.KindScope:
		return h.scopes
	case op.KindCommand:
		return h.commands
	}
	if h.back != nil {
		return h.back
	}
	return h.driver
}

// Observe looks at a target through the driver of its kind.
func (h *host) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if h.looked != nil {
		h.looked(t)
	}
	return h.of(t.Kind).Observe(ctx, l)
}

// Prepare prepares a step through the driver of its target's kind.
func (h *host) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	return h.of(step.Target.Kind).Prepare(ctx, step, cleanup)
}

func (h *host) close() error {
	var errs []error
	if h.driver != nil {
		errs = append(errs, h.driver.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	return errors.Join(append(errs, h.state.Close())...)
}
