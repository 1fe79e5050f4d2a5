package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

// The client's own view of every end point: what is said on one side of the
// socket arrives on the other.

func (w *world) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Socket: w.path, Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ask calls every method of the client once and returns their errors by name.
func ask(ctx context.Context, c *client.Client) map[string]error {
	errs := map[string]error{}
	one := func(name string, err error) { errs[name] = err }
	env := api.EnvelopeOf([]byte("{}"), "s")
	_, err := c.Status(ctx)
	one("Status", err)
	_, err = c.Submit(ctx, api.SubmitOf("r", op.Ask{Op: "o", Target: web}), "k")
	one("Submit", err)
	_, err = c.Jobs(ctx, client.JobQuery{State: op.StateFailed, After: "j3", Limit: 7})
	one("Jobs", err)
	_, err = c.Job(ctx, "j12")
	one("Job", err)
	_, err = c.Cancel(ctx, "j12")
	one("Cancel", err)
	_, err = c.Classify(ctx, api.AskOf(op.Ask{Op: "o", Target: web}))
	one("Classify", err)
	_, err = c.Requests(ctx, op.StatePending)
	one("Requests", err)
	_, err = c.Request(ctx, "j12.1")
	one("Request", err)
	_, err = c.Payload(ctx, "j12.1")
	one("Payload", err)
	_, err = c.Approve(ctx, "j12.1", env)
	one("Approve", err)
	_, err = c.Reject(ctx, "j12.1", env)
	one("Reject", err)
	_, err = c.SubmitSigned(ctx, env)
	one("SubmitSigned", err)
	_, err = c.Plan(ctx, []byte("host: h"))
	one("Plan", err)
	_, err = c.PutSet(ctx, "web", "e1", []byte("host: h"))
	one("PutSet", err)
	_, _, err = c.Set(ctx, "web")
	one("Set", err)
	_, err = c.Sets(ctx)
	one("Sets", err)
	one("DeleteSet", c.DeleteSet(ctx, "web"))
	_, err = c.Guests(ctx)
	one("Guests", err)
	_, err = c.Guest(ctx, "web-1")
	one("Guest", err)
	_, err = c.Audit(ctx, 3, 7)
	one("Audit", err)
	_, err = c.AuditHead(ctx)
	one("AuditHead", err)
	_, err = c.Backup(ctx, io.Discard)
	one("Backup", err)
	one("Events", c.Events(ctx, 0, false, func(api.Entry) error { return nil }))
	_, err = c.AwaitJob(ctx, "j12", func(api.Job) bool { return true })
	one("AwaitJob", err)
	return errs
}

func TestClientMethods(t *testing.T) {
	w := start(t, -1, nil)
	w.job.Requesters = []op.Requester{{UID: uint32(os.Getuid())}}
	w.backups = func(_ context.Context, out io.Writer) error { _, err := out.Write([]byte("x")); return err }
	errs := ask(t.Context(), w.client(t))
	require.Len(t, errs, reflect.TypeFor[*client.Client]().NumMethod()-2, "a method is not asked (Close and Ops apart)")
	for name, err := range errs {
		require.NoError(t, err, name)
	}
	require.Equal(t, JobQuery{State: op.StateFailed, After: 3, Limit: 7}, w.query)
	require.Equal(t, "e1", w.ifMatch)
	require.Equal(t, "host: h", string(w.document))
	require.Equal(t, Envelope{Payload: []byte("{}"), Signatures: []string{"s"}}, w.env)
	_, sub := w.last()
	require.Equal(t, "k", sub.IdempotencyKey)
	require.Equal(t, []op.Ask{{Op: "o", Target: web, Params: op.Params{}}}, sub.Steps)

	ops, err := w.client(t).Ops(t.Context())
	require.NoError(t, err)
	require.Len(t, ops, len(op.Catalogue()))
}

func TestClientRebuildsRefusals(t *testing.T) {
	w := start(t, -1, nil)
	w.err = op.Refuse(op.StaleTarget, "it changed").At(op.StageBinding).WithHint("look").About(aID, op.StateRefused)
	for name, err := range ask(t.Context(), w.client(t)) {
		require.ErrorIs(t, err, op.StaleTarget, name)
		var r *op.Refusal
		require.ErrorAs(t, err, &r, name)
		require.Equal(t, w.err, error(r), name)
		require.Equal(t, api.ExitRefused, api.Exit(err), name)
	}
}

func TestClientAnswers(t *testing.T) {
	w := start(t, -1, nil)
	c := w.client(t)
	p, err := c.Payload(t.Context(), "j12.1")
	require.NoError(t, err)
	require.Equal(t, w.req.Payload, p)
	r, err := c.Request(t.Context(), "j12.1")
	require.NoError(t, err)
	require.Equal(t, op.SHA256(p), r.PayloadSHA256)
	doc, etag, err := c.Set(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, w.set1.Body, doc)
	require.Equal(t, "e1", etag)
	_, err = c.PutSet(t.Context(), "web", "*", nil)
	require.NoError(t, err)
	require.Equal(t, "*", w.ifMatch)
	require.Empty(t, w.document)
	_, err = c.Guest(t.Context(), "../status")
	require.ErrorIs(t, err, op.Malformed)
}

func TestClientBackup(t *testing.T) {
	w := start(t, -1, nil)
	whole := bytes.Repeat([]byte("copy"), 1<<18)
	w.backups = func(_ context.Context, out io.Writer) error { _, err := out.Write(whole); return err }
	var got bytes.Buffer
	n, err := w.client(t).Backup(t.Context(), &got)
	require.NoError(t, err)
	require.Equal(t, int64(len(whole)), n)
	require.Equal(t, whole, got.Bytes())

	full := errors.New("disk full")
	_, err = w.client(t).Backup(t.Context(), failing{full})
	require.ErrorIs(t, err, full)
	require.Equal(t, api.ExitInternal, api.Exit(err))

	w.backups = func(_ context.Context, out io.Writer) error {
		_, err := out.Write(whole)
		return errors.Join(err, errors.New("broke off"))
	}
	_, err = w.client(t).Backup(t.Context(), io.Discard)
	var gone *client.Unreachable
	require.ErrorAs(t, err, &gone)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestClientFollowsEvents(t *testing.T) {
	w := start(t, -1, nil)
	w.grow(t, 2)
	stop := errors.New("enough")
	var got []int64
	err := w.client(t).Events(t.Context(), 1, true, func(e api.Entry) error {
		got = append(got, e.Seq)
		if len(got) == 1 {
			w.grow(t, 3)
		}
		if len(got) == 3 {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, []int64{2, 4, 5}, got)
}

func TestClientAwaitsAJob(t *testing.T) {
	w := start(t, -1, nil)
	others := entryOf(t, `{"seq":10,"time":"2026-03-04T12:00:00Z","kind":"succeeded","job":"j99"}`)
	its := entryOf(t, `{"seq":11,"time":"2026-03-04T12:00:00Z","kind":"succeeded","job":"j12"}`)
	seen := make(chan struct{}, 8)
	go func() {
		<-seen
		w.change(func() { w.job.Steps = []op.Step{{ID: aID, State: op.StateSucceeded}} })
		w.happen(others)
		w.happen(its)
	}()
	job, err := w.client(t).AwaitJob(t.Context(), "j12", func(j api.Job) bool {
		seen <- struct{}{}
		return j.State == op.StateSucceeded
	})
	require.NoError(t, err)
	require.Equal(t, op.StateSucceeded, job.State)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	job, err = w.client(t).AwaitJob(ctx, "j12", func(api.Job) bool { return false })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "j12", job.ID)
}
