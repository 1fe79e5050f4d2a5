package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/memory"
	"gated/internal/gate"
	"gated/internal/host/server"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/reconcile"
)

// workers is how many targets reconcile works on side by side: more than by default,
// because the driver here does nothing and steps then share commits.
const workers = 32

// now is the wall clock.
func now() time.Time { return time.Now() }

// world is a gate as the daemon puts it together, over guests in memory.
type world struct {
	store   *store.Store
	gate    *gate.Gate
	driver  *memory.Driver
	steps   *reconcile.Reconciler // nil if nothing runs
	started time.Time
}

// worldOptions are the parts of a world.
type worldOptions struct {
	dir     string // with allowed_signers; the database is made in it, as init makes it
	guests  []op.Params
	sources []reconcile.Source
	after   func(time.Duration, func()) (stop func()) // of reconcile; nil for the real one
	run     bool                                      // reconcile runs what may run
	people  int                                       // how many have to sign a destroy; 0 for the built-in rule
}

// guestName is the name of the i-th guest.
func guestName(i int) string { return fmt.Sprintf("g%d", i) }

// populate makes guests. Two drivers that are given the same have the same
// incarnations and fingerprints.
func populate(guests []op.Params) *memory.Driver {
	d := memory.New(now)
	for i, p := range guests {
		d.Put(guestName(i), p)
	}
	return d
}

// alike is n guests that are all the same.
func alike(n int) []op.Params {
	out := make([]op.Params, n)
	for i := range out {
		out[i] = op.Params{"memory": int64(512), "cpus": int64(2), "labels": map[string]any{"tier": "prod"}}
	}
	return out
}

func newWorld(ctx context.Context, o worldOptions) (*world, error) {
	w := &world{driver: populate(o.guests), started: now()}
	lines, err := os.ReadFile(filepath.Join(o.dir, "allowed_signers"))
	if err != nil {
		return nil, err
	}
	trust, err := authz.LoadTrust(lines)
	if err != nil {
		return nil, err
	}
	// The log is not needed: an error shows in the answers and in the database.
	log := slog.New(slog.DiscardHandler)
	w.store, err = store.Open(ctx, databaseIn(o.dir), store.Options{Migrations: gate.Migrations(), Logger: log})
	if err != nil {
		return nil, err
	}
	key, err := checkpoint.NewKey(gateID)
	if err != nil {
		return nil, err
	}
	first := journal.TrustVersion{Epoch: 1, Text: lines, How: "init", At: now()}
	c := gate.Config{Store: w.store, Observer: w.driver, Host: host, ID: gateID, Trust: trust, Epoch: first.Epoch,
		Policy: policy.Default(), Key: key.Signer, Logger: log, Wake: w.wake}
	if o.people > 0 {
		c.Policy.Rules = []policy.Rule{{Where: "bench", Op: "guest.destroy", Threshold: o.people}}
	}
	err = w.store.View(ctx, func(tx *store.Tx) (err error) {
		c.Clock, err = nonce.LoadClock(tx, nonce.System)
		return err
	})
	if err != nil {
		return nil, err
	}
	if w.gate, err = gate.New(c); err != nil {
		return nil, err
	}
	err = w.store.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(audit.SetPublicKey(tx, gateID, key.Public),
			w.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: key.Public}}),
			journal.AddTrust(tx, first), recorded(tx, trust, first))
	})
	if err != nil {
		return nil, err
	}
	if o.run {
		w.steps = reconcile.New(reconcile.Config{Gate: w.gate, Drivers: map[string]driver.Driver{"guest": w.driver},
			Sources: o.sources, Host: host, Workers: workers, After: o.after, Interval: roundInterval, Now: now, Logger: log})
	}
	return w, nil
}

// recorded writes the audit entry of the first signers.
func recorded(tx *store.Tx, trust *authz.Trust, v journal.TrustVersion) error {
	e := gate.RotatedEntry("gate", authz.Rotation{Trust: trust, Added: trust.Signers()}, v)
	e.Gate, e.Time = gateID, v.At
	_, err := audit.Append(tx, e)
	return err
}

func databaseIn(dir string) string { return filepath.Join(dir, "gated.db") }

func socketIn(dir string) string { return filepath.Join(dir, "s") }

func (w *world) wake(t op.Target) {
	if w.steps != nil {
		w.steps.Wake(t)
	}
}

// Served is a gate to be measured.
type Served struct {
	Dir       string // with allowed_signers; the database and the socket are made in it
	Guests    int
	Run       bool   // else it only decides: nothing that it decided is executed
	Threshold int    // how many people sign a destroy; 0 for the built-in rule
	Profile   string // where a CPU profile of it all is written, if it is not empty
}

// Serve serves a gate over guests in memory on a socket until ctx ends.
func Serve(ctx context.Context, o Served) error {
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	w, err := newWorld(ctx, worldOptions{dir: o.Dir, guests: alike(o.Guests), run: o.Run, people: o.Threshold})
	if err != nil {
		return err
	}
	defer w.store.Close()
	l, err := server.Listen(socketIn(o.Dir), -1)
	if err != nil {
		return err
	}
	defer l.Close()
	ran := make(chan error, 1)
	if o.Run {
		go func() { ran <- w.steps.Run(ctx) }()
	} else {
		ran <- nil
	}
	// The server has only the parts that the measured calls need.
	s := server.New(server.Config{Gate: w.gate, Status: w.Status, Refused: w.gate.NoteRefused,
		UID: uint32(os.Geteuid()), SingleUser: true, Now: now, Logger: slog.New(slog.DiscardHandler)})
	err = s.Serve(ctx, l)
	if runErr := <-ran; err == nil {
		err = runErr
	}
	return err
}

// Status is a call that decides nothing.
func (w *world) Status(context.Context) (api.Status, error) {
	return api.Status{Host: host, Gate: gateID, StartedAt: w.started}, nil
}
