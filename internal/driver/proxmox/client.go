package proxmox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// values are the parameters of one request. They are only texts: Proxmox VE reads 2048 and
// "2048" alike.
type values map[string]string

// client sends requests. It sends each once, with a deadline.
type client struct {
	through *http.Client
	base    string // the URL above every path
	token   string // the token's id, without the secret
	signed  string // the header Authorization, with the secret
	timeout time.Duration
	held    func() error // Config.Held
}

// newClient reads the token and the certificates to trust. It does not connect.
func newClient(cfg Config) (*client, error) {
	id, secret, err := readToken(cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	through, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	// The client follows no redirect, because a request has the token.
	own := &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &client{through: own, base: strings.TrimSuffix(cfg.URL, "/") + "/api2/json", token: id,
		signed: "PVEAPIToken=" + id + "=" + secret, timeout: cfg.Timeout, held: cfg.Held}, nil
}

// send does one request and returns the answer's data. The data is empty for null. Every status
// but 2xx is an error. The whole body is read within the request's deadline.
func (c *client) send(ctx context.Context, method, path string, v values) ([]byte, error) {
	if method != http.MethodGet && c.held != nil {
		if err := c.held(); err != nil {
			return nil, &unsentError{err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, method, path, v)
	if err != nil {
		return nil, err
	}
	body, err := c.answer(req)
	var data []byte
	if err == nil {
		data, err = decodeAnswer(body)
	}
	if err != nil && ctx.Err() != nil {
		// The HTTP client's error text varies here. A TLS server can even end the body properly when the deadline cuts
		// it off. The server may have done the request.
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return data, err
}

// request makes a signed request. Parameters are a query where a request has no body, else a
// JSON object.
func (c *client) request(ctx context.Context, method, path string, v values) (*http.Request, error) {
	at := c.base + path
	var body io.Reader
	switch method {
	case http.MethodGet, http.MethodDelete:
		if len(v) > 0 {
			at += "?" + v.query()
		}
	case http.MethodPost, http.MethodPut:
		if len(v) > 0 {
			text, err := json.Marshal(v, json.Deterministic(true))
			if err != nil {
				return nil, err
			}
			body = bytes.NewReader(text)
		}
	default:
		return nil, fmt.Errorf("no method %s", method)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "gated")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", c.signed)
	return req, nil
}

// query returns the parameters as the query of a URL.
func (v values) query() string {
	q := make(url.Values, len(v))
	for name, text := range v {
		q.Set(name, text)
	}
	return q.Encode()
}

// answer sends a request once and returns the body of an answer with a status of 2xx.
func (c *client) answer(req *http.Request) ([]byte, error) {
	res, err := c.through.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := readAll(res.Body)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, refusedBy(res, body)
	}
	return body, err
}

// list asks for an array of objects.
func (c *client) list(ctx context.Context, path string, v values) ([]object, error) {
	data, err := c.send(ctx, http.MethodGet, path, v)
	if err != nil {
		return nil, err
	}
	return decodeObjects(data)
}

// get asks for one object.
func (c *client) get(ctx context.Context, path string, v values) (object, error) {
	data, err := c.send(ctx, http.MethodGet, path, v)
	if err != nil {
		return nil, err
	}
	return decodeObject(data)
}

// start sends a request that begins a task and returns its UPID. If the answer has no UPID, the
// work is done.
func (c *client) start(ctx context.Context, method, path string, v values) (string, error) {
	data, err := c.send(ctx, method, path, v)
	if err != nil || len(data) == 0 {
		return "", err
	}
	task, err := decodeText(data)
	if err == nil && task != "" {
		_, err = nodeOf(task)
	}
	return task, err
}

// path joins the parts of a path, each escaped.
func path(parts ...string) string {
	var s strings.Builder
	for _, p := range parts {
		s.WriteString("/" + url.PathEscape(p))
	}
	return s.String()
}

// refusedBy reads an answer that is an error.
func refusedBy(res *http.Response, body []byte) *answered {
	_, reason, _ := strings.Cut(res.Status, " ")
	e := &answered{status: res.StatusCode, reason: reason}
	var said struct {
		Errors jsontext.Value `json:"errors"`
	}
	if json.Unmarshal(body, &said) == nil && said.Errors.Kind() == '{' {
		e.fields = string(said.Errors)
	}
	return e
}

// pinError is the error for a certificate that is not the pinned one.
type pinError struct{ got string }

func (e *pinError) Error() string {
	return "the server's certificate has the fingerprint " + e.got + ", which is not the one in gated.yaml"
}

// newTransport makes the connections of one client. It uses no proxy from the environment, and
// no HTTP/2, because Go's HTTP/2 client repeats some requests.
func newTransport(cfg Config) (http.RoundTripper, error) {
	secure, err := tlsConfig(cfg)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: cfg.Timeout}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: cfg.Timeout,
		MaxIdleConnsPerHost: lookers,
		IdleConnTimeout:     time.Minute,
		// A header only has the status line and a few words.
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// tlsConfig trusts one certificate, by its fingerprint, or one CA. With a fingerprint, the
// certificate's name and dates do not matter, because the nodes' own certificates are
// self-signed.
func tlsConfig(cfg Config) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(lookers)}
	if cfg.Fingerprint != "" {
		pin, err := ParseFingerprint(cfg.Fingerprint)
		if err != nil {
			return nil, err
		}
		// VerifyConnection below is stricter than the check that this turns off. It runs on
		// every handshake, also on a resumed one.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return &pinError{"of none"}
			}
			got := sha256.Sum256(state.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare(got[:], pin[:]) != 1 {
				return &pinError{spelled(got)}
			}
			return nil
		}
		return c, nil
	}
	text, err := ownfile.Own().Read(cfg.CAFile, maxCA)
	if errors.Is(err, refusal.NotAllowed) {
		return nil, err // other users could have added a certificate
	}
	if err != nil {
		return nil, refusal.New(refusal.Conflict, "proxmox.ca_file cannot be read: %v", err).
			WithHint("copy the node's /etc/pve/pve-root-ca.pem there, or pin its certificate with proxmox.fingerprint instead")
	}
	if len(text) > maxCA {
		return nil, refusal.New(refusal.Oversized, "proxmox.ca_file %s has more than %d bytes", cfg.CAFile, maxCA)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("proxmox.ca_file %s has no certificate in PEM", cfg.CAFile)
	}
	return c, nil
}

