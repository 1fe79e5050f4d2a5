package notify_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/notify"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
	"gated/internal/test/must"
)

const (
	gateA = "0123456789abcdef0123456789abcdef"
	gateB = "fedcba9876543210fedcba9876543210"
)

// gate is a gate that a test writes the log of.
type gate struct {
	mu       sync.Mutex
	id       string
	log      [][]byte
	requests map[string]api.Request
	health   []api.Health
	away     bool
	down     error // of each call: of a daemon that cannot start
	odd      error // of each request
	note     string
	key      string
	stays    bool // the stream stays open at its end
}

func (g *gate) Status(context.Context) (api.Status, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return api.Status{}, &client.Unreachable{}
	}
	if g.down != nil {
		return api.Status{}, g.down
	}
	return api.Status{Host: "pve1", Gate: api.GateID(g.id), Health: g.health}, nil
}

func (g *gate) AuditHead(context.Context) (api.Head, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return api.Head{}, &client.Unreachable{}
	}
	h := api.Head{Seq: int64(len(g.log)), Note: g.note, Key: g.key}
	if len(g.log) > 0 {
		sum := sha256.Sum256(g.log[len(g.log)-1])
		h.Hash = hex.EncodeToString(sum[:])
	}
	return h, nil
}

func (g *gate) Consistency(context.Context, int64, int64) (api.Consistency, error) {
	return api.Consistency{}, errors.New("no proof")
}

func (g *gate) Requests(_ context.Context, state api.State) (out []api.Request, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range 2000 {
		if r, ok := g.requests[fmt.Sprintf("j%d.1", i)]; ok && r.State == state {
			out = append(out, r)
		}
	}
	return out, nil
}

func (g *gate) Request(_ context.Context, id string) (api.Request, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return api.Request{}, &client.Unreachable{}
	}
	if g.odd != nil {
		return api.Request{}, g.odd
	}
	r, ok := g.requests[id]
	if !ok {
		return r, &api.Refusal{Code: api.CodeUnknownTarget}
	}
	return r, nil
}

func (g *gate) Job(_ context.Context, id string) (api.Job, error) {
	return api.Job{ID: id, Steps: []api.Step{{ID: id + ".1", Output: "what it printed"}}}, nil
}

func (g *gate) Address() client.Address { return "unix:/s" }

// Events gives the entries after a number. It does not follow: tests call Follow again.
func (g *gate) Events(ctx context.Context, after int64, _ bool, fn func(api.Entry) error) error {
	g.mu.Lock()
	log := g.log
	g.mu.Unlock()
	for i := int(after); i < len(log); i++ {
		if err := fn(must.Get(api.ParseEntry(log[i]))(failNow{})); err != nil {
			return err
		}
	}
	if g.stays {
		<-ctx.Done()
	}
	return ctx.Err()
}

type failNow struct{}

func (failNow) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (failNow) FailNow()                          { panic("failed") }

// add appends an entry; more are further members, each with a comma before it.
func (g *gate) add(kind, step string, more ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	prev := ""
	if len(g.log) > 0 {
		sum := sha256.Sum256(g.log[len(g.log)-1])
		prev = hex.EncodeToString(sum[:])
	}
	job, _, _ := strings.Cut(step, ".")
	g.log = append(g.log, fmt.Appendf(nil, `{"seq":%d,"v":2,"time":"2026-03-01T12:00:00Z","kind":%q,"by":"uid:1000","job":%q,"step":%q,"class":"destructive"%s,"gate":%q,"prev":%q}`,
		len(g.log)+1, kind, job, step, strings.Join(more, ""), g.id, prev))
}

// ask adds a request that waits for alice.
func (g *gate) ask(n int) string {
	id := fmt.Sprintf("j%d.1", n)
	g.set(api.Request{ID: id, Job: fmt.Sprintf("j%d", n), Op: "guest.destroy", Target: fmt.Sprintf("guest/g%d", n), Host: "pve1", State: api.StatePending,
		RequestedBy: []string{"uid:1000", "agent:builder#7"}, Reason: "because", Missing: 1, Needed: 1,
		Demands: []api.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1, Could: []string{"alice@example.com"}}}})
	g.add("requested", id)
	return id
}

