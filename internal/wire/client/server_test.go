package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/api"
)

// failure is the error of a call.
func failure[T any](_ T, err error) error { return err }

// method is one of a client's.
type method struct {
	name    string
	call    func(context.Context, *Client) error
	reaches string // the last call that it makes
}

// What is said on one side of the socket arrives on the other: every method
// against the real server.
var methods = append([]method{
	{"Status", func(ctx context.Context, c *Client) error { return failure(c.Status(ctx)) }, "status"},
	{"Submit", func(ctx context.Context, c *Client) error {
		return failure(c.Submit(ctx, api.SubmitOf("why", op.Ask{Op: "o", Target: web}), "k"))
	}, "submit o guest/web-1 why k"},
	{"Jobs", func(ctx context.Context, c *Client) error {
		return failure(c.Jobs(ctx, JobQuery{State: op.StatePending, After: "j3", Limit: 7}))
	}, "jobs pending_signature j3 7"},
	{"Job", func(ctx context.Context, c *Client) error { return failure(c.Job(ctx, "j12")) }, "job j12"},
	{"Cancel", func(ctx context.Context, c *Client) error { return failure(c.Cancel(ctx, "j12")) }, "cancel j12"},
	{"Classify", func(ctx context.Context, c *Client) error {
		return failure(c.Classify(ctx, api.AskOf(op.Ask{Op: "o", Target: web})))
	}, "explain o guest/web-1"},
	{"Requests", func(ctx context.Context, c *Client) error { return failure(c.Requests(ctx, op.StatePending)) },
		"requests pending_signature"},
	{"Request", func(ctx context.Context, c *Client) error { return failure(c.Request(ctx, "j12.1")) }, "request j12.1"},
	{"Payload", func(ctx context.Context, c *Client) error { return failure(c.Payload(ctx, "j12.1")) }, "request j12.1"},
	{"Approve", func(ctx context.Context, c *Client) error {
		return failure(c.Approve(ctx, "j12.1", api.EnvelopeOf([]byte("{}"), "s")))
	}, "approve j12.1 {} [s]"},
	{"Reject", func(ctx context.Context, c *Client) error {
		return failure(c.Reject(ctx, "j12.1", api.EnvelopeOf([]byte("{}"), "s")))
	}, "reject j12.1 {} [s]"},
	{"SubmitSigned", func(ctx context.Context, c *Client) error {
		return failure(c.SubmitSigned(ctx, api.EnvelopeOf([]byte("{}"), "s", "t")))
	}, "offline {} [s t]"},
	{"Plan", func(ctx context.Context, c *Client) error { return failure(c.Plan(ctx, "web", []byte("doc"))) }, "plan web doc"},
	{"PutSet", func(ctx context.Context, c *Client) error { return failure(c.PutSet(ctx, "web", "e1", []byte("doc"))) },
		"put web e1 doc"},
	{"Set", func(ctx context.Context, c *Client) error { _, _, err := c.Set(ctx, "web"); return err }, "set web"},
	{"Sets", func(ctx context.Context, c *Client) error { return failure(c.Sets(ctx)) }, "sets"},
	{"DeleteSet", func(ctx context.Context, c *Client) error { return c.DeleteSet(ctx, "web") }, "delete web"},
	{"Guests", func(ctx context.Context, c *Client) error { return failure(c.Guests(ctx)) }, "guests"},
	{"Guest", func(ctx context.Context, c *Client) error { return failure(c.Guest(ctx, "web-1")) }, "guest web-1"},
	{"Backends", func(ctx context.Context, c *Client) error { return failure(c.Backends(ctx)) }, "backends"},
	{"Commands", func(ctx context.Context, c *Client) error { return failure(c.Commands(ctx)) }, "commands"},
	{"Command", func(ctx context.Context, c *Client) error { return failure(c.Command(ctx, "drop-db")) }, "command drop-db"},
	{"Audit", func(ctx context.Context, c *Client) error { return failure(c.Audit(ctx, 3, 7)) }, "audit 3 7"},
	{"AuditHead", func(ctx context.Context, c *Client) error { return failure(c.AuditHead(ctx)) }, "head"},
	{"Consistency", func(ctx context.Context, c *Client) error { return failure(c.Consistency(ctx, 3, 7)) }, "consistency 3 7"},
	{"Inclusion", func(ctx context.Context, c *Client) error { return failure(c.Inclusion(ctx, 3)) }, "inclusion 3"},
	{"Backup", func(ctx context.Context, c *Client) error { return failure(c.Backup(ctx, io.Discard)) }, "backup"},
	{"AcceptAlert", func(ctx context.Context, c *Client) error { return c.AcceptAlert(ctx, 812) }, "accept 812"},
	{"Events", func(ctx context.Context, c *Client) error {
		return c.Events(ctx, 4, false, func(api.Entry) error { return nil })
	}, "events 4 "},
	{"AwaitJob", func(ctx context.Context, c *Client) error {
		return failure(c.AwaitJob(ctx, "j12", func(api.Job) bool { return true }))
	}, "job j12"},
}, agentMethods...)

