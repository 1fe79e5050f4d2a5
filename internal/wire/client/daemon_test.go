package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/host/server"
	"gated/internal/test/must"
	"gated/internal/wire/api"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	web  = op.Target{Kind: "guest", Name: "web-1"}
	aID  = op.RequestID{Job: 12, Index: 1}
)

// daemon is all that stands behind a server. It records what reached it, in
// words, and answers with what the test put in.
type daemon struct {
	paged   int // how many requests and guests there are, in pages; 0: one
	mu      sync.Mutex
	socket  string
	reached []string
	err     error
	job     op.Job
	req     op.Request
	backup  func(io.Writer) error
	entries []api.Entry
	more    chan struct{} // closed and replaced when entries grow

	token     string // whose caller is container#9
	conflicts []api.Conflict
	kept      int // reservations that there are
}

// behind starts a real server for a daemon and returns a client of it.
func behind(t *testing.T) (*daemon, *Client) {
	t.Helper()
	step := op.Step{ID: aID, Op: "guest.destroy", Target: web, Incarnation: "i1", State: op.StatePending,
		Fingerprint: op.FingerprintOf(nil), Verdict: op.Verdict{Class: op.Destructive}}
	payload, err := op.Payload{Gate: op.GateID(strings.Repeat("a", 32)), Host: "h", Op: step.Op, Target: web, Incarnation: "i1",
		State: step.Fingerprint, Params: op.Params{}, Nonce: strings.Repeat("A", 22), IssuedAt: noon,
		ExpiresAt: noon.Add(time.Hour)}.Encode()
	require.NoError(t, err)
	one := op.Requirement{Ways: []op.Way{{Demands: []op.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1}}}}}
	d := &daemon{job: op.Job{ID: 12, Steps: []op.Step{step}, CreatedAt: noon}, more: make(chan struct{}),
		req: op.Request{ID: aID, Step: step, Payload: payload, Need: one, CreatedAt: noon, IssuedAt: noon, ExpiresAt: noon}}
	d.backup = func(w io.Writer) error { return failure(io.WriteString(w, "copy")) }
	socket := must.Get(server.Listen(filepath.Join(t.TempDir(), "s"), -1))(t)
	s := server.New(server.Config{Gate: d, Desired: d, Guests: d, Backends: d, Commands: d, Log: d, Status: d, Backup: d, Canary: d, Agents: d, Reservations: d,
		UID: uint32(os.Getuid()), Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, socket) }()
	d.socket = socket.Path()
	c := open(t, Options{Socket: d.socket})
	t.Cleanup(func() {
		c.Close()
		cancel()
		require.NoError(t, <-ended)
	})
	return d, c
}

// reach records a call and returns the error that the test wants.
func (d *daemon) reach(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = append(d.reached, fmt.Sprintf(format, args...))
	return d.err
}

// calls returns what reached the daemon since it was asked last.
func (d *daemon) calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.reached
	d.reached = nil
	return out
}

// change alters what the daemon answers while calls may be under way.
func (d *daemon) change(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
}

// happen appends entries.
func (d *daemon) happen(entries ...api.Entry) {
	d.change(func() {
		d.entries = append(d.entries, entries...)
		close(d.more)
		d.more = make(chan struct{})
	})
}

func (d *daemon) theJob() op.Job {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.job
}

func (d *daemon) Submit(_ context.Context, s op.Submission) (op.Job, error) {
	return d.job, d.reach("submit %s %s %s %s", s.Steps[0].Op, s.Steps[0].Target, s.Reason, s.IdempotencyKey)
}

func (d *daemon) Cancel(_ context.Context, _ op.Requester, id op.JobID) (op.Job, error) {
	return d.job, d.reach("cancel %s", id)
}

func (d *daemon) Job(_ context.Context, id op.JobID) (op.Job, error) {
	err := d.reach("job %s", id)
	return d.theJob(), err
}

func (d *daemon) Jobs(_ context.Context, q server.JobQuery) ([]op.Job, error) {
	return []op.Job{d.job}, d.reach("jobs %s %s %d", q.State, q.After, q.Limit)
}

func (d *daemon) Request(_ context.Context, id op.RequestID) (op.Request, error) {
	return d.req, d.reach("request %s", id)
}

func (d *daemon) ShowPayload(context.Context, op.RequestID) error { return nil }

func (d *daemon) Shown(_ context.Context, id op.RequestID) (op.Request, error) {
	return d.req, d.reach("request %s", id)
}

