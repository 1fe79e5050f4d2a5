package sink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gated/internal/notify/message"
)

const (
	// maxAnswer is the most bytes that are read of an answer.
	maxAnswer = 4 << 10
	// maxAfter is the longest wait that a receiver can ask for.
	maxAfter = time.Hour
)

// caller makes HTTP calls to one receiver.
type caller struct{ client *http.Client }

// newCaller returns a caller that trusts the authorities in ca, PEM, or the system's without it. It follows no redirect,
// because the secrets of a call are for one host. It uses no proxy, and a new connection for each call.
func newCaller(ca []byte) (caller, error) {
	config, err := trusts(ca)
	if err != nil {
		return caller{}, err
	}
	return caller{&http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
			ForceAttemptHTTP2: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// trusts returns the rules for a receiver's certificate.
func trusts(ca []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("ca_file has no certificate")
		}
	}
	return c, nil
}

// call makes one call and judges its answer.
func (c caller) call(ctx context.Context, method, address string, header http.Header, body []byte, now time.Time) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return "", &Failure{Why: "the address is not understood", Refused: true}
	}
	req.Header = header
	req.Header.Set("User-Agent", "gated-notify")
	resp, err := c.client.Do(req)
	if err != nil {
		return "", &Failure{Why: plain(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode/100 == 2 {
		err = nil // it took the message; what it says about that does not matter
	}
	return judge(resp, string(text), err, now)
}

// judge says what an answer means.
func judge(resp *http.Response, text string, broke error, now time.Time) (string, error) {
	said := resp.Status
	if text = strings.TrimSpace(text); text != "" {
		said += ": " + text
	}
	f := &Failure{Why: said, After: retryAfter(resp.Header.Get("Retry-After"), now)}
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return said, nil
	case code/100 == 3:
		return "", &Failure{Why: resp.Status + ": it redirects to " + target(resp) + ", which is not followed", Refused: true}
	case broke != nil:
		return "", &Failure{Why: resp.Status + ": " + plain(broke)}
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return "", f
	case code/100 == 4:
		f.Refused = true
	}
	return "", f
}

// target names the host of a redirect. The rest of its address could be a secret.
func target(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil || u.Host == "" {
		return "an address that is not understood"
	}
	return u.Scheme + "://" + u.Host
}

// retryAfter reads the header Retry-After (RFC 9110, section 10.2.3): seconds, or a date. The result is within 0 and
// maxAfter; 0 if there is none.
func retryAfter(s string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		d = at.Sub(now)
	}
	return max(0, min(d, maxAfter))
}

// ntfy publishes to a topic.
type ntfy struct {
	caller
	url, topic, token string
}

func (n ntfy) Send(ctx context.Context, m message.Message, now time.Time) (string, error) {
	body, err := m.Ntfy(n.topic)
	if err != nil {
		return "", unwritable(err)
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if n.token != "" {
		h.Set("Authorization", "Bearer "+n.token)
	}
	return n.call(ctx, http.MethodPost, n.url, h, body, now)
}

func unwritable(err error) error {
	return &Failure{Why: fmt.Sprintf("the message cannot be written: %v", err), Refused: true}
}

// matrixURL returns where a message is sent to a room (Matrix Client-Server API, PUT rooms/{roomId}/send). The
// transaction's id is the message's, so a homeserver takes a message that comes twice once.
func matrixURL(base, room, id string) string {
	return strings.TrimSuffix(base, "/") + "/_matrix/client/v3/rooms/" + url.PathEscape(room) + "/send/m.room.message/" + url.PathEscape(id)
}
