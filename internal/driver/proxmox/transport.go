package proxmox

import (
	"bytes"
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
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// transport is below the library, because the library has four faults. If the caller wants no
// answer, it takes every status but 400, 401, 403, 500 and 501 for success. It drops the text
// of a 500. It follows redirects with the token. It reads a body of any length. Here every
// status but 2xx is an error. The whole body is read within the request's deadline, before the
// library gets it.
type transport struct{ base http.RoundTripper }

// RoundTrip sends one request once.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := readAll(res.Body)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, refusedBy(res, body)
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
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
	return transport{&http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: cfg.Timeout,
		MaxIdleConnsPerHost: lookers,
		IdleConnTimeout:     time.Minute,
		// A header only has the status line and a few words.
		MaxResponseHeaderBytes: 64 << 10,
	}}, nil
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
