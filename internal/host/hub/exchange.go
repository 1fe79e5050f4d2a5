package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"gated/internal/base/httpclient"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

const (
	// maxCA is the largest file of certificates, in bytes.
	maxCA = 1 << 20
)

// exchange makes single calls to a hub. It is safe for concurrent use.
type exchange struct {
	url       string
	ca        string
	tokenFile string
	timeout   time.Duration

	mu     sync.Mutex
	pinned []byte // content of the file of certificates when client was made
	client *http.Client
}

// answer is a complete answer of status 200, or says that nothing changed.
type answer struct {
	same bool // 304
	none bool // 404: the hub does not have this document
	body []byte
	etag string
}

// get asks for a document. etag is that of the last answer, or empty. An error is *refusal.Refusal: Unavailable if the hub
// does not answer, or not with 200; NotAllowed if the gate does not trust the hub or the hub does not trust the gate;
// Malformed or Oversized for any other answer.
func (x *exchange) get(ctx context.Context, path, etag string) (answer, error) {
	h := http.Header{"Accept": {ContentType}}
	if etag != "" {
		h.Set("If-None-Match", etag)
	}
	var a answer
	err := x.call(ctx, http.MethodGet, path, h, nil, func(resp *http.Response) (err error) {
		a, err = read(resp, etag)
		return err
	})
	return a, err
}

// post sends a document. It reads only the status of the answer.
func (x *exchange) post(ctx context.Context, path string, body []byte) (answer, error) {
	var a answer
	err := x.call(ctx, http.MethodPost, path, http.Header{"Content-Type": {ContentType}}, body, func(resp *http.Response) error {
		switch {
		case resp.StatusCode >= 200 && resp.StatusCode < 300:
			return nil
		case resp.StatusCode == http.StatusNotFound:
			a.none = true
			return nil
		}
		return status(resp)
	})
	return a, err
}

// call does one exchange within the timeout, from the name's look-up to the last
// byte that use reads.
func (x *exchange) call(ctx context.Context, method, path string, h http.Header, body []byte, use func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	client, err := x.dial()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, x.url+path, bytes.NewReader(body))
	if err != nil {
		return refusal.New(refusal.Malformed, "the hub's address: %v", err)
	}
	r.Header = h
	if x.tokenFile != "" {
		token, err := ownfile.ReadToken(x.tokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return x.broken(err)
	}
	defer resp.Body.Close()
	return use(resp)
}

// broken words an error of the exchange.
func (x *exchange) broken(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the configuration shows the address already
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refusal.New(refusal.Unavailable, "the hub did not answer within %s", x.timeout)
	case errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &cert):
		return refusal.New(refusal.NotAllowed, "the gate does not trust the hub: %s", clip(err.Error())).
			WithHint("ca in gated.yaml names the certificates that it trusts")
	}
	return refusal.New(refusal.Unavailable, "the hub cannot be reached: %s", clip(err.Error()))
}

// status refuses an answer unless it is a document or "not changed".
func status(resp *http.Response) error {
	switch c := resp.StatusCode; {
	case c == http.StatusUnauthorized || c == http.StatusForbidden:
		return refusal.New(refusal.NotAllowed, "the hub answered %d", c).
			WithHint("token_file in gated.yaml names the file with the token")
	case c >= 300 && c < 400:
		return refusal.New(refusal.Malformed, "the hub answered %d: redirects are not followed", c).
			WithHint("put the address that it names into gated.yaml")
	default:
		return refusal.New(refusal.Unavailable, "the hub answered %d", c)
	}
}

// read reads the answer to a GET that sent etag.
func read(resp *http.Response, etag string) (answer, error) {
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return answer{same: true}, nil
	case resp.StatusCode == http.StatusNotModified:
		return answer{}, refusal.New(refusal.Malformed, "the hub answered 304, but the gate sent no ETag")
	case resp.StatusCode == http.StatusNotFound:
		return answer{none: true}, nil
	case resp.StatusCode != http.StatusOK:
		return answer{}, status(resp)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != ContentType {
		return answer{}, refusal.New(refusal.Malformed, "the hub answered with the type %q, not %s",
			clip(resp.Header.Get("Content-Type")), ContentType)
	}
	if c := resp.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return answer{}, refusal.New(refusal.Malformed,
			"the hub answered in the encoding %q, which the gate did not ask for", clip(c))
	}
	if resp.ContentLength > MaxAnswer {
		return answer{}, tooLarge()
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return answer{}, refusal.New(refusal.Unavailable, "the hub's answer did not arrive in time")
	case err != nil:
		return answer{}, refusal.New(refusal.Unavailable, "the hub's answer broke off: %s", clip(err.Error()))
	case len(b) > MaxAnswer:
		return answer{}, tooLarge()
	}
	return answer{body: b, etag: tag(resp.Header)}, nil
}

func tooLarge() error {
	return refusal.New(refusal.Oversized, "the hub's answer has more than %d bytes", MaxAnswer)
}

// tag returns the answer's ETag unchanged, or "" if it has none that could be sent back (RFC 9110, section 8.8.3).
func tag(h http.Header) string {
	t := h.Get("ETag")
	inner := strings.TrimPrefix(t, "W/")
	if len(t) > MaxETag || len(inner) < 2 || inner[0] != '"' || inner[len(inner)-1] != '"' || strings.Contains(inner[1:len(inner)-1], `"`) {
		return ""
	}
	return t
}

// dial returns the client, made anew when the file of certificates changed.
func (x *exchange) dial() (*http.Client, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ca == "" {
		if x.client == nil {
			x.client = httpclient.New(nil, strings.HasPrefix(x.url, "http:"))
		}
		return x.client, nil
	}
	pem, err := readFile(x.ca, maxCA)
	if errors.Is(err, refusal.NotAllowed) {
		return nil, err
	}
	if err != nil {
		return nil, refusal.New(refusal.Unavailable, "the hub's certificates: %v", err)
	}
	if x.client != nil && bytes.Equal(pem, x.pinned) {
		return x.client, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, refusal.New(refusal.Malformed, "%s has no certificate", x.ca).
			WithHint("it is PEM, as openssl x509 writes it")
	}
	x.closeIdle()
	x.client, x.pinned = httpclient.New(pool, false), pem
	return x.client, nil
}

// close closes idle connections.
func (x *exchange) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closeIdle()
}

func (x *exchange) closeIdle() {
	if x.client != nil {
		x.client.CloseIdleConnections()
	}
}

func readFile(path string, most int64) ([]byte, error) {
	b, err := ownfile.Own().Read(path, most)
	if err == nil && int64(len(b)) > most {
		err = refusal.New(refusal.Oversized, "%s has more than %d bytes", path, most)
	}
	return b, err
}