func TestEveryMethodReachesItsEndpoint(t *testing.T) {
	d, c := behind(t)
	require.Equal(t, reflect.TypeFor[*Client]().NumMethod(), len(methods)+4,
		"a method without a row (Close, Address, Ops and Self apart)")
	for _, m := range methods {
		require.NoError(t, m.call(t.Context(), c), m.name)
		calls := d.calls()
		require.Equal(t, m.reaches, calls[len(calls)-1], m.name)
	}
	require.Len(t, must.Get(c.Ops(t.Context()))(t), len(op.Catalogue()))
}

func TestEveryMethodRebuildsRefusals(t *testing.T) {
	d, c := behind(t)
	d.err = refusal.New(refusal.StaleTarget, "it changed").At(refusal.StageBinding).WithHint("look").About(aID, op.StateRefused)
	for _, m := range methods {
		err := m.call(t.Context(), c)
		require.ErrorIs(t, err, refusal.StaleTarget, m.name)
		var r *refusal.Refusal
		require.ErrorAs(t, err, &r, m.name)
		require.Equal(t, d.err, error(r), m.name)
		require.Equal(t, api.ExitRefused, api.Exit(err), m.name)
	}
}

func TestAnswers(t *testing.T) {
	d, c := behind(t)
	p := must.Get(c.Payload(t.Context(), "j12.1"))(t)
	require.Equal(t, d.req.Payload, p)
	r := must.Get(c.Request(t.Context(), "j12.1"))(t)
	require.Equal(t, op.SHA256(p), r.PayloadSHA256)
	r = must.Get(c.Approve(t.Context(), "j12.1", api.EnvelopeOf(p, "s")))(t)
	require.Equal(t, 1, r.Missing)
	job := must.Get(c.Submit(t.Context(), api.SubmitOf("", op.Ask{Op: "o", Target: web}), ""))(t)
	require.ErrorIs(t, job.Error.Err(), refusal.PendingSignature)
	require.Equal(t, api.ExitWaits, api.Exit(job.Error.Err()))
	doc, etag := must.Two(c.Set(t.Context(), "web"))(t)
	require.Equal(t, "host: h\n", string(doc))
	require.Equal(t, "e1", etag)
	set := must.Get(c.PutSet(t.Context(), "web", "*", nil))(t)
	require.Equal(t, "e2", set.ETag)
	calls := d.calls()
	require.Equal(t, "put web * ", calls[len(calls)-1])
	must.Fail(c.Guest(t.Context(), "../status"))(t, refusal.Malformed)
}

func TestBackup(t *testing.T) {
	d, c := behind(t)
	whole := bytes.Repeat([]byte("copy"), 1<<18)
	d.backup = func(w io.Writer) error { return failure(w.Write(whole)) }
	var got bytes.Buffer
	n, err := c.Backup(t.Context(), &got)
	require.NoError(t, err)
	require.Equal(t, int64(len(whole)), n)
	require.Equal(t, whole, got.Bytes())

	full := errors.New("disk full")
	_, err = c.Backup(t.Context(), failing{full})
	require.ErrorIs(t, err, full)
	require.Equal(t, api.ExitInternal, api.Exit(err))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestABackupThatBreaksOff(t *testing.T) {
	d, c := behind(t)
	d.backup = func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return errors.Join(err, errors.New("broke off"))
	}
	_, err := c.Backup(t.Context(), io.Discard)
	unreachable(t, err)
}

func entryOf(t *testing.T, raw string) api.Entry {
	t.Helper()
	return must.Get(api.ParseEntry([]byte(raw)))(t)
}

func TestFollowEvents(t *testing.T) {
	d, c := behind(t)
	first, second, third := entryOf(t, `{"seq":1}`), entryOf(t, `{"seq":2}`), entryOf(t, `{"seq":3}`)
	d.happen(first, second)
	stop := errors.New("enough")
	var got []api.Entry
	require.ErrorIs(t, c.Events(t.Context(), 1, true, func(e api.Entry) error {
		if got = append(got, e); len(got) == 2 {
			return stop
		}
		d.happen(third)
		return nil
	}), stop)
	require.Equal(t, []api.Entry{second, third}, got)
}

func TestAwaitJob(t *testing.T) {
	d, c := behind(t)
	others, its := entryOf(t, `{"seq":10,"job":"j99"}`), entryOf(t, `{"seq":11,"job":"j12"}`)
	seen := make(chan struct{}, 8)
	go func() {
		<-seen
		d.change(func() { d.job.Steps = []op.Step{{ID: aID, State: op.StateSucceeded}} })
		d.happen(others, its)
	}()
	job := must.Get(c.AwaitJob(t.Context(), "j12", func(j api.Job) bool {
		seen <- struct{}{}
		return j.State == op.StateSucceeded
	}))(t)
	require.Equal(t, op.StateSucceeded, job.State)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	job, err := c.AwaitJob(ctx, "j12", func(api.Job) bool { return false })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "j12", job.ID)
}
