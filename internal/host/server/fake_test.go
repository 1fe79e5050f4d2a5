package server

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	web  = op.Target{Kind: "guest", Name: "web-1"}
	aID  = op.RequestID{Job: 12, Index: 1}
)

// fake stands for the whole daemon. It records what reached it, and answers
// with what the test put in.
type fake struct {
	mu       sync.Mutex
	shown    []op.RequestID
	reached  []string
	by       op.Requester
	sub      op.Submission
	env      Envelope
	query    JobQuery
	ifMatch  string
	document []byte
	set      string
	concerns string
	known

	err     error
	job     op.Job
	req     op.Request
	set1    Set
	guest1  api.Guest
	panics  bool
	hold    chan struct{} // closed to let Status go on
	held    chan struct{} // gets one for each Status that waits
	backups func(context.Context, io.Writer) error
	entries []api.Entry
	more    chan struct{} // closed and replaced when entries grow
}

func newFake(t testing.TB) *fake {
	t.Helper()
	step := op.Step{ID: aID, Op: "guest.destroy", Target: web, Incarnation: "i1", State: op.StatePending,
		Fingerprint: op.FingerprintOf(nil), Params: op.Params{}, Verdict: op.Verdict{Class: op.Destructive, Rule: "r", Why: "w"}}
	payload, err := op.Payload{Gate: op.GateID(strings.Repeat("a", 32)), Host: "h", Op: step.Op, Target: web, Incarnation: "i1",
		State: step.Fingerprint, Params: op.Params{}, Nonce: strings.Repeat("A", 22), IssuedAt: noon,
		ExpiresAt: noon.Add(time.Hour)}.Encode()
	require.NoError(t, err)
	return &fake{
		job:    op.Job{ID: 12, Steps: []op.Step{step}, CreatedAt: noon},
		req:    op.Request{ID: aID, Step: step, Payload: payload, Need: needsOne, CreatedAt: noon, IssuedAt: noon, ExpiresAt: noon},
		set1:   Set{Name: "web", ETag: "e1", Body: []byte("apiVersion: gated/v1\n"), UpdatedAt: noon},
		guest1: api.Guest{Name: "web-1", State: "running"},
		more:   make(chan struct{}),
	}
}

// reach records a call and returns the error that the test wants.
func (f *fake) reach(what string, by op.Requester) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = append(f.reached, what)
	f.by = by
	if f.panics {
		panic("the fake was told to")
	}
	return f.err
}

func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.reached...)
}

// last returns who called last, and the last submission.
func (f *fake) last() (op.Requester, op.Submission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by, f.sub
}

func (f *fake) Submit(_ context.Context, s op.Submission) (op.Job, error) {
	err := f.reach("Submit", s.Requester)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sub = s
	return f.job, err
}

func (f *fake) Cancel(_ context.Context, by op.Requester, id op.JobID) (op.Job, error) {
	if err := f.reach("Cancel "+id.String(), by); err != nil {
		return op.Job{}, err
	}
	for _, r := range f.job.Requesters {
		if r.UID == by.UID {
			return f.job, nil
		}
	}
	return op.Job{}, refusal.New(refusal.NotAllowed, "uid %d did not ask for %s", by.UID, id)
}

func (f *fake) Job(_ context.Context, id op.JobID) (op.Job, error) {
	err := f.reach("Job "+id.String(), op.Requester{})
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.job, err
}

func (f *fake) Jobs(_ context.Context, q JobQuery) ([]op.Job, error) {
	f.query = q
	return []op.Job{f.job}, f.reach("Jobs", op.Requester{})
}

func (f *fake) Request(_ context.Context, id op.RequestID) (op.Request, error) {
	return f.req, f.reach("Request "+id.String(), op.Requester{})
}

func (f *fake) Shown(_ context.Context, id op.RequestID) (op.Request, error) {
	return f.req, f.reach("Shown "+id.String(), op.Requester{})
}

func (f *fake) ShowPayload(_ context.Context, id op.RequestID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = append(f.shown, id)
	return nil
}

func (f *fake) Requests(_ context.Context, q RequestQuery) ([]op.Request, error) {
	return []op.Request{f.req}, f.reach("Requests "+string(q.State), op.Requester{})
}

func (f *fake) Approve(_ context.Context, by op.Requester, id op.RequestID, e Envelope) (op.Request, error) {
	f.env = e
	return f.req, f.reach("Approve "+id.String(), by)
}

func (f *fake) Reject(_ context.Context, by op.Requester, id op.RequestID, e Envelope) (op.Request, error) {
	f.env = e
	return f.req, f.reach("Reject "+id.String(), by)
}

func (f *fake) ApproveOffline(_ context.Context, by op.Requester, e Envelope) (op.Request, error) {
	f.env = e
	return f.req, f.reach("ApproveOffline", by)
}

func (f *fake) Explain(_ context.Context, by op.Requester, a op.Ask) (op.Step, []op.Fact, error) {
	s := f.job.Steps[0]
	s.Op, s.Target, s.Params = a.Op, a.Target, a.Params
	return s, []op.Fact{{Name: "files", Text: "3"}}, f.reach("Explain", by)
}