// maxCA is the size in bytes of the largest file of certificates.
const maxCA = 1 << 20

// ParseFingerprint reads a certificate's SHA-256 fingerprint as Proxmox VE shows it: 32 pairs
// of hex digits with colons.
func ParseFingerprint(s string) (pin [sha256.Size]byte, err error) {
	pairs := strings.Split(s, ":")
	if len(pairs) != sha256.Size {
		return pin, errors.New("a fingerprint is 32 pairs of hex digits with colons between them, as in AB:CD:EF")
	}
	for i, pair := range pairs {
		b, err := hex.DecodeString(pair)
		if err != nil || len(b) != 1 {
			return pin, fmt.Errorf("%q in a fingerprint is not two hex digits", pair)
		}
		pin[i] = b[0]
	}
	return pin, nil
}

func spelled(sum [sha256.Size]byte) string {
	pairs := make([]string, len(sum))
	for i, b := range sum {
		pairs[i] = strings.ToUpper(hex.EncodeToString([]byte{b}))
	}
	return strings.Join(pairs, ":")
}

// tokenLine is an API token with its secret, as pveum prints the two:
// gated@pve!gate=11111111-2222-3333-4444-555555555555.
var tokenLine = pattern(`^([A-Za-z0-9._-]+@[A-Za-z0-9._-]+![A-Za-z0-9._-]+)=([A-Za-z0-9-]{8,128})$`)

// readToken reads the token file. It refuses, with Conflict, a file that others may read or
// write, a link, and a file of another user than root or the daemon's. If the content is wrong,
// the error is Malformed, and its text does not have the content.
func readToken(path string) (id, secret string, err error) {
	if err := ownfile.Own().CheckAbove(path); errors.Is(err, refusal.NotAllowed) {
		return "", "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file cannot be read: %v", err).
			WithHint("write user@realm!name=secret there, as pveum user token add prints the two, with mode 0600 and the daemon's user as its owner; " +
				"or take the section proxmox out of gated.yaml")
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", "", fmt.Errorf("proxmox.token_file: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file %s is no regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file %s has mode %#o and belongs to uid %d", path,
			info.Mode().Perm(), owner.Uid).
			WithHint("chown it to the daemon's user and chmod 0600 it")
	}
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return "", "", fmt.Errorf("proxmox.token_file: %w", err)
	}
	return parseToken(path, string(text))
}

// parseToken reads one line.
func parseToken(path, text string) (id, secret string, err error) {
	m := tokenLine().FindStringSubmatch(strings.TrimSuffix(text, "\n"))
	if m == nil {
		return "", "", refusal.New(refusal.Malformed, "proxmox.token_file %s is not one line user@realm!name=secret", path).
			WithHint("pveum user token add prints full-tokenid and value; put = between them")
	}
	return m[1], m[2], nil
}
