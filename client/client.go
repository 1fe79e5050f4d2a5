package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"gated/client/api"
	"gated/internal/base/hostgate"
	"gated/internal/base/refusal"
)

const (
	// callTimeout bounds a call whose context has no deadline. A gate answers within 60 seconds, if only that it could not
	// decide, and that answer should be heard. remoteTimeout bounds a remote call, during which ssh may ask a person something.
	callTimeout   = 90 * time.Second
	remoteTimeout = 5 * time.Minute
	// slowAfter is when a person is told that the gate has not answered yet.
	slowAfter = 2 * time.Second
	// maxAnswer is the largest answer that is read, in bytes.
	maxAnswer = 256 << 20
	// maxProblem is the largest problem that is read, in bytes. It may have up to 20 reservations of 50 patterns of 4
	// KiB each, which JSON may escape.
	maxProblem = 32 << 20
)

// Refusal is the error of a gate that refuses. It is api.Refusal.
type Refusal = api.Refusal

// Client talks to one gate. Several goroutines may use it. Its methods return *api.Refusal for the daemon's refusals,
// and *Unreachable if no gate answers.
type Client struct {
	paths      []string // or the remote gate's address
	file       string   // the client.yaml that names the path; empty for none
	host       hostgate.Host
	trusted    map[uint32]bool
	configured string  // GATED_UID
	token      string  // an agent's, sent with each request; empty for none
	remote     *Remote // nil for a gate of this host
	processes  processes
	timeout    time.Duration
	unattended bool
	lost, back func() // never nil
	slow       func(socket string)
	slowAfter  time.Duration
	saidSlow   atomic.Bool
	http       *http.Client
	last       atomic.Pointer[string] // the path or address that it connected to last
}

// New returns a client. It connects at the first call. It refuses a bad GATED_UID, Remote or client.yaml as Malformed, and as
// NotAllowed a client.yaml that others could have written. It returns the error of ReadToken.
func New(o Options) (*Client, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	var at place
	var err error
	if o.Remote == "" {
		if at, err = o.place(); err != nil {
			return nil, err
		}
	}
	trusted, err := o.trusted(at)
	if err != nil {
		return nil, err
	}
	c := &Client{paths: at.paths, file: at.file, trusted: trusted, configured: o.Getenv("GATED_UID"), timeout: callTimeout,
		lost: orNothing(o.Lost), back: orNothing(o.Back), slow: o.Slow, slowAfter: slowAfter, unattended: o.Unattended}
	if o.Remote != "" {
		r, err := ParseRemote(o.Remote)
		if err != nil {
			return nil, err
		}
		c.remote, c.paths, c.timeout = &r, []string{r.String()}, remoteTimeout
	} else if c.token, err = o.token(); err != nil {
		return nil, err
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				ctx, end := forItsCall(ctx)
				defer end()
				return c.dial(ctx)
			},
			DisableCompression:  true,
			IdleConnTimeout:     30 * time.Second,
			MaxIdleConnsPerHost: 64,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func orNothing(fn func()) func() {
	if fn == nil {
		return func() {}
	}
	return fn
}

// Close closes idle connections, and ends every ssh.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.processes.end()
}

// Address returns the address of the gate that answered last, or "".
func (c *Client) Address() Address {
	last := c.last.Load()
	switch {
	case last == nil:
		return ""
	case c.remote != nil:
		return Address(*last)
	default:
		return UnixAddress(*last)
	}
}

// call is one request to the daemon.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	body   []byte // nil for none
	header map[string]string
	wait   time.Duration // how long the daemon may let it wait, in addition to the time for any call
	lasts  bool          // by its nature, so that nobody needs to be told
	also   int           // a status that is a success beside 2xx; 0 for none
}

// addressable refuses a path with an id or a name that no address of the gate can have: the gate could only say that
// there is no such path. A caller gave it, for example from a variable that is empty.
func addressable(escaped string) error {
	for _, e := range strings.Split(strings.TrimPrefix(escaped, "/"), "/") {
		part, err := url.PathUnescape(e)
		if err != nil || part == "" || path.Clean("/"+part) != "/"+part {
			return refusal.New(refusal.Malformed, "%q is no id and no name", part).
				WithHint("gated jobs, gated guests and opsign list show the ids and names that there are")
		}
	}
	return nil
}

