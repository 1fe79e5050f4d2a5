package members

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// maxPEM is the largest file of a certificate or key, in bytes.
const maxPEM = 64 << 10

// Peer is where a member is, and the SHA-256 of its certificate: 32 pairs of hex digits with colons.
type Peer struct{ Address, Fingerprint string }

// Settings are the members as gated.yaml names them.
type Settings struct {
	Gate             op.GateID
	Self             string
	Members          map[string]Peer // with this one
	Certificate, Key string          // files of this member, PEM
	Now              func() time.Time
}

// Identity is this member, and how it recognises the others.
type Identity struct {
	Settings
	own  tls.Certificate
	leaf *x509.Certificate
	byID map[string]string // names of the other members, by fingerprint
}

// Load reads this member's certificate. It is refused if it is not the one that gated.yaml names for this member, because
// no other member would accept it.
func Load(s Settings) (*Identity, error) {
	cert, err := read("store.certificate", s.Certificate, 0)
	if err != nil {
		return nil, err
	}
	key, err := read("store.key", s.Key, 0o077)
	if err != nil {
		return nil, err
	}
	i := &Identity{Settings: s, byID: map[string]string{}}
	if i.own, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, refusal.New(refusal.Malformed, "store.certificate and store.key: %v", err).WithHint("%s", makeAnew)
	}
	if i.leaf, err = x509.ParseCertificate(i.own.Certificate[0]); err != nil {
		return nil, refusal.New(refusal.Malformed, "store.certificate: %v", err).WithHint("%s", makeAnew)
	}
	i.own.Certificate = i.own.Certificate[:1] // no other one of the file is looked at
	for name, p := range s.Members {
		if name != s.Self {
			i.byID[strings.ToUpper(p.Fingerprint)] = name
		}
	}
	if got := Fingerprint(i.leaf); got != strings.ToUpper(s.Members[s.Self].Fingerprint) {
		return nil, refusal.New(refusal.Conflict, "the certificate of this member has the fingerprint %s, and store.members.%s says another one", got, s.Self).
			WithHint("write it into gated.yaml of each member, or name the right file in store.certificate")
	}
	return i, nil
}

const makeAnew = "gated docs guides/high-availability shows how a member's certificate is made"

// read reads a file that gated.yaml names, whose mode has none of the bits.
func read(key, path string, not os.FileMode) ([]byte, error) {
	b, err := ownfile.Own().Read(path, maxPEM)
	if err != nil {
		return nil, refusal.New(refusal.Conflict, "%s cannot be read: %v", key, err).WithHint("%s", makeAnew)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&not != 0 {
		return nil, refusal.New(refusal.NotAllowed, "%s %s may be read by others", key, path).WithHint("chmod 600 %s", path)
	}
	return b, nil
}

// Fingerprint returns the SHA-256 of a certificate as 32 pairs of hex digits with colons.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	text := strings.ToUpper(hex.EncodeToString(sum[:]))
	pairs := make([]string, 0, len(sum))
	for i := 0; i < len(text); i += 2 {
		pairs = append(pairs, text[i:i+2])
	}
	return strings.Join(pairs, ":")
}

// Until returns when this member's certificate ends.
func (i *Identity) Until() time.Time { return i.leaf.NotAfter.UTC() }

// Fault returns why the others refuse this member's certificate now, or nil.
func (i *Identity) Fault() error { return i.dated("this member's certificate", i.leaf) }

// dated refuses a certificate outside of its dates.
func (i *Identity) dated(whose string, c *x509.Certificate) error {
	now := i.Now()
	hint := "make a new one, write its fingerprint into gated.yaml of each member, and start each again; see gated docs guides/high-availability"
	switch {
	case now.After(c.NotAfter):
		return refusal.New(refusal.Unavailable, "%s expired on %s", whose, c.NotAfter.UTC().Format(time.RFC3339)).WithHint("%s", hint)
	case now.Before(c.NotBefore):
		return refusal.New(refusal.Unavailable, "%s begins to count on %s", whose, c.NotBefore.UTC().Format(time.RFC3339)).
			WithHint("compare the clocks of the hosts: timedatectl")
	}
	return nil
}

// base is what both ends have in common. Nothing is resumed, so each connection proves its key anew.
func (i *Identity) base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.own}, SessionTicketsDisabled: true,
		NextProtos: []string{"http/1.1"}, Time: i.Now}
}

// Server returns how the active member takes connections: of certificates of other members, within their dates.
func (i *Identity) Server() *tls.Config {
	c := i.base()
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		_, err := i.Who(&s)
		return err
	}
	return c
}

// Client returns how this member connects to another one.
func (i *Identity) Client(member string) *tls.Config {
	c := i.base()
	c.InsecureSkipVerify = true // VerifyConnection accepts one certificate, whatever names and issuer it has
	c.VerifyConnection = func(s tls.ConnectionState) error {
		got, err := i.Who(&s)
		if err == nil && got != member {
			err = refusal.New(refusal.NotAllowed, "member %s answers at the address of member %s", got, member).
				WithHint("correct store.members in gated.yaml")
		}
		return err
	}
	return c
}

// Who returns the member at the other end, by its certificate.
func (i *Identity) Who(s *tls.ConnectionState) (string, error) {
	if s == nil || !s.HandshakeComplete && s.Version == 0 || len(s.PeerCertificates) == 0 {
		return "", refusal.New(refusal.NotAllowed, "the other end has shown no certificate")
	}
	leaf := s.PeerCertificates[0]
	name, ok := i.byID[Fingerprint(leaf)]
	if !ok {
		return "", refusal.New(refusal.NotAllowed, "the certificate with the fingerprint %s is no other member's", Fingerprint(leaf)).
			WithHint("compare it with store.members in gated.yaml: openssl x509 -noout -fingerprint -sha256 -in FILE")
	}
	return name, i.dated(fmt.Sprintf("the certificate of member %s", name), leaf)
}
