package settings

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
)

var (
	topic   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`) })
	reaches = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(ssh://)?[A-Za-z0-9][A-Za-z0-9@.:_/%-]{0,254}$`) })
)

func (r *reader) path(v strictyaml.Value) string {
	s := v.Text()
	if v.Present() && (!filepath.IsAbs(s) || filepath.Clean(s) != s) {
		v.Fail("%q is not an absolute path without . and .. and double slashes", s)
	}
	return s
}

func (r *reader) reach(v strictyaml.Value) string {
	s := v.Text()
	if v.Present() && !reaches().MatchString(s) {
		v.Fail("%q is nothing that opsign -H takes, such as ssh://pve1", s)
	}
	return s
}

func (r *reader) console(v strictyaml.Value) string {
	s := v.Text()
	if _, ok := op.Origin(s); v.Present() && !ok {
		v.Fail("%q is not the origin of a console, such as https://console.example.com", s)
	}
	return s
}

// text reads a text of 1 to most printable bytes.
func text(v strictyaml.Value, most int) string {
	s := v.Text()
	if v.Present() && (s == "" || len(s) > most || op.CheckText("it", s) != nil) {
		v.Fail("the text is not 1 to %d printable bytes", most)
	}
	return s
}

func named(v strictyaml.Value) string {
	s := v.Text()
	if v.Present() && op.CheckName(s) != nil {
		v.Fail("%q is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", s)
	}
	return s
}

// url reads an address from the file of settings or from a file of its own. It is https, or http to this machine. Its
// text is in no error, because the addresses of chat products are secrets.
func (r *reader) url(v strictyaml.Value, key, fileKey string) string {
	at, s := v.Get(key), ""
	if fileKey != "" && v.Get(fileKey).Present() {
		if at.Present() {
			at.Fail("%s and %s each name an address: say one", key, fileKey)
		}
		at = v.Get(fileKey)
		s = r.secret(at)
	} else {
		at = v.Need(key)
		s = at.Text()
	}
	if !r.complete(v) {
		return s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Fragment != "" || op.CheckText("it", s) != nil || len(s) > 2048:
		at.Fail("the address is not a URL such as https://hooks.example.com/gated")
	case u.User != nil:
		at.Fail("the address has a user or a password: use token_file")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		at.Fail("the address is not https; http is for this machine, 127.0.0.1 or ::1")
	}
	return s
}

// pathOf returns what of an address may be secret, the longest first: its path and query, and the parts of these.
func pathOf(text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	parts := []string{u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	parts = append(parts, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	return slices.DeleteFunc(parts, func(part string) bool { return len(part) < 8 })
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// secret reads a file of one line. Its text is in no error.
func (r *reader) secret(v strictyaml.Value) string {
	b := r.file(v, true)
	if b == nil {
		return ""
	}
	s := string(bytes.TrimRight(b, "\r\n"))
	if s == "" || op.CheckText("it", s) != nil {
		v.Fail("the file is not one line of printable text")
	}
	return s
}

// file reads a file that the settings name; nil if they name none.
func (r *reader) file(v strictyaml.Value, private bool) []byte {
	path := r.path(v)
	if !v.Present() || !v.Sound() {
		return nil
	}
	b, err := r.files(path, private)
	if err != nil {
		line, _ := v.At()
		if r.refused == nil {
			r.refused = atLine(line, err)
		}
		return nil
	}
	if !private && !x509.NewCertPool().AppendCertsFromPEM(b) {
		v.Fail("the file has no certificate in PEM")
	}
	return b
}

// atLine says which line of the settings names a file that was refused.
func atLine(line int, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return refusal.New(refusal.BadParams, "line %d of the settings: %v", line, err)
	}
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return refusal.New(r.Code, "line %d of the settings: %s", line, r.Detail).WithHint("%s", r.Hint)
	}
	return fmt.Errorf("line %d of the settings: %w", line, err)
}

// WebhookSecret reads a secret of Standard Webhooks: whsec_ and base64 of 24 to 64 bytes.
func WebhookSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("the secret is not whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}

// secretFiles reads files of this machine.
type secretFiles struct{}

// read refuses a file that others can write and, if it is private, one that others can read.
func (secretFiles) read(path string, private bool) ([]byte, error) {
	f, err := ownfile.Own().Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); private && mode&0o077 != 0 {
		return nil, refusal.New(refusal.NotAllowed, "%s is a secret, and its mode %04o lets others read it", op.Shown(path), mode).
			WithHint("chmod 600 %s", op.Shown(path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = refusal.New(refusal.Oversized, "%s has more than %d bytes", op.Shown(path), maxFile)
	}
	return b, err
}
