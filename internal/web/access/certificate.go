package access

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// certificateLook is how long a certificate is used before its files are looked at again.
const certificateLook = 10 * time.Second

// Certificate is a certificate with its key in files, which are read again after they changed. Files that are wrong by then
// are logged, and the last good pair stays in use.
type Certificate struct {
	cert, key string
	now       func() time.Time
	logger    *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   [2]fileMark
	looked time.Time
}

// fileMark tells whether a file changed.
type fileMark struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads the PEM files of a certificate chain and its key. It refuses as NotAllowed a key that every user of
// this machine can read, and as Malformed files that are no pair.
func LoadCertificate(cert, key string, now func() time.Time, logger *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, now: now, logger: logger}
	return c, c.load()
}

// Reload reads the files now.
func (c *Certificate) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

func (c *Certificate) load() error {
	c.looked = c.now()
	seen := [2]fileMark{}
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return unreadable(path, err)
		}
		if path == c.key && info.Mode()&0o007 != 0 {
			return refusal.New(refusal.NotAllowed, "every user of this machine can open the key %s", op.Shown(path)).
				WithHint("chmod o= %s", op.Shown(path))
		}
		seen[i] = markOf(info)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return unreadable(c.cert+" with "+c.key, err)
	}
	c.pair, c.seen = &pair, seen
	return nil
}

func markOf(info fs.FileInfo) fileMark { return fileMark{info.ModTime(), info.Size()} }

func unreadable(what string, err error) error {
	return refusal.New(refusal.Malformed, "the certificate cannot be used: %s: %v", op.Shown(what), err).
		WithHint("--cert is a PEM file with the certificate and those between it and the root, --key the PEM file of its key")
}

// config returns what a server needs. Each handshake uses the newest good pair.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }}
}

// current looks at the files from time to time, and returns the pair to use.
func (c *Certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= certificateLook {
		c.looked = now
		if c.changed() {
			if err := c.load(); err != nil {
				c.logger.Warn("the new certificate is not used", "why", err)
			} else {
				c.logger.Info("a new certificate is used")
			}
		}
	}
	return c.pair
}

func (c *Certificate) changed() bool {
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil || markOf(info) != c.seen[i] {
			return true
		}
	}
	return false
}
