package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/test/servicetest"
)

// method is one of a client's.
type method struct {
	name    string
	call    func(context.Context, *Client) error
	reaches string // the last request that it makes, or its beginning
}

// methods are all of a client, each with a call that a new world answers.
var methods = append([]method{
	{"Status", func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err }, "GET /v1/status"},
	{"Submit", func(ctx context.Context, c *Client) error {
		_, err := c.Submit(ctx, api.SubmitOf("why", api.Ask{Op: "guest.start", Target: web}), "k")
		return err
	}, `POST /v1/jobs k {"op":"guest.start","target":"guest/web-1","reason":"why"}`},
	{"Jobs", func(ctx context.Context, c *Client) error {
		_, err := c.Jobs(ctx, JobQuery{State: op.StatePending, After: "j3", Limit: 7})
		return err
	}, "GET /v1/jobs?after=j3&limit=7&state=pending_signature"},
	{"Job", func(ctx context.Context, c *Client) error { _, err := c.Job(ctx, "j1"); return err }, "GET /v1/jobs/j1"},
	{"Cancel", func(ctx context.Context, c *Client) error { _, err := c.Cancel(ctx, "j3"); return err },
		"DELETE /v1/jobs/j3"},
	{"Classify", func(ctx context.Context, c *Client) error {
		_, err := c.Classify(ctx, api.Ask{Op: "guest.start", Target: web})
		return err
	}, `POST /v1/classify {"op":"guest.start","target":"guest/web-1"`},
	{"Requests", func(ctx context.Context, c *Client) error {
		_, err := c.Requests(ctx, op.StatePending)
		return err
	}, "GET /v1/requests?state=pending_signature"},
	{"RequestPage", func(ctx context.Context, c *Client) error { _, err := c.RequestPage(ctx, "j1.1", 2); return err },
		"GET /v1/requests?after=j1.1&limit=2"},
	{"Request", func(ctx context.Context, c *Client) error { _, err := c.Request(ctx, "j1.1"); return err },
		"GET /v1/requests/j1.1"},
	{"Payload", func(ctx context.Context, c *Client) error { _, err := c.Payload(ctx, "j1.1"); return err },
		"GET /v1/requests/j1.1/payload"},
	{"Approve", func(ctx context.Context, c *Client) error {
		_, err := c.Approve(ctx, "j1.1", signed(ctx).Approval(op.RequestID{Job: 1, Index: 1}))
		return err
	}, `POST /v1/requests/j1.1/approve {"payload":"`},
	{"Reject", func(ctx context.Context, c *Client) error {
		_, err := c.Reject(ctx, "j2.1", signed(ctx).Rejection(op.RequestID{Job: 2, Index: 1}))
		return err
	}, `POST /v1/requests/j2.1/reject {"payload":"`},
	{"SubmitSigned", func(ctx context.Context, c *Client) error {
		_, err := c.SubmitSigned(ctx, signed(ctx).Offline())
		return err
	}, `POST /v1/ops {"payload":"`},
	{"Plan", func(ctx context.Context, c *Client) error {
		_, err := c.Plan(ctx, "web", []byte(servicetest.Document))
		return err
	}, "POST /v1/plan?set=web " + servicetest.Document},
	{"PutSet", func(ctx context.Context, c *Client) error {
		_, err := c.PutSet(ctx, "web", op.SHA256([]byte(servicetest.Document)), []byte(servicetest.Document+"\n"))
		return err
	}, `PUT /v1/desired/web "` + op.SHA256([]byte(servicetest.Document)) + `" ` + servicetest.Document + "\n"},
	{"Set", func(ctx context.Context, c *Client) error { _, _, err := c.Set(ctx, "web"); return err },
		"GET /v1/desired/web"},
	{"Sets", func(ctx context.Context, c *Client) error { _, err := c.Sets(ctx); return err }, "GET /v1/desired"},
	{"DeleteSet", func(ctx context.Context, c *Client) error { return c.DeleteSet(ctx, "web") },
		"DELETE /v1/desired/web"},
	{"Guests", func(ctx context.Context, c *Client) error { _, err := c.Guests(ctx); return err }, "GET /v1/guests"},
	{"GuestPage", func(ctx context.Context, c *Client) error { _, err := c.GuestPage(ctx, "db", 2); return err },
		"GET /v1/guests?after=db&limit=2"},
	{"Guest", func(ctx context.Context, c *Client) error { _, err := c.Guest(ctx, "web-1"); return err },
		"GET /v1/guests/web-1"},
	{"Backends", func(ctx context.Context, c *Client) error { _, err := c.Backends(ctx); return err },
		"GET /v1/backends"},
	{"Commands", func(ctx context.Context, c *Client) error { _, err := c.Commands(ctx); return err },
		"GET /v1/commands"},
	{"Command", func(ctx context.Context, c *Client) error { _, err := c.Command(ctx, "drop-db"); return err },
		"GET /v1/commands/drop-db"},
	{"Health", func(ctx context.Context, c *Client) error { _, err := c.Health(ctx); return err },
		"GET /v1/health"},
	{"Metrics", func(ctx context.Context, c *Client) error { _, err := c.Metrics(ctx); return err },
		"GET /v1/metrics"},
	{"Steering", func(ctx context.Context, c *Client) error { _, err := c.Steering(ctx); return err },
		"GET /v1/steering"},
	{"Trust", func(ctx context.Context, c *Client) error { _, err := c.Trust(ctx); return err }, "GET /v1/trust"},
	{"AuditVerified", func(ctx context.Context, c *Client) error { _, err := c.AuditVerified(ctx); return err },
		"GET /v1/audit/verified"},
	{"Audit", func(ctx context.Context, c *Client) error { _, err := c.Audit(ctx, 3, 7); return err },
		"GET /v1/audit?after=3&limit=7"},
	{"AuditPage", func(ctx context.Context, c *Client) error { _, err := c.AuditPage(ctx, 3, 7); return err },
		"GET /v1/audit?after=3&limit=7"},
	{"AuditHead", func(ctx context.Context, c *Client) error { _, err := c.AuditHead(ctx); return err },
		"GET /v1/audit/head"},
	{"Consistency", func(ctx context.Context, c *Client) error { _, err := c.Consistency(ctx, 3, 7); return err },
		"GET /v1/audit/consistency?old=3&size=7"},
	{"Inclusion", func(ctx context.Context, c *Client) error { _, err := c.Inclusion(ctx, 3); return err },
		"GET /v1/audit/inclusion?seq=3"},
	{"Backup", func(ctx context.Context, c *Client) error { _, err := c.Backup(ctx, io.Discard); return err },
		"GET /v1/backup"},
	{"BackupVerified", func(ctx context.Context, c *Client) error {
		sum := sha256.New()
		if _, err := c.Backup(ctx, sum); err != nil {
			return err
		}
		return c.BackupVerified(ctx, hex.EncodeToString(sum.Sum(nil)))
	}, "POST /v1/backup/verified"},
	{"AcceptAlert", func(ctx context.Context, c *Client) error { return c.AcceptAlert(ctx, servicetest.Alert) },
		"POST /v1/canary/14/accept"},
	{"Reload", func(ctx context.Context, c *Client) error { _, err := c.Reload(ctx); return err },
		"POST /v1/reload"},
	{"TakeOver", func(ctx context.Context, c *Client) error { return c.TakeOver(ctx) },
		"POST /v1/takeover"},
	{"Events", func(ctx context.Context, c *Client) error {
		return c.Events(ctx, 4, false, func(api.Entry) error { return nil })
	}, "GET /v1/events?after=4&follow=false"},
	{"AwaitJob", func(ctx context.Context, c *Client) error {
		_, err := c.AwaitJob(ctx, "j1", func(api.Job) bool { return true })
		return err
	}, "GET /v1/jobs/j1"},
	{"WaitJob", func(ctx context.Context, c *Client) error {
		_, err := c.WaitJob(ctx, "j3", api.UntilEnded) // j3 was cancelled
		return err
	}, "GET /v1/jobs/j3"},
}, agentMethods...)