func (d *daemon) Requests(_ context.Context, q server.RequestQuery) ([]op.Request, error) {
	if d.paged == 0 {
		return []op.Request{d.req}, d.reach("requests %s", q.State)
	}
	var out []op.Request // two a page, by their weight
	for i := q.After.Index + 1; i <= d.paged && len(out) < 2; i++ {
		r := d.req
		r.ID.Index = i
		r.Reason = strings.Repeat("x", q.Bytes/2)
		out = append(out, r)
	}
	return out, d.reach("requests after %s", q.After)
}

func (d *daemon) Approve(_ context.Context, _ op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.req, d.reach("approve %s %s %s", id, e.Payload, e.Signatures)
}

func (d *daemon) Reject(_ context.Context, _ op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.req, d.reach("reject %s %s %s", id, e.Payload, e.Signatures)
}

func (d *daemon) ApproveOffline(_ context.Context, _ op.Requester, e server.Envelope) (op.Request, error) {
	return d.req, d.reach("offline %s %s", e.Payload, e.Signatures)
}

func (d *daemon) Explain(_ context.Context, _ op.Requester, a op.Ask) (op.Step, []op.Fact, error) {
	return d.job.Steps[0], nil, d.reach("explain %s %s", a.Op, a.Target)
}

func (d *daemon) PutSet(_ context.Context, _ op.Requester, name, ifMatch string, body []byte) (string, error) {
	return "e2", d.reach("put %s %s %s", name, ifMatch, body)
}

func (d *daemon) Set(_ context.Context, name string) (server.Set, error) {
	return server.Set{Name: name, ETag: "e1", Body: []byte("host: h\n")}, d.reach("set %s", name)
}

func (d *daemon) Sets(context.Context) ([]server.SetHead, error) { return nil, d.reach("sets") }

func (d *daemon) DeleteSet(_ context.Context, _ op.Requester, name string) error {
	return d.reach("delete %s", name)
}

func (d *daemon) Plan(_ context.Context, _ op.Requester, set string, document []byte) (api.Plan, error) {
	return api.Plan{}, d.reach("plan %s %s", set, document)
}

func (d *daemon) Backends(context.Context) ([]api.Backend, error) { return nil, d.reach("backends") }

func (d *daemon) Commands(context.Context) ([]api.Command, error) { return nil, d.reach("commands") }

func (d *daemon) Command(_ context.Context, name string) (api.Command, error) {
	return api.Command{Name: name}, d.reach("command %s", name)
}

func (d *daemon) Guests(_ context.Context, _ op.Requester, q server.GuestQuery) ([]api.Guest, bool, error) {
	var n int
	if q.After != "" {
		_, _ = fmt.Sscanf(q.After, "g%d", &n)
	}
	if n >= d.paged {
		return nil, false, d.reach("guests")
	}
	return []api.Guest{{Name: fmt.Sprintf("g%d", n+1)}}, n+1 < d.paged, d.reach("guests after %s", q.After)
}

func (d *daemon) Guest(_ context.Context, _ op.Requester, name string) (api.Guest, error) {
	return api.Guest{Name: name}, d.reach("guest %s", name)
}

func (d *daemon) Status(context.Context) (api.Status, error) { return api.Status{}, d.reach("status") }

func (d *daemon) Accept(_ context.Context, _ op.Requester, change int64) error {
	return d.reach("accept %d", change)
}

func (d *daemon) Backup(_ context.Context, w io.Writer) error {
	if err := d.reach("backup"); err != nil {
		return err
	}
	return d.backup(w)
}

func (d *daemon) Head(context.Context) (api.Head, error) { return api.Head{Seq: 9}, d.reach("head") }

func (d *daemon) Consistency(_ context.Context, old, size int64) (api.Consistency, error) {
	return api.Consistency{Proof: []string{}}, d.reach("consistency %d %d", old, size)
}

func (d *daemon) Inclusion(_ context.Context, seq int64) (api.Inclusion, error) {
	return api.Inclusion{Proof: []string{}}, d.reach("inclusion %d", seq)
}

func (d *daemon) Audit(_ context.Context, after int64, limit, _ int) ([]api.Entry, error) {
	return nil, d.reach("audit %d %d", after, limit)
}

func (d *daemon) Events(_ context.Context, after int64, _, _ int, concerns string) ([]api.Entry, int64, error) {
	if err := d.reach("events %d %s", after, concerns); err != nil {
		return nil, after, err
	}
	out, _ := d.above(after)
	if len(out) > 0 {
		after = out[len(out)-1].Seq
	}
	return out, after, nil
}

func (d *daemon) Wait(ctx context.Context, after int64) error {
	for {
		got, more := d.above(after)
		if len(got) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

func (d *daemon) above(after int64) ([]api.Entry, chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []api.Entry
	for _, e := range d.entries {
		if e.Seq > after {
			out = append(out, e)
		}
	}
	return out, d.more
}
