package client

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/servicetest"
)

var (
	src     = api.Place{Path: "/nowhere/new", Device: 1, Inode: math.MaxUint64, Fold: true}
	aClaim  = api.Reserve{Scope: src, Patterns: []string{"a", "b/**"}, TTLSeconds: 60, WaitSeconds: 5}
	aTarget = refusal.New(refusal.Conflict, "somebody has it").WithHint("wait")
)

const srcJSON = `{"path":"/nowhere/new","device":1,"inode":18446744073709551615,"fold":true}`

// agentMethods are those about agents and reservations.
var agentMethods = []method{
	{"Agents", func(ctx context.Context, c *Client) error { _, err := c.Agents(ctx); return err }, "GET /v1/agents"},
	{"RegisterAgent", func(ctx context.Context, c *Client) error {
		_, err := c.RegisterAgent(ctx, api.RegisterAgent{Name: "new", Token: true})
		return err
	}, `POST /v1/agents {"name":"new"`},
	{"Unregister", func(ctx context.Context, c *Client) error { _, err := c.Unregister(ctx, "builder"); return err },
		"DELETE /v1/agents/builder"},
	{"Reserve", func(ctx context.Context, c *Client) error { _, err := c.Reserve(ctx, aClaim); return err },
		`POST /v1/reservations {"scope":` + srcJSON + `,"patterns":["a","b/**"],"ttl_seconds":60,"wait_seconds":5}`},
	{"Check", func(ctx context.Context, c *Client) error {
		_, err := c.Check(ctx, api.Check{Scope: src, Patterns: []string{"a"}})
		return err
	}, `POST /v1/reservations/check {"scope":{"path":"/nowhere/new"`},
	{"Reservations", func(ctx context.Context, c *Client) error {
		_, err := c.Reservations(ctx, ReservationQuery{Scope: "/s rc", Agent: "uid:7", After: "r3", Limit: 9})
		return err
	}, "GET /v1/reservations?after=r3&agent=uid%3A7&limit=9&scope=%2Fs+rc"},
	{"AllReservations", func(ctx context.Context, c *Client) error {
		_, err := c.AllReservations(ctx, ReservationQuery{Agent: "builder"})
		return err
	}, "GET /v1/reservations?agent=builder"},
	{"Renew", func(ctx context.Context, c *Client) error {
		_, err := c.Renew(ctx, "r1", 10500*time.Millisecond)
		return err
	}, `POST /v1/reservations/r1/renew {"ttl_seconds":11}`},
	{"Release", func(ctx context.Context, c *Client) error { _, err := c.Release(ctx, "r2"); return err },
		"DELETE /v1/reservations/r2"},
	{"Transfer", func(ctx context.Context, c *Client) error { _, err := c.Transfer(ctx, "r1", "tester"); return err },
		`POST /v1/reservations/r1/transfer {"to":"tester"}`},
	{"ReleaseMine", func(ctx context.Context, c *Client) error { _, err := c.ReleaseMine(ctx); return err },
		"POST /v1/reservations/release-mine"},
	{"Scopes", func(ctx context.Context, c *Client) error { _, err := c.Scopes(ctx); return err }, "GET /v1/scopes"},
	{"RegisterScope", func(ctx context.Context, c *Client) error { _, err := c.RegisterScope(ctx, src); return err },
		"POST /v1/scopes " + srcJSON},
	{"EventsFor", func(ctx context.Context, c *Client) error {
		return c.EventsFor(ctx, "builder", 4, false, func(api.Entry) error { return nil })
	}, "GET /v1/events?after=4&follow=false&for=builder"},
}

// A refusal and who is in the way arrive as they were.
func TestConflicted(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	theirs := api.Reservation{ID: "r3", Scope: "/src", ScopeID: "s3", Patterns: []string{"a/**"}, Mode: api.Exclusive, Agent: "tester",
		UID: 7, HolderAlive: true, Keep: true, Reason: "\x1b[31m\"}", CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
	conflicts := []api.Conflict{{Pattern: "a/b", Overlaps: "a/**", Reservation: theirs}}
	_, err := refusing(t, aTarget, conflicts...).Reserve(t.Context(), aClaim)
	require.ErrorIs(t, err, refusal.Conflict)
	var r *refusal.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, aTarget, r)
	var who *Conflicted
	require.ErrorAs(t, err, &who)
	require.Equal(t, conflicts, who.Conflicts)
	require.Equal(t, api.ExitRefused, api.Exit(err))

	_, err = refusing(t, aTarget).Reserve(t.Context(), aClaim)
	require.ErrorIs(t, err, refusal.Conflict)
	require.False(t, errors.As(err, &who), "nobody is in the way that it could name")
}

// The largest problem that a gate makes of conflicts is read whole.
func TestTheLargestConflict(t *testing.T) {
	patterns := slices.Repeat([]string{strings.Repeat("\x01", 4096)}, 50)
	conflicts := slices.Repeat([]api.Conflict{{Reservation: api.Reservation{Patterns: patterns}}}, 20)
	_, err := refusing(t, aTarget, conflicts...).Reserve(t.Context(), aClaim)
	var who *Conflicted
	require.ErrorAs(t, err, &who)
	require.Equal(t, conflicts, who.Conflicts)
}