// envelopes has what operators sign for the calls of methods; without a world, they are signed by nobody.
type envelopes struct {
	t     *testing.T
	world *servicetest.World
}

type signedKey struct{}

func signed(ctx context.Context) envelopes {
	e, _ := ctx.Value(signedKey{}).(envelopes)
	return e
}

func (e envelopes) Approval(id op.RequestID) api.Envelope {
	return e.or(func() api.Envelope { return e.world.Approval(e.t, id) })
}

func (e envelopes) Rejection(id op.RequestID) api.Envelope {
	return e.or(func() api.Envelope { return e.world.Rejection(e.t, id) })
}

func (e envelopes) Offline() api.Envelope {
	return e.or(func() api.Envelope { return e.world.Offline(e.t) })
}

func (e envelopes) or(made func() api.Envelope) api.Envelope {
	if e.world == nil {
		return api.EnvelopeOf([]byte("{}"), "s")
	}
	return made()
}

// What is said on one side of the socket arrives on the other: every method against the real server, which answers it.
func TestEveryMethodReachesItsEndpoint(t *testing.T) {
	d, c := behind(t)
	require.Equal(t, reflect.TypeFor[*Client]().NumMethod(), len(methods)+4,
		"a method without a row (Close, Address, Ops and Self apart)")
	for _, m := range methods {
		require.NoError(t, m.call(context.WithValue(t.Context(), signedKey{}, envelopes{t, d.World}), c), m.name)
		calls := d.calls()
		require.True(t, strings.HasPrefix(calls[len(calls)-1], m.reaches), "%s: %s", m.name, calls[len(calls)-1])
	}
	ops, err := c.Ops(t.Context())
	require.NoError(t, err)
	require.Len(t, ops, len(op.Catalogue()))
}

