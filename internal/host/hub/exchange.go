package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

const (
	// maxHeader is the largest header of an answer, in bytes.
	maxHeader = 64 << 10
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
		token, err := ReadTokenFile(x.tokenFile)
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
			x.client = newClient(nil, strings.HasPrefix(x.url, "http:"))
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
	x.client, x.pinned = newClient(pool, false), pem
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

// newClient returns a client that trusts the certificates of the pool alone, or with nil those of the system. It
// follows no redirect, unpacks nothing and asks no proxy. With near it connects to this machine alone.
func newClient(pool *x509.CertPool, near bool) *http.Client {
	d := &net.Dialer{}
	if near {
		d.Control = nearOnly
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
			MaxConnsPerHost:        2,
			IdleConnTimeout:        90 * time.Second,
		},
	}
}

// nearOnly refuses a connection to another machine, whatever address a name resolves to.
func nearOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New(host + " is another machine, and http does not leave this one")
	}
	return nil
}

func readFile(path string, most int64) ([]byte, error) {
	b, err := ownfile.Own().Read(path, most)
	if err == nil && int64(len(b)) > most {
		err = refusal.New(refusal.Oversized, "%s has more than %d bytes", path, most)
	}
	return b, err
}

// maxToken bounds a token, in bytes.
const maxToken = 1024

// tokenText matches a bearer token (RFC 6750, section 2.1).
var tokenText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._~+/-]{16,}=*$`)
})

// ReadTokenFile returns the token in a file of one line: at least 16 characters of RFC 6750. It refuses a file that
// others may read or change, a link, or anything but a regular file, as NotAllowed. A file without a token is
// Malformed, a missing file Unavailable. No error shows its content.
func ReadTokenFile(path string) (string, error) {
	if err := ownfile.Own().CheckAbove(path); errors.Is(err, refusal.NotAllowed) {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", refusal.New(refusal.NotAllowed, "%s is a symbolic link", path).WithHint("name the file itself")
	}
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	if !info.Mode().IsRegular() {
		return "", refusal.New(refusal.NotAllowed, "%s is no regular file", path)
	}
	if err := ownfile.Own().CheckOpen(f); err != nil {
		return "", err
	}
	switch {
	case info.Mode().Perm()&0o077 != 0:
		return "", refusal.New(refusal.NotAllowed, "%s may be read by others", path).WithHint("chmod 600 %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	token := strings.TrimSuffix(string(b), "\n")
	if len(token) > maxToken || !tokenText().MatchString(token) {
		return "", refusal.New(refusal.Malformed, "%s holds no token: one line of 16 to %d letters, digits and -._~+/",
			path, maxToken).
			WithHint("head -c 32 /dev/urandom | base64 > %s", path)
	}
	return token, nil
}