func TestEveryReservationIsListed(t *testing.T) {
	d, c := behind(t)
	for i := range 248 {
		d.Reserve(t, "/nowhere/"+strconv.Itoa(i/50), "f"+strconv.Itoa(i))
	}
	all, err := c.AllReservations(t.Context(), ReservationQuery{Limit: 100})
	require.NoError(t, err)
	require.Len(t, all, 250)
	require.Equal(t, "r250", all[249].ID)
	require.Len(t, d.calls(), 3)
	page, err := c.Reservations(t.Context(), ReservationQuery{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, "r3", *page.Next)
}

func TestTimesThatNobodyCanHave(t *testing.T) {
	d, c := behind(t)
	for _, bad := range []api.Reserve{{TTLSeconds: -1}, {WaitSeconds: api.MaxSeconds + 1}, {WaitSeconds: math.MaxInt64}} {
		_, err := c.Reserve(t.Context(), bad)
		require.ErrorIs(t, err, refusal.BadParams)
	}
	require.Empty(t, d.calls())
	_, err := c.Renew(t.Context(), "r12", -time.Second)
	require.ErrorIs(t, err, refusal.BadParams)
}

// deadline answers every call and remembers until when it could have.
type deadline struct{ at time.Time }

func (d *deadline) RoundTrip(r *http.Request) (*http.Response, error) {
	d.at, _ = r.Context().Deadline()
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"id":"r12"}`))}, nil
}

// A claim that waits has more time than other calls; a context's own deadline
// is the last word.
func TestReserveHasTimeToWait(t *testing.T) {
	c := open(t, Options{Socket: "/nowhere"})
	var d deadline
	c.http.Transport = &d
	within := func(from, to time.Duration) {
		require.Greater(t, time.Until(d.at), from)
		require.LessOrEqual(t, time.Until(d.at), to)
	}
	_, err := c.Reserve(t.Context(), api.Reserve{WaitSeconds: 3600})
	require.NoError(t, err)
	within(time.Hour, time.Hour+callTimeout)
	_, err = c.Reserve(t.Context(), api.Reserve{})
	require.NoError(t, err)
	within(0, callTimeout)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = c.Reserve(ctx, api.Reserve{WaitSeconds: 3600})
	require.NoError(t, err)
	within(0, time.Minute)
}

// Whoever gives up waiting has hung up.
func TestReserveEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	waits, gone := make(chan struct{}), make(chan struct{})
	answer(t, path, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(waits)
		<-r.Context().Done()
		close(gone)
	})
	c := open(t, Options{Socket: path})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waits; cancel() }()
	_, err := c.Reserve(ctx, api.Reserve{WaitSeconds: 3600})
	require.ErrorIs(t, err, context.Canceled)
	<-gone
}

func TestTokens(t *testing.T) {
	d, _ := behind(t)
	token := servicetest.Token()
	e := env{"GATED_AGENT_TOKEN_FILE": "/run/token"}
	reads := func(path string) (string, error) {
		require.Equal(t, "/run/token", path)
		return token, nil
	}
	for name, o := range map[string]Options{
		"given":          {Token: token},
		"from the file":  {Getenv: e.get, ReadToken: reads},
		"given and file": {Token: token, Getenv: e.get, ReadToken: func(string) (string, error) { return "other", nil }},
	} {
		o.Socket = d.socket
		c := open(t, o)
		self, err := c.Self(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, "builder", self.Agent.Name, name)
		r, err := c.Reserve(t.Context(), aClaim)
		require.NoError(t, err)
		require.Equal(t, "builder", r.Agent, name)
		require.NoError(t, c.Events(t.Context(), 0, false, func(api.Entry) error { return nil }))
	}
	_, err := open(t, Options{Socket: d.socket, Token: "stolen"}).Self(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
	for name, o := range map[string]Options{"no variable": {ReadToken: reads}, "nobody reads": {Getenv: e.get}} {
		o.Socket = d.socket
		self, err := open(t, o).Self(t.Context())
		require.NoError(t, err, name)
		require.Nil(t, self.Agent, name)
	}
}

// A token that cannot be read is not a caller without one.
func TestATokenFileThatCannotBeRead(t *testing.T) {
	e := env{"GATED_AGENT_TOKEN_FILE": "/run/token"}
	_, err := New(Options{Getenv: e.get, ReadToken: func(string) (string, error) { return "", refusal.New(refusal.NotAllowed, "others may read it") }})
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "GATED_AGENT_TOKEN_FILE")
	_, err = New(Options{Getenv: e.get, ReadToken: func(string) (string, error) { return "", nil }})
	require.ErrorIs(t, err, refusal.Malformed)
}

// A token is for the gate of this host.
func TestATokenIsNotSentElsewhere(t *testing.T) {
	e := env{"GATED_AGENT_TOKEN_FILE": "/run/token"}
	read := false
	o := Options{Remote: "ssh://pve1", Getenv: e.get, ReadToken: func(string) (string, error) { read = true; return "secret", nil }}
	require.Empty(t, open(t, o).token)
	require.False(t, read)
	o.Token = "secret"
	require.Empty(t, open(t, o).token)
}

// A dial ends with its call: nothing goes on to ask a daemon whose queue is
// full.
func TestADialEndsWithItsCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	first, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()

	c := open(t, Options{Socket: path})
	transport := c.http.Transport.(*http.Transport)
	dial, ended := transport.DialContext, make(chan error, 1)
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		ended <- err
		return conn, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	unreachable(t, errOf(c.Status(ctx)))
	require.ErrorIs(t, <-ended, context.Canceled)
}
