// Package servicetest makes what stands behind a server, for tests: a gate over guests in memory, and each service.
package servicetest

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver/command/catalogue"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/host/service"
	"gated/internal/log/audit"
	"gated/internal/log/canary"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// Host is the name of the worlds' host, and GateID the id of their gates.
const (
	Host   = "h"
	GateID = op.GateID("0123456789abcdef0123456789abcdef")
)

// noon is when guests in memory are made.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// World is a gate and every service of it. No step runs, because no reconciler does.
type World struct {
	Gate         *gate.Gate
	Store        *store.Store
	Guests       *Guests // the driver
	Shown        service.Guests
	Desired      *service.Desired
	Commands     *service.Commands
	Log          *service.Log
	Waits        *service.Waits
	Canary       *canary.Canary
	Agents       *service.Agents
	Reservations *service.Reservations
	Backup       func(context.Context, io.Writer) error
	// BackupVerified is the service's Verified.
	BackupVerified func(ctx context.Context, sha256 string) error

	dir string
}

func databaseIn(dir string) string { return filepath.Join(dir, "gated.db") }

// open writes a database and makes the services over it.
func open(t testing.TB, dir string, database []byte) *World {
	t.Helper()
	require.NoError(t, os.WriteFile(databaseIn(dir), database, 0o600))
	//fsck:none New has fsck check it
	s, err := store.Open(context.Background(), databaseIn(dir), store.Options{Migrations: life.Migrations(), Rehearse: true})
	require.NoError(t, err)
	w := &World{Store: s, Guests: NewGuests(), dir: dir}
	for _, name := range []string{"web-1", "db", "old", "spare"} {
		w.Guests.Put(name, op.Params{})
	}
	log := slog.New(slog.DiscardHandler)
	trust, err := authz.LoadTrust(Signers(t))
	require.NoError(t, err)
	c := gate.Config{Store: s, Observer: w, Host: Host, ID: GateID, Trust: trust, Epoch: 1, Policy: policy.Default(),
		UID: uint32(os.Getuid()), Key: logKey(t).Signer, Logger: log}
	c.Policy.Commands = []string{"drop-db"}
	require.NoError(t, s.View(context.Background(), func(tx *store.Tx) error {
		c.Clock, err = nonce.LoadClock(tx, nonce.System)
		return err
	}))
	w.Gate, err = gate.New(c)
	require.NoError(t, err)
	w.Log = service.NewLog(w.Gate, s, nil)
	w.Waits = service.NewWaits(w.Gate)
	w.Shown = service.NewGuests(w.Gate, w.Guests)
	w.Desired = service.NewDesired(w.Gate, w.Guests, service.Elsewhere{}, func() {})
	w.Commands = service.NewCommands(map[string]catalogue.Entry{"drop-db": {Argv: []string{"/usr/bin/dropdb"}}}, w)
	w.Canary = canary.New(canary.Config{Store: s, Append: w.Gate.Append,
		Rules: canary.Rules{Decisions: 20, Days: 7, Minimum: 2, Floor: 2},
		Back:  func(canary.Identity, canary.Identity) string { return "" },
		Now:   func() (time.Time, bool) { m := w.Gate.Moment(); return m.Now, m.Trusted }})
	w.Agents, err = service.NewAgents(w.Gate, s, service.Members{}, func(op.Target) {}, log)
	require.NoError(t, err)
	require.NoError(t, w.Agents.Restore(context.Background()))
	w.Reservations = service.NewReservations(w.Agents.Book, w.Gate, service.Members{}, true)
	backups := service.NewBackup(w.Gate, s, dir, log)
	w.Backup, w.BackupVerified = backups.Backup, backups.Verified
	return w
}

// Close ends what the world holds. It may be called twice.
func (w *World) Close(t testing.TB) {
	t.Helper()
	w.Agents.Close()
	require.NoError(t, w.Store.Close())
}

// Observe looks at guests and commands.
func (w *World) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if l.Target.Kind == op.KindCommand {
		return op.Observed{Target: l.Target, Present: true, Incarnation: "c1", Fingerprint: op.FingerprintOf(nil),
			Ops: []string{op.Run}}, nil
	}
	return w.Guests.Observe(ctx, l)
}

// Operator is the key of alice, who is the one operator.
func Operator(t testing.TB) mint.Key { return mint.Ed25519(t, "alice") }

// Signers is the file of signers.
func Signers(t testing.TB) []byte {
	return []byte(Operator(t).Line("alice", `namespaces="`+op.Operational.Namespace()+`"`) + "\n")
}

var newKey = sync.OnceValues(func() (checkpoint.Key, error) { return checkpoint.NewKey(GateID) })

// logKey is the key that signs heads of the log.
func logKey(t testing.TB) checkpoint.Key {
	t.Helper()
	key, err := newKey()
	require.NoError(t, err)
	return key
}

// first writes what a gate's log begins with.
func (w *World) first(t testing.TB) {
	t.Helper()
	trust, err := authz.LoadTrust(Signers(t))
	require.NoError(t, err)
	v := journal.TrustVersion{Epoch: 1, Text: Signers(t), How: "init", At: w.Gate.Moment().Now}
	rotated := gate.RotatedEntry("gate", authz.Rotation{Trust: trust, Added: trust.Signers()}, v)
	require.NoError(t, w.Store.Update(context.Background(), func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, GateID, logKey(t).Public); err != nil {
			return err
		}
		if err := journal.AddTrust(tx, v); err != nil {
			return err
		}
		return w.Gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: logKey(t).Public}}, rotated)
	}))
}