func (g *gate) set(r api.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Gate = api.GateID(g.id)
	g.requests[r.ID] = r
}

// end ends a request.
func (g *gate) end(id, kind string, state api.State, more ...string) {
	r := g.requests[id]
	r.State = state
	g.set(r)
	g.add(kind, id, more...)
}

// receiver is a sink that remembers, and fails as a test says.
type receiver struct {
	mu    sync.Mutex
	got   []message.Message
	tries int
	fail  func(message.Message) error
}

func (r *receiver) Send(_ context.Context, m message.Message, _ time.Time) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if r.fail != nil {
		if err := r.fail(m); err != nil {
			return "", err
		}
	}
	r.got = append(r.got, m)
	return "ok", nil
}

// kinds are what it got, as kind and request.
func (r *receiver) kinds() []string {
	out := []string{}
	for _, m := range r.got {
		s := string(m.Kind)
		if m.Request != nil {
			s += " " + m.Request.ID
		}
		out = append(out, s)
	}
	return out
}

// world is a notifier with a clock that a test moves.
type world struct {
	t     *testing.T
	gate  *gate
	now   time.Time
	sinks map[string]*receiver
	is    settings.Settings
	dir   string
	box   *outbox.Outbox
	n     *notify.Notifier
}

func newWorld(t *testing.T, text string) *world {
	w := &world{t: t, gate: &gate{id: gateA, requests: map[string]api.Request{}}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		sinks: map[string]*receiver{}, dir: t.TempDir()}
	w.is = must.Get(settings.Parse("notify.yaml", []byte(text), func(string, bool) ([]byte, error) { return []byte("x"), nil }))(t)
	for _, s := range w.is.Sinks {
		w.sinks[s.Name] = &receiver{}
	}
	w.open()
	t.Cleanup(func() { require.NoError(t, w.box.Close()) })
	return w
}

func (w *world) open() {
	w.box = must.Get(outbox.Open(w.t.Context(), filepath.Join(w.dir, "outbox.db"), nil))(w.t)
	sinks := map[string]sink.Sink{}
	for name, r := range w.sinks {
		sinks[name] = r
	}
	w.n = notify.New(notify.Options{Settings: w.is, Dir: w.dir, Gate: w.gate, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
		Rand: func() float64 { return 0.5 }, Sinks: sinks, Outbox: w.box})
	require.NoError(w.t, notify.Load(w.n, w.t.Context()))
}

// restart is a new process over the same directory. What was only in memory is gone.
func (w *world) restart() {
	require.NoError(w.t, w.box.Close())
	w.open()
}

// step reads what the gate has, and sends what is due.
func (w *world) step() {
	w.t.Helper()
	require.NoError(w.t, w.n.Follow(w.t.Context()))
	w.deliver()
}

func (w *world) deliver() {
	w.t.Helper()
	for before := -1; before != w.taken(); {
		before = w.taken() // what a sink takes may make a message for another one
		for name := range w.sinks {
			for {
				next := must.Get(w.n.Try(w.t.Context(), name))(w.t)
				if next.IsZero() || next.After(w.now) {
					break
				}
			}
		}
	}
}

// taken counts what all sinks have taken.
func (w *world) taken() (n int) {
	for _, s := range w.sinks {
		n += len(s.got)
	}
	return n
}

// pass lets time go by: every ten seconds, or every five minutes of a long time, it does what the loops do.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	step := 10 * time.Second
	if d > 2*time.Hour {
		step = 5 * time.Minute
	}
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(step)
		require.NoError(w.t, w.n.Tick(w.t.Context()))
		w.deliver()
	}
}

func (w *world) report(name string) outbox.Report {
	return must.Get(w.box.Report(w.t.Context(), []string{name}))(w.t)[0]
}

var _ notify.Gate = (*client.Client)(nil)