// send makes the request and returns an answer whose status is a success. The
// caller closes its body.
func (c *Client) send(ctx context.Context, in call) (*http.Response, error) {
	if err := addressable(in.path); err != nil {
		return nil, err
	}
	u := "http://gated" + in.path
	if len(in.query) > 0 {
		u += "?" + in.query.Encode()
	}
	var body io.Reader
	if in.body != nil {
		body = bytes.NewReader(in.body)
	}
	req, err := http.NewRequestWithContext(context.WithValue(ctx, callKey{}, ctx), in.method, u, body)
	if err != nil {
		return nil, refusal.New(refusal.Malformed, "the request cannot be written: %v", err)
	}
	for k, v := range in.header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if c.token != "" {
		req.Header.Set(api.TokenHeader, c.token)
	}
	answered := c.slowly(in)
	resp, err := c.http.Do(req)
	answered()
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode/100 == 2 || resp.StatusCode == in.also && kind == api.ContentType {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, refusalOf(resp)
}

// slowly tells the client's owner if no answer comes, unless the call lasts by its nature. The caller says when it was answered.
func (c *Client) slowly(in call) (answered func()) {
	if c.slow == nil || c.remote != nil || in.wait > 0 || in.lasts {
		return func() {}
	}
	over := make(chan struct{})
	timer := time.AfterFunc(c.slowAfter, func() {
		defer close(over)
		// Without a connection, the dial says what is wrong.
		if socket := c.last.Load(); socket != nil && c.saidSlow.CompareAndSwap(false, true) {
			c.slow(*socket)
		}
	})
	return func() {
		if !timer.Stop() {
			<-over // what is said next comes after it
		}
	}
}

// refusal rebuilds the daemon's refusal.
func refusalOf(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p api.Problem
	if err != nil || kind != api.ProblemType || api.DecodeAnswer(b, &p) != nil {
		return refusal.New(refusal.Internal, "the daemon answered %s without saying why", resp.Status)
	}
	if len(p.Conflicts) > 0 {
		return &Conflicted{Refusal: p.Refusal(), Conflicts: p.Conflicts}
	}
	return p.Refusal()
}

// Conflicted is a refusal because of others' reservations.
type Conflicted struct {
	*api.Refusal
	Conflicts []api.Conflict // the reservations in the way, at least one
}

// Unwrap returns the refusal.
func (c *Conflicted) Unwrap() error { return c.Refusal }

// broken returns the caller's error for a transport's error.
func (c *Client) broken(ctx context.Context, err error) error {
	var gone *Unreachable
	switch {
	case errors.As(err, &gone):
		return gone
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	// Its text has the path by which the socket was bound.
	var sys *net.OpError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in time: %w", err)
	} else {
		err = fmt.Errorf("the connection broke before the answer: %w", err)
	}
	path := c.paths[len(c.paths)-1]
	if last := c.last.Load(); last != nil {
		path = *last
	}
	hint := ""
	if path == SystemSocket {
		hint = c.host.LookWhy()
	}
	return &Unreachable{Tried: []Attempt{{Path: path, Err: err, Hint: hint}}, Asked: true}
}

// json makes a call and decodes its answer into out. A nil body sends none.
func (c *Client) json(ctx context.Context, in call, body, out any) error {
	if body != nil {
		b, err := api.Encode(body)
		if err != nil {
			return refusal.New(refusal.Malformed, "the request cannot be written as JSON: %v", err)
		}
		in.body = b
		if in.header == nil {
			in.header = map[string]string{}
		}
		in.header["Content-Type"] = api.ContentType
	}
	b, _, err := c.bytes(ctx, in)
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	if err := api.DecodeAnswer(b, out); err != nil {
		return refusal.New(refusal.Internal, "the daemon's answer is not understood: %v", err).
			WithHint("are both of the same version?")
	}
	return nil
}

// bytes makes a call and reads its answer to the end.
func (c *Client) bytes(ctx context.Context, in call) ([]byte, http.Header, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.wait+c.timeout)
		defer cancel()
	}
	resp, err := c.send(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, c.broken(ctx, err)
	}
	if len(b) > maxAnswer {
		return nil, nil, refusal.New(refusal.Oversized, "the daemon's answer has more than %d bytes", maxAnswer)
	}
	return b, resp.Header, nil
}
