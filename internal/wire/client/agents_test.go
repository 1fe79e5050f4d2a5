package client

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/api"
)

var (
	src     = api.Place{Path: "/src", Device: 1, Inode: math.MaxUint64, Fold: true}
	aClaim  = api.Reserve{Scope: src, Patterns: []string{"a", "b/**"}, TTLSeconds: 60, WaitSeconds: 5}
	aTarget = refusal.New(refusal.Conflict, "somebody has it").WithHint("wait")
)

// agentMethods are those about agents and reservations.
var agentMethods = []method{
	{"Agents", func(ctx context.Context, c *Client) error { return failure(c.Agents(ctx)) }, "agents"},
	{"RegisterAgent", func(ctx context.Context, c *Client) error {
		return failure(c.RegisterAgent(ctx, api.RegisterAgent{Name: "builder", PID: 7, Reaper: 1}))
	}, "register builder 7 1 false"},
	{"Unregister", func(ctx context.Context, c *Client) error { return failure(c.Unregister(ctx, "builder")) }, "unregister builder"},
	{"Reserve", func(ctx context.Context, c *Client) error { return failure(c.Reserve(ctx, aClaim)) }, "reserve /src [a b/**] 60 5 "},
	{"Check", func(ctx context.Context, c *Client) error {
		return failure(c.Check(ctx, api.Check{Scope: src, Patterns: []string{"a"}}))
	}, "check /src [a]"},
	{"Reservations", func(ctx context.Context, c *Client) error {
		return failure(c.Reservations(ctx, ReservationQuery{Scope: "/s rc", Agent: "uid:7", After: "r3", Limit: 9}))
	}, "list /s rc uid:7 r3 9"},
	{"AllReservations", func(ctx context.Context, c *Client) error {
		return failure(c.AllReservations(ctx, ReservationQuery{Agent: "builder"}))
	}, "list  builder r0 100"},
	{"Renew", func(ctx context.Context, c *Client) error { return failure(c.Renew(ctx, "r12", 1500*time.Millisecond)) },
		"renew r12 2s"},
	{"Release", func(ctx context.Context, c *Client) error { return failure(c.Release(ctx, "r12")) }, "release r12"},
	{"ReleaseMine", func(ctx context.Context, c *Client) error { return failure(c.ReleaseMine(ctx)) }, "release mine"},
	{"Transfer", func(ctx context.Context, c *Client) error { return failure(c.Transfer(ctx, "r12", "tester")) }, "transfer r12 tester"},
	{"Scopes", func(ctx context.Context, c *Client) error { return failure(c.Scopes(ctx)) }, "scopes"},
	{"RegisterScope", func(ctx context.Context, c *Client) error { return failure(c.RegisterScope(ctx, src)) },
		"scope /src 1 18446744073709551615 true"},
	{"EventsFor", func(ctx context.Context, c *Client) error {
		return c.EventsFor(ctx, "builder", 4, false, func(api.Entry) error { return nil })
	}, "events 4 builder"},
}

// A refusal and who is in the way arrive as they were.
func TestConflicted(t *testing.T) {
	d, c := behind(t)
	d.err = aTarget
	theirs := api.Reservation{ID: "r3", Scope: "/src", ScopeID: "s3", Patterns: []string{"a/**"}, Mode: api.Exclusive, Agent: "tester",
		UID: 7, HolderAlive: true, Keep: true, Reason: "\x1b[31m\"}", CreatedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	d.conflicts = []api.Conflict{{Pattern: "a/b", Overlaps: "a/**", Reservation: theirs}}
	_, err := c.Reserve(t.Context(), aClaim)
	require.ErrorIs(t, err, refusal.Conflict)
	var r *refusal.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, aTarget, r)
	var who *Conflicted
	require.ErrorAs(t, err, &who)
	require.Equal(t, d.conflicts, who.Conflicts)
	require.Equal(t, api.ExitRefused, api.Exit(err))

	d.conflicts = nil
	_, err = c.Reserve(t.Context(), aClaim)
	require.ErrorIs(t, err, refusal.Conflict)
	require.False(t, errors.As(err, &who), "nobody is in the way that it could name")
}