func (f *fake) PutSet(_ context.Context, by op.Requester, name, ifMatch string, body []byte) (string, error) {
	f.set, f.ifMatch, f.document = name, ifMatch, append([]byte{}, body...)
	return "e2", f.reach("PutSet", by)
}

func (f *fake) Set(_ context.Context, name string) (Set, error) {
	return f.set1, f.reach("Set "+name, op.Requester{})
}

func (f *fake) Sets(context.Context) ([]SetHead, error) {
	s := f.set1
	return []SetHead{{Name: s.Name, ETag: s.ETag, Bytes: len(s.Body), UpdatedAt: s.UpdatedAt}}, f.reach("Sets", op.Requester{})
}

func (f *fake) DeleteSet(_ context.Context, by op.Requester, name string) error {
	return f.reach("DeleteSet "+name, by)
}

func (f *fake) Plan(_ context.Context, by op.Requester, set string, document []byte) (api.Plan, error) {
	f.mu.Lock()
	f.document = append([]byte{}, document...)
	f.mu.Unlock()
	return api.Plan{Host: "h"}, f.reach(strings.TrimSpace("Plan "+set), by)
}

func (f *fake) Guests(_ context.Context, by op.Requester, q GuestQuery) ([]api.Guest, bool, error) {
	return []api.Guest{f.guest1}, false, f.reach("Guests", by)
}

func (f *fake) Guest(_ context.Context, by op.Requester, name string) (api.Guest, error) {
	return f.guest1, f.reach("Guest "+name, by)
}

func (f *fake) Commands(context.Context) ([]api.Command, error) {
	return []api.Command{{Name: "drop-db"}}, f.reach("Commands", op.Requester{})
}

func (f *fake) Command(_ context.Context, name string) (api.Command, error) {
	return api.Command{Name: name}, f.reach("Command "+name, op.Requester{})
}

func (f *fake) Backends(context.Context) ([]api.Backend, error) {
	return []api.Backend{{Name: "local", State: api.BackendOK}}, f.reach("Backends", op.Requester{})
}

func (f *fake) Status(ctx context.Context) (api.Status, error) {
	err := f.reach("Status", op.Requester{})
	if f.hold != nil {
		f.held <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
			return api.Status{}, ctx.Err()
		}
	}
	return api.Status{Host: "h"}, err
}

func (f *fake) Accept(_ context.Context, by op.Requester, change int64) error {
	return f.reach("Accept "+strconv.FormatInt(change, 10), by)
}

func (f *fake) Backup(ctx context.Context, w io.Writer) error {
	if err := f.reach("Backup", op.Requester{}); err != nil {
		return err
	}
	return f.backups(ctx, w)
}

func (f *fake) Head(context.Context) (api.Head, error) {
	return api.Head{Seq: 9, Hash: "00"}, f.reach("Head", op.Requester{})
}

func (f *fake) Consistency(_ context.Context, old, size int64) (api.Consistency, error) {
	return api.Consistency{Old: old, Size: size, Proof: []string{}}, f.reach("Consistency", op.Requester{})
}

func (f *fake) Inclusion(_ context.Context, seq int64) (api.Inclusion, error) {
	return api.Inclusion{Seq: seq, Proof: []string{}}, f.reach("Inclusion", op.Requester{})
}

func (f *fake) Audit(_ context.Context, after int64, limit, _ int) ([]api.Entry, error) {
	err := f.reach("Audit", op.Requester{})
	out, _ := f.above(after, limit)
	return out, err
}

// Events leaves out every third entry, as a filter would.
func (f *fake) Events(_ context.Context, after int64, limit, _ int, concerns string) ([]api.Entry, int64, error) {
	f.mu.Lock()
	f.concerns = concerns
	f.mu.Unlock()
	if err := f.reach("Events", op.Requester{}); err != nil {
		return nil, 0, err
	}
	all, _ := f.above(after, limit)
	var out []api.Entry
	for _, e := range all {
		after = e.Seq
		if e.Seq%3 != 0 {
			out = append(out, e)
		}
	}
	return out, after, nil
}

func (f *fake) Wait(ctx context.Context, after int64) error {
	for {
		got, more := f.above(after, 1)
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

func (f *fake) above(after int64, limit int) ([]api.Entry, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []api.Entry
	for _, e := range f.entries {
		if e.Seq > after && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, f.more
}

// grow appends n entries with consecutive numbers.
func (f *fake) grow(t testing.TB, n int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		seq := strconv.Itoa(len(f.entries) + 1)
		e, err := api.ParseEntry([]byte(`{"seq":` + seq + `,"time":"2026-03-04T12:00:00Z","kind":"planned","prev":""}`))
		require.NoError(t, err)
		f.entries = append(f.entries, e)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// needsOne is what the catalogue asks for.
var needsOne = op.Requirement{Ways: []op.Way{{Demands: []op.Demand{{Rule: op.BuiltIn, Roles: []op.Role{op.Operational}, Threshold: 1}}}},
	MaxValidity: 24 * time.Hour}
