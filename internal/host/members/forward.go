package members

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// Bounds of a connection to another member. A member that is gone is noticed within dialTime, or, while a call waits for its
// answer, after lostTime: by the probes of keepAlive, or because the call itself was not acknowledged.
const (
	dialTime  = 3 * time.Second
	lostTime  = 11 * time.Second
	idleConns = 64
	idleTime  = 30 * time.Second // less than the server's
)

// errSilent ends a call whose answer took too long.
var errSilent = errors.New("no answer came in time")

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// carried are the headers of a call that the active member reads. A token is not one of them: the member has looked it up.
var carried = []string{"Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-Id", "Content-Type"}

// Forwarder sends calls to other members. Several goroutines may use it.
type Forwarder struct {
	id *Identity

	mu sync.Mutex
	to map[string]*http.Transport
}

// NewForwarder returns a forwarder of this member's calls.
func NewForwarder(id *Identity) *Forwarder {
	return &Forwarder{id: id, to: map[string]*http.Transport{}}
}

// Close closes connections that no call uses.
func (f *Forwarder) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.to {
		t.CloseIdleConnections()
	}
}

// transport has the connections to a member. HTTP/1.1 ends a call with its connection, as the local socket does.
func (f *Forwarder) transport(member string) *http.Transport {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.to[member]; t != nil {
		return t
	}
	dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive, Control: soonLost}
	t := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: f.id.Client(member), TLSHandshakeTimeout: dialTime,
		MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: 16 << 10, DisableCompression: true,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	f.to[member] = t
	return t
}

// soonLost has the kernel give up data that is not acknowledged. It sends no probes while such data is under way, and would
// send that again for a quarter of an hour (tcp(7), TCP_USER_TIMEOUT).
func soonLost(_, _ string, c syscall.RawConn) error {
	var err error
	return cmp.Or(c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lostTime.Milliseconds()))
	}), err)
}

// Send has a member answer a call, and waits for the answer's head for so long: a program that is stopped still has a kernel
// that acknowledges. An error is a refusal: Standby if nothing was sent, and Unavailable if the member may have got it. The
// caller ends ctx and closes the answer's body.
func (f *Forwarder) Send(ctx context.Context, within time.Duration, member string, c Call, r *http.Request, body []byte) (*http.Response, error) {
	if err := f.id.Fault(); err != nil {
		return nil, err
	}
	var sent atomic.Bool
	ctx, silent := context.WithCancelCause(ctx)
	defer time.AfterFunc(within, func() { silent(errSilent) }).Stop()
	out, err := f.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), member, c, r, body)
	if err != nil {
		return nil, err
	}
	resp, err := f.transport(member).RoundTrip(out)
	if err != nil {
		return nil, f.broken(ctx, member, err, sent.Load())
	}
	return resp, nil
}

func (f *Forwarder) request(ctx context.Context, member string, c Call, r *http.Request, body []byte) (*http.Request, error) {
	u := url.URL{Scheme: "https", Host: f.id.Members[member].Address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	var in io.Reader
	if len(body) > 0 {
		in = bytes.NewReader(body)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), in)
	if err != nil {
		return nil, err
	}
	out.GetBody = nil // so a call that may have arrived is not sent again, unless it has a key
	for _, name := range carried {
		if v := r.Header.Values(name); len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set(CallerHeader, c.String())
	return out, nil
}

// broken says why there is no answer.
func (f *Forwarder) broken(ctx context.Context, member string, err error, sent bool) error {
	var refused *refusal.Refusal
	switch {
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSilent):
		return ctx.Err()
	case errors.As(err, &refused):
		return refusal.New(refused.Code, "member %s decides, and cannot be asked: %s", member, refused.Detail).WithHint("%s", refused.Hint)
	case strings.Contains(err.Error(), "remote error: tls: "):
		return refusal.New(refusal.NotAllowed, "member %s decides, and does not accept the certificate of member %s", member, f.id.Self).
			WithHint("compare store.members.%s.fingerprint in gated.yaml of %s, and the clocks; its log has the reason", f.id.Self, member)
	case sent:
		return refusal.New(refusal.Unavailable, "member %s decides, and its answer did not come: what was asked may have happened", member).
			WithHint("look before you ask again; with the same Idempotency-Key it happens once")
	}
	return refusal.New(refusal.Standby, "member %s decides, and does not answer at %s: %v", member, f.id.Members[member].Address, err).
		WithHint("ask again; if it is gone, another member takes over")
}
