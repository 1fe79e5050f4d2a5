// Package notify follows a gate's events and tells people: what waits and who can sign it, how it ended, and what is
// wrong. It reads what any user who may connect can read. It holds no key and decides nothing.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
)

// Gate is what notify asks of a gate. *client.Client implements it.
type Gate interface {
	Status(ctx context.Context) (api.Status, error)
	AuditHead(ctx context.Context) (api.Head, error)
	Consistency(ctx context.Context, old, size int64) (api.Consistency, error)
	Requests(ctx context.Context, state api.State) ([]api.Request, error)
	Request(ctx context.Context, id string) (api.Request, error)
	Job(ctx context.Context, id string) (api.Job, error)
	Events(ctx context.Context, after int64, follow bool, fn func(api.Entry) error) error
	Address() client.Address
}

// Options are what New needs.
type Options struct {
	Settings settings.Settings
	Dir      string // the state directory
	Gate     Gate
	Logger   *slog.Logger
	Now      func() time.Time
	Rand     func() float64 // in [0, 1), for the pauses between tries; nil: math/rand
	Sinks    map[string]sink.Sink
	Outbox   *outbox.Outbox
}

// Notifier is a running gated notify.
type Notifier struct {
	is      settings.Settings
	gate    Gate
	box     *outbox.Outbox
	log     *slog.Logger
	now     func() time.Time
	rand    func() float64
	sinks   map[string]sink.Sink
	targets map[string]bool
	witness witness.Dir

	wake  map[string]chan struct{} // of each sink: there may be something to send
	again chan struct{}            // the stream has to begin anew

	mu      sync.Mutex
	at      outbox.Cursor // handled, maybe not on disk yet
	kept    outbox.Cursor // on disk
	stuck   time.Time     // since when the stream breaks without a further entry; zero: it does not
	broke   time.Time     // when it last broke
	host    string
	heard   time.Time // when the daemon last answered
	well    map[string]time.Time
	paused  map[string]time.Time // of each sink: no try before
	failing map[string]int       // of each sink: tries in a row that did not reach it
}

// New returns a notifier. It connects to nothing yet.
func New(o Options) *Notifier {
	n := &Notifier{is: o.Settings, gate: o.Gate, box: o.Outbox, log: o.Logger, now: o.Now, rand: o.Rand, sinks: o.Sinks,
		targets: o.Settings.Targets(), witness: witness.Dir{Path: filepath.Join(o.Dir, "witness"), Now: o.Now},
		wake: map[string]chan struct{}{}, again: make(chan struct{}, 1), well: map[string]time.Time{},
		paused: map[string]time.Time{}, failing: map[string]int{}, heard: o.Now()}
	if n.rand == nil {
		n.rand = rand.Float64
	}
	for _, s := range o.Settings.Sinks {
		n.wake[s.Name] = make(chan struct{}, 1)
	}
	return n
}

// OpenSinks opens every sink of the settings.
func OpenSinks(s settings.Settings) (map[string]sink.Sink, error) {
	out := map[string]sink.Sink{}
	for _, one := range s.Sinks {
		opened, err := sink.Open(one)
		if err != nil {
			return nil, err
		}
		out[one.Name] = opened
	}
	return out, nil
}

// DatabaseIn returns the path of the outbox in a state directory.
func DatabaseIn(dir string) string { return filepath.Join(dir, "outbox.db") }

// Lock makes the state directory, and takes it for this process. It is Conflict if another process has it.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	made, err := ownfile.Own().MakeDir(dir, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(made.Close(), modes(dir)); err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	unlock, err = ownfile.File{Path: filepath.Join(dir, "run")}.Lock(limit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, refusal.New(refusal.Conflict, "another gated notify runs with the state %s", op.Shown(dir)).
			WithHint("end it first: systemctl stop gated-notify")
	}
	return unlock, err
}

// The pauses of the loops.
const (
	tickEvery  = 5 * time.Second
	watchEvery = 30 * time.Second
	pruneEvery = time.Hour
	lostPause  = 3 * time.Second
	sayEvery   = time.Minute // a daemon that is away is logged so often
)

// Run follows the gate and sends messages until ctx ends. What was not sent by then is in the outbox.
func (n *Notifier) Run(ctx context.Context) error {
	if err := n.load(ctx); err != nil {
		return err
	}
	names := make([]string, 0, len(n.sinks))
	for name := range n.sinks {
		names = append(names, name)
	}
	if err := n.box.Forget(ctx, names, n.now()); err != nil {
		return err
	}
	var all sync.WaitGroup
	for name := range n.sinks {
		all.Go(func() { n.deliver(ctx, name) })
	}
	all.Go(func() { n.ticks(ctx) })
	var said time.Time
	for ctx.Err() == nil {
		if err := n.Follow(ctx); err != nil && ctx.Err() == nil {
			if n.now().Sub(said) > sayEvery {
				said = n.now()
				n.log.Warn("the gate's events", "error", err)
			}
			n.note("the outbox", n.Broken(ctx, err))
			rest(ctx, lostPause)
		}
	}
	all.Wait()
	return n.flush(context.WithoutCancel(ctx))
}

// load reads where the last run ended.
func (n *Notifier) load(ctx context.Context) error {
	c, _, err := n.box.Cursor(ctx)
	n.mu.Lock()
	n.at, n.kept = c, c
	n.mu.Unlock()
	return err
}

// ticks does what time brings.
func (n *Notifier) ticks(ctx context.Context) {
	var watched, pruned time.Time
	for {
		now := n.now()
		n.note("what time brings", n.Tick(ctx))
		if now.Sub(watched) >= watchEvery {
			watched = now
			n.note("the gate's health", n.Watch(ctx))
		}
		if now.Sub(pruned) >= pruneEvery {
			pruned = now
			n.note("old messages", n.box.Prune(ctx, now))
		}
		n.note("the cursor", n.flush(ctx))
		n.wakeAll()
		if !rest(ctx, tickEvery) {
			return
		}
	}
}

// note logs what went wrong in the background.
func (n *Notifier) note(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		n.log.Warn(what, "error", err)
	}
}

// flush writes the cursor.
func (n *Notifier) flush(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == n.kept {
		return nil
	}
	if err := n.box.Handled(ctx, n.at, n.now(), ""); err != nil {
		return err
	}
	n.kept = n.at
	return nil
}

func (n *Notifier) wakeAll() {
	for name := range n.wake {
		n.wakeUp(name)
	}
}

func (n *Notifier) wakeUp(name string) {
	select {
	case n.wake[name] <- struct{}{}:
	default:
	}
}

// rest waits, and returns false if ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// gateLog asks a gate about its log.
type gateLog struct{ gate Gate }

// Head implements witness.Log.
func (g gateLog) Head(ctx context.Context) (witness.Shown, error) {
	h, err := g.gate.AuditHead(ctx)
	return witness.Shown{Seq: h.Seq, Note: h.Note, Key: h.Key}, err
}

// Consistency implements witness.Log.
func (g gateLog) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	c, err := g.gate.Consistency(ctx, old, size)
	return c.Proof, err
}

// modes refuses a state directory that others can read, because it has what requesters wrote.
func modes(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return refusal.New(refusal.NotAllowed, "%s has mode %04o: others can read what is sent", op.Shown(dir), info.Mode().Perm()).
			WithHint("chmod 700 %s", op.Shown(dir))
	}
	return err
}
