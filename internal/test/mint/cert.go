package mint

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Types of certificate (PROTOCOL.certkeys).
const (
	UserCert uint32 = 1
	HostCert uint32 = 2
)

// Cert is the parts of a certificate (PROTOCOL.certkeys). A test changes any of
// them before it takes the Blob.
type Cert struct {
	Key         Key // which is certified; its public key alone is used
	Kind        uint32
	Serial      uint64
	ID          string
	Principals  []string
	ValidAfter  time.Time // whole seconds; the zero time is no limit
	ValidBefore time.Time // excluded, as OpenSSH has it; the zero time is no limit
	Critical    []Option
	Extensions  []Option
	Reserved    string
	Nonce       []byte // 32 bytes that the names decide where it is nil

	CA        Key    // who signs
	Algorithm string // of the CA's signature; empty is the usual one, ssh-rsa is RSA with SHA-1
	CABlob    []byte // the field that says who signed, where it is not CA's public key
	Signature []byte // the CA's signature, where it is not one over these parts
	InnerRest []byte // bytes after the CA's signature, inside its field
	Trailing  []byte // bytes after the last field
}

// Option is a critical option or an extension. A Value that is not empty is
// wrapped in a string of its own, as source-address and force-command have it.
type Option struct{ Name, Value string }

// Certify returns a user certificate for a principal without time limits, with
// the extensions that ssh-keygen gives.
func Certify(ca, key Key, principals ...string) Cert {
	c := Cert{Key: key, Kind: UserCert, Serial: 1, ID: key.Name, Principals: principals, CA: ca}
	for _, what := range []string{"X11-forwarding", "agent-forwarding", "port-forwarding", "pty", "user-rc"} {
		c.Extensions = append(c.Extensions, Option{Name: "permit-" + what})
	}
	return c
}

// Type returns the certificate's type, as in ssh-ed25519-cert-v01@openssh.com.
func (c Cert) Type() string {
	name, _ := strings.CutSuffix(c.Key.Type(), "@openssh.com")
	return name + "-cert-v01@openssh.com"
}

// body is all that the CA signs.
func (c Cert) body() []byte {
	public := c.Key.Blob()[len(String(c.Key.Type())):]
	authority := c.CABlob
	if authority == nil {
		authority = c.CA.Blob()
	}
	nonce := c.Nonce
	if nonce == nil {
		nonce = newStream("nonce", c.Key.Name, c.CA.Name, c.ID).take(32)
	}
	return slices.Concat(Strings([]byte(c.Type()), nonce), public,
		Uint64(c.Serial), Uint32(c.Kind), String(c.ID), String(Strings(c.Principals...)),
		Uint64(seconds(c.ValidAfter, 0)), Uint64(seconds(c.ValidBefore, ^uint64(0))),
		String(options(c.Critical)), String(options(c.Extensions)), String(c.Reserved), String(authority))
}

// Blob returns the certificate, signed by its CA.
func (c Cert) Blob(t TB) []byte {
	t.Helper()
	body, signature := c.body(), c.Signature
	if signature == nil {
		made, err := c.CA.SignWithAlgorithm(nil, body, c.Algorithm)
		if err != nil {
			t.Fatalf("mint: %s: %v", c.CA.Name, err)
		}
		signature = slices.Concat(String(made.Format), String(made.Blob), made.Rest)
	}
	return slices.Concat(body, String(slices.Concat(signature, c.InnerRest)), c.Trailing)
}

// Forged returns the certificate with one bit of its CA's signature turned.
func (c Cert) Forged(t TB) Cert {
	t.Helper()
	made, err := c.CA.SignWithAlgorithm(nil, c.body(), c.Algorithm)
	if err != nil {
		t.Fatalf("mint: %s: %v", c.CA.Name, err)
	}
	value := slices.Clone(made.Blob)
	value[len(value)/2] ^= 1
	c.Signature = slices.Concat(String(made.Format), String(value), made.Rest)
	return c
}

// Text returns the certificate's type and base64, as in a file NAME-cert.pub.
func (c Cert) Text(t TB) string {
	t.Helper()
	return Text(c.Type(), c.Blob(t))
}

// Parse returns the certificate as x/crypto/ssh reads it, which does not say
// that anybody should trust it.
func (c Cert) Parse(t TB) *ssh.Certificate {
	t.Helper()
	key, err := ssh.ParsePublicKey(c.Blob(t))
	if err != nil {
		t.Fatalf("mint: %s: %v", c.ID, err)
	}
	return key.(*ssh.Certificate)
}

// WriteFile writes the certificate to dir as NAME-cert.pub, where OpenSSH finds
// it beside the key NAME, and returns its path.
func (c Cert) WriteFile(t TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, c.Key.Name+"-cert.pub")
	writeFile(t, path, []byte(c.Text(t)+" "+c.ID+"\n"), 0o644)
	return path
}

func seconds(at time.Time, otherwise uint64) uint64 {
	if at.IsZero() {
		return otherwise
	}
	return uint64(at.Unix())
}

func options(list []Option) []byte {
	var out []byte
	for _, o := range list {
		var data []byte
		if o.Value != "" {
			data = String(o.Value)
		}
		out = append(out, Strings([]byte(o.Name), data)...)
	}
	return out
}