// The largest problem that a gate makes of conflicts is read whole.
func TestTheLargestConflict(t *testing.T) {
	d, c := behind(t)
	d.err = aTarget
	patterns := make([]string, 50)
	for i := range patterns {
		patterns[i] = strings.Repeat("\x01", 4096)
	}
	for range 20 {
		d.conflicts = append(d.conflicts, api.Conflict{Reservation: api.Reservation{Patterns: patterns}})
	}
	_, err := c.Reserve(t.Context(), aClaim)
	var who *Conflicted
	require.ErrorAs(t, err, &who)
	require.Equal(t, d.conflicts, who.Conflicts)
}

func TestEveryReservationIsListed(t *testing.T) {
	d, c := behind(t)
	d.kept = 250
	all := must.Get(c.AllReservations(t.Context(), ReservationQuery{Limit: 100}))(t)
	require.Len(t, all, 250)
	require.Equal(t, "r250", all[249].ID)
	require.Len(t, d.calls(), 3)
	page := must.Get(c.Reservations(t.Context(), ReservationQuery{Limit: 3}))(t)
	require.Equal(t, "r3", *page.Next)
}

func TestTimesThatNobodyCanHave(t *testing.T) {
	d, c := behind(t)
	for _, bad := range []api.Reserve{{TTLSeconds: -1}, {WaitSeconds: api.MaxSeconds + 1}, {WaitSeconds: math.MaxInt64}} {
		must.Fail(c.Reserve(t.Context(), bad))(t, refusal.BadParams)
	}
	require.Empty(t, d.calls())
	must.Fail(c.Renew(t.Context(), "r12", -time.Second))(t, refusal.BadParams)
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
	must.Get(c.Reserve(t.Context(), api.Reserve{WaitSeconds: 3600}))(t)
	within(time.Hour, time.Hour+callTimeout)
	must.Get(c.Reserve(t.Context(), api.Reserve{}))(t)
	within(0, callTimeout)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Get(c.Reserve(ctx, api.Reserve{WaitSeconds: 3600}))(t)
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
	must.Fail(c.Reserve(ctx, api.Reserve{WaitSeconds: 3600}))(t, context.Canceled)
	<-gone
}

func TestTokens(t *testing.T) {
	d, _ := behind(t)
	d.change(func() { d.token = "secret" })
	e := env{"GATED_AGENT_TOKEN_FILE": "/run/token"}
	reads := func(path string) (string, error) {
		require.Equal(t, "/run/token", path)
		return "secret", nil
	}
	for name, o := range map[string]Options{
		"given":          {Token: "secret"},
		"from the file":  {Getenv: e.get, ReadToken: reads},
		"given and file": {Token: "secret", Getenv: e.get, ReadToken: func(string) (string, error) { return "other", nil }},
	} {
		o.Socket = d.socket
		c := open(t, o)
		self := must.Get(c.Self(t.Context()))(t, name)
		require.Equal(t, api.Caller{UID: 7, Why: "container#9"}, self, name)
		must.Get(c.Reserve(t.Context(), aClaim))(t)
		require.Equal(t, []string{"reserve /src [a b/**] 60 5 container#9"}, d.calls(), name)
		require.NoError(t, c.Events(t.Context(), 0, false, func(api.Entry) error { return nil }))
		d.calls()
	}
	must.Fail(open(t, Options{Socket: d.socket, Token: "stolen"}).Self(t.Context()))(t, refusal.NotAllowed)
	for name, o := range map[string]Options{"no variable": {ReadToken: reads}, "nobody reads": {Getenv: e.get}} {
		o.Socket = d.socket
		self := must.Get(open(t, o).Self(t.Context()))(t, name)
		require.Empty(t, self.Why, name)
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
	fd := must.Get(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	first := must.Get(net.Dial("unix", path))(t)
	defer func() { require.NoError(t, first.Close()) }()

	c := open(t, Options{Socket: path})
	transport := c.http.Transport.(*http.Transport)
	dial, ended := transport.DialContext, make(chan error, 1)
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		ended <- err
		return conn, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	unreachable(t, errOf(c.Status(ctx)))
	require.ErrorIs(t, <-ended, context.Canceled)
}
