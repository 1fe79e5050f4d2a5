package hub_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/memory"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/hub"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/reconcile"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const testHost = "pve1"

var noon = gateworld.Noon

// patience bounds every wait. It is never waited for where things work.
const patience = 30 * time.Second

// place is a hub that answers what a test says, and keeps what it was sent.
type place struct {
	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by the document's name
	asked   map[string]int
	reports []hub.Report
	headers []http.Header // of what was asked, in order
}

func newPlace() *place {
	p := &place{answers: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	p.on(hub.PathReport, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return p
}

// on sets how one document is answered.
func (p *place) on(document string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[document] = h
}

func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	document := filepath.Base(r.URL.Path)
	p.mu.Lock()
	p.asked[document]++
	p.headers = append(p.headers, r.Header.Clone())
	h := p.answers[document]
	if document == hub.PathReport {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			if report, err := hub.DecodeReport(b, testHost); err == nil {
				p.reports = append(p.reports, report)
			}
		}
	}
	p.mu.Unlock()
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h(w, r)
}

func (p *place) count(document string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[document]
}

// last returns the last report.
func (p *place) last(t testing.TB) hub.Report {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(t, p.reports)
	return p.reports[len(p.reports)-1]
}

func (p *place) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reports)
}

// says answers with a body as a hub does.
func says(kind, etag, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// wish has the hub wish for guests in the set site.
func (p *place) wish(revision, guests string) {
	p.on(hub.PathDesired, says("application/json", `"`+revision+`"`, document(revision, map[string]string{"site": doc(guests)})))
}

func doc(guests string) string {
	return "apiVersion: gated/v1\nhost: " + testHost + "\nguests: " + guests + "\n"
}

func document(revision string, sets map[string]string) string {
	b, err := api.Encode(hub.Desired{Revision: revision, Host: testHost, Sets: sets})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// relay has the hub relay envelopes.
func (p *place) relay(envelopes ...api.Envelope) {
	if envelopes == nil {
		envelopes = []api.Envelope{}
	}
	b, err := api.Encode(hub.Operations{Host: testHost, Operations: envelopes})
	if err != nil {
		panic(err)
	}
	p.on(hub.PathOperations, says("application/json; charset=utf-8", `"`+op.SHA256(b)+`"`, string(b)))
}

// world is a gate over guests in memory, reconcile, a hub, the link between
// them, and a clock that the test moves.
type world struct {
	t      testing.TB
	ctx    context.Context
	path   string
	place  *place
	server *httptest.Server
	guests *memory.Driver
	store  *store.Store
	gate   *gate.Gate
	link   *hub.Link
	r      *reconcile.Reconciler
	stop   func()
	alice  mint.Key
	bob    mint.Key
	rules  policy.Policy

	mu   sync.Mutex
	time time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ctx: t.Context(), path: filepath.Join(t.TempDir(), "gated.db"), place: newPlace(), time: noon,
		alice: mint.Ed25519(t, "alice"), bob: mint.Ed25519(t, "bob"), rules: policy.Default()}
	w.server = httptest.NewServer(w.place)
	t.Cleanup(w.server.Close)
	w.guests = memory.New(w.now)
	w.open()
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(d)
}

// open starts everything but rounds of the link.
func (w *world) open() {
	s := fscktest.Open(w.t, w.path, store.Options{Migrations: gate.Migrations()})
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.gate = gateworld.New(w.t, s, func() nonce.Reading {
		now := w.now()
		return nonce.Reading{Wall: now, Elapsed: now.Sub(noon.AddDate(-1, 0, 0))}
	}, gate.Config{Observer: w.guests, Host: testHost, Policy: w.rules, UID: 4242, Wake: func(t op.Target) { w.r.Wake(t) },
		Trust: gateworld.Trust(w.t, gateworld.Line(w.alice, op.Operational)+gateworld.Line(w.bob, op.Operational))})
	w.store = s
	w.link = hub.New(hub.Config{URL: w.server.URL, Host: testHost, Interval: 30 * time.Second, Timeout: patience, Report: 10 * time.Minute,
		Gate: w.gate, Standing: func(waits map[op.Target]bool, limit int) ([]reconcile.SetStanding, []reconcile.WishStanding, int) {
			return w.r.Standing(waits, limit)
		},
		ID: w.gate.ID(), Version: "test", StartedAt: w.now(), Now: w.now, Logger: log, Random: func() float64 { return 0.5 }})
	w.r = reconcile.New(reconcile.Config{Gate: w.gate, Drivers: map[string]driver.Driver{"guest": w.guests},
		Sources: []reconcile.Source{w.link}, Host: testHost, Interval: 200 * time.Millisecond, Now: w.now, Logger: log})
	require.NoError(w.t, w.r.Recover(w.ctx))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = w.r.Run(ctx); close(ended) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended; require.NoError(w.t, s.Close()) })
	w.t.Cleanup(w.stop)
}

// restart is what a kill and a new start are for everything but the disk.
func (w *world) restart() {
	w.stop()
	w.open()
}

func (w *world) round() { w.link.Round(w.ctx) }

func (w *world) eventually(f func() bool, why string) {
	w.t.Helper()
	require.Eventually(w.t, f, patience, 2*time.Millisecond, why)
}

func (w *world) has(name string) bool {
	w.t.Helper()
	return must.Get(w.guests.Observe(w.ctx, op.At(guest(name))))(w.t).Present
}

func guest(name string) op.Target { return gateworld.Guest(name) }

func (w *world) pending() []op.Request {
	w.t.Helper()
	return must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t)
}

// jobs counts the jobs of the gate.
func (w *world) jobs() int {
	w.t.Helper()
	js := must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{Limit: 1000}))(w.t)
	return len(js)
}

// payload is what opsign sign makes for a guest as it is now.
func (w *world) payload(verb, name string) []byte {
	w.t.Helper()
	o := must.Get(w.guests.Observe(w.ctx, op.At(guest(name))))(w.t)
	b, err := op.Payload{Gate: w.gate.ID(), Host: testHost, Op: verb, Target: guest(name), Incarnation: o.Incarnation, State: o.Fingerprint,
		Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: w.now(), ExpiresAt: w.now().Add(time.Hour), Reason: "gone"}.Encode()
	require.NoError(w.t, err)
	return b
}

// signed is an envelope over a payload.
func (w *world) signed(payload []byte, keys ...mint.Key) api.Envelope {
	w.t.Helper()
	var sigs []string
	for _, k := range keys {
		sigs = append(sigs, mint.Sign(w.t, k, op.Operational.Namespace(), payload).Armored())
	}
	return api.EnvelopeOf(payload, sigs...)
}

// garbage is an envelope that nobody signed.
func garbage(i int) api.Envelope {
	return api.Envelope{Payload: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "garbage %d", i)), Signatures: []string{"x"}}
}

// refusals counts the entries of the audit log about refusals.
func (w *world) refusals() (n int) {
	w.t.Helper()
	bodies := must.Get(w.gate.EventTexts(w.ctx, 0, 100_000, 0))(w.t)
	for _, b := range bodies {
		e := must.Get(api.ParseEntry(b))(w.t)
		if e.Kind == "refused" {
			n++
		}
	}
	return n
}

func contextOf(t testing.TB) (context.Context, func()) { return context.WithCancel(t.Context()) }