func TestEveryMethodRebuildsRefusals(t *testing.T) {
	said := refusal.New(refusal.StaleTarget, "changed").At(refusal.StageBinding).WithHint("look").About(aID, op.StateRefused)
	c := refusing(t, said)
	for _, m := range methods {
		err := m.call(t.Context(), c)
		require.ErrorIs(t, err, refusal.StaleTarget, m.name)
		var r *refusal.Refusal
		require.ErrorAs(t, err, &r, m.name)
		require.Equal(t, said, r, m.name)
		require.Equal(t, api.ExitRefused, api.Exit(err), m.name)
	}
}

func TestAnswers(t *testing.T) {
	d, c := behind(t)
	p, err := c.Payload(t.Context(), "j1.1")
	require.NoError(t, err)
	kept, err := d.Gate.Request(t.Context(), op.RequestID{Job: 1, Index: 1})
	require.NoError(t, err)
	require.Equal(t, kept.Payload, p)
	r, err := c.Request(t.Context(), "j1.1")
	require.NoError(t, err)
	require.Equal(t, op.SHA256(p), r.PayloadSHA256)
	require.Equal(t, 1, r.Missing)
	r, err = c.Approve(t.Context(), "j1.1", servicetest.Signed(t, p))
	require.NoError(t, err)
	require.Zero(t, r.Missing)
	destroy := api.Ask{Op: "guest.destroy", Target: "guest/old"}
	job, err := c.Submit(t.Context(), api.SubmitOf("", destroy), "")
	require.NoError(t, err)
	require.ErrorIs(t, job.Error.Err(), refusal.PendingSignature)
	require.Equal(t, api.ExitWaits, api.Exit(job.Error.Err()))
	doc, etag, err := c.Set(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, servicetest.Document, string(doc))
	require.Equal(t, op.SHA256(doc), etag)
	doc = append(doc, '\n')
	set, err := c.PutSet(t.Context(), "web", "*", doc)
	require.NoError(t, err)
	require.Equal(t, op.SHA256(doc), set.ETag)
	_, err = c.Guest(t.Context(), "../status")
	require.ErrorIs(t, err, refusal.Malformed)
}

func TestBackup(t *testing.T) {
	_, c := behind(t)
	var got bytes.Buffer
	n, err := c.Backup(t.Context(), &got)
	require.NoError(t, err)
	require.Equal(t, int64(got.Len()), n)
	require.True(t, strings.HasPrefix(got.String(), "SQLite format 3"))

	full := errors.New("disk full")
	_, err = c.Backup(t.Context(), failing{full})
	require.ErrorIs(t, err, full)
	require.Equal(t, api.ExitInternal, api.Exit(err))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestABackupThatBreaksOff(t *testing.T) {
	_, c := behind(t, func(c *server.Config) {
		c.Backup = func(_ context.Context, w io.Writer) error {
			_, err := w.Write(make([]byte, 1<<20))
			return errors.Join(err, errors.New("broke off"))
		}
	})
	_, err := c.Backup(t.Context(), io.Discard)
	unreachable(t, err)
}

func TestFollowEvents(t *testing.T) {
	d, c := behind(t)
	n := d.Head(t)
	d.Happen(t, 2)
	stop := errors.New("enough")
	var got []int64
	err := c.Events(t.Context(), n+1, true, func(e api.Entry) error {
		if got = append(got, e.Seq); len(got) == 2 {
			return stop
		}
		d.Happen(t, 1)
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, []int64{n + 2, n + 3}, got)
}

func TestAwaitJob(t *testing.T) {
	d, c := behind(t)
	seen := make(chan struct{}, 8)
	ended := make(chan error, 1)
	go func() {
		<-seen
		_, err := d.Gate.Cancel(context.Background(), servicetest.Caller(), 3) // another job
		if err == nil {
			_, err = d.Gate.Cancel(context.Background(), servicetest.Caller(), 4)
		}
		ended <- err
	}()
	job, err := c.AwaitJob(t.Context(), "j4", func(j api.Job) bool {
		seen <- struct{}{}
		return j.State == op.StateCancelled
	})
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.Equal(t, op.StateCancelled, job.State)

	ctx, cancel := context.WithCancel(t.Context())
	job, err = c.AwaitJob(ctx, "j1", func(api.Job) bool { cancel(); return false })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "j1", job.ID)
}
