package sign

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// maxKeyFile is the largest private key file in bytes; RSA with 16,384 bits has
// 13 KiB.
const maxKeyFile = 64 << 10

// KeyFile returns a signer with the private key in a file. For an encrypted key it calls passphrase, three
// times at most while the passphrase is wrong, and overwrites the result; passphrase may be nil. NotAllowed: a file that other users can use, as ssh-keygen refuses it.
// Malformed: a file without a key, or a wrong passphrase. WeakKey and UnknownSigner: a key that no gate accepts, and
// the handle of a security key, whose device only OpenSSH can ask. No refusal shows the file's content.
func KeyFile(path string, passphrase func() ([]byte, error)) (Signer, error) {
	content, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(content)
	key, err := ssh.ParsePrivateKey(content)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		if locked.PublicKey != nil && isSecurityKey(locked.PublicKey.Type()) {
			return nil, needsDevice(path)
		}
		key, err = unlock(path, content, passphrase)
	}
	if err != nil {
		return nil, keyFault(path, content, err)
	}
	if r := usable(key.PublicKey()); r != nil {
		return nil, refusal.New(r.Code, "%s: %s", path, r.Detail).WithHint("%s", r.Hint)
	}
	return signer{raw: held{key}}, nil
}

// held is a private key in this process's memory.
type held struct{ ssh.Signer }

func (h held) with(context.Context) ssh.Signer { return h.Signer }

// readKeyFile reads a key file. It checks the permissions of the open file, so that it reads what it checked. A FIFO
// does not block it.
func readKeyFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, refusal.New(refusal.Malformed, "%s is not a regular file", path).
			WithHint("name a private key file, or use --agent")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(content) > maxKeyFile {
		return nil, refusal.New(refusal.Malformed, "%s is larger than a private key", path)
	}
	if isPublicKey(content) { // every user may read a public key
		return nil, refusal.New(refusal.Malformed, "%s is a public key", path).
			WithHint("name the private key (%s), or use --agent", strings.TrimSuffix(path, ".pub"))
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, refusal.New(refusal.NotAllowed, "%s has mode %04o: others than its owner can use it", path, perm).
			WithHint("chmod 600 %s; if others could have read it, make a new key", path)
	}
	return content, nil
}

// isPublicKey also looks for a private key, since the parser skips lines that it
// cannot read.
func isPublicKey(content []byte) bool {
	_, _, _, _, err := ssh.ParseAuthorizedKey(content)
	return err == nil && !bytes.Contains(content, []byte("PRIVATE KEY-----"))
}

func unlock(path string, content []byte, passphrase func() ([]byte, error)) (ssh.Signer, error) {
	if passphrase == nil {
		return nil, refusal.New(refusal.NotAllowed, "%s needs a passphrase and there is nobody to ask", path).
			WithHint("load it with ssh-add and use --agent")
	}
	for try := 1; ; try++ {
		secret, err := passphrase()
		if err != nil {
			return nil, asRefusal(err, "the passphrase of "+path+" was not given")
		}
		key, err := ssh.ParsePrivateKeyWithPassphrase(content, secret)
		clear(secret)
		if try == tries || !errors.Is(err, x509.IncorrectPasswordError) {
			return key, err
		}
	}
}

// tries is how often a person may type a passphrase.
const tries = 3

// keyFault words an error of the parser, because the parser's text may quote the file.
func keyFault(path string, content []byte, err error) error {
	var r *refusal.Refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, x509.IncorrectPasswordError):
		return refusal.New(refusal.Malformed, "wrong passphrase of %s", path)
	case strings.Contains(err.Error(), "unhandled key type"):
		if ofSecurityKey(content) {
			return needsDevice(path)
		}
		return refusal.New(refusal.UnknownSigner, "%s: keys of this type cannot sign for a gate", path).WithHint(otherKeyHint)
	default:
		return refusal.New(refusal.Malformed, "%s holds no private key that can be read", path).
			WithHint("name a key that ssh-keygen -y -f %s accepts", path)
	}
}

// ofSecurityKey reports whether an unencrypted key file that does not parse is the handle of a security key.
func ofSecurityKey(content []byte) bool {
	block, _ := pem.Decode(content)
	return block != nil && (bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKED25519)) ||
		bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKECDSA256)))
}

func needsDevice(path string) error {
	return refusal.New(refusal.UnknownSigner, "%s is the handle of a security key, which only OpenSSH can use", path).
		WithHint("ssh-add %s, and sign with --agent; or opsign show ID --payload > op.json, "+
			"ssh-keygen -Y sign -n ROLE@gated -f %s op.json, and opsign submit op.json --sig op.json.sig", path, path)
}

func unreadable(path string, err error) error {
	why := "it cannot be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		why = "it may not be read by this user"
	}
	return refusal.New(refusal.Unavailable, "key file %s: %s", path, why)
}

// maxPublicFile is the largest public key file in bytes. A certificate of an RSA key of 16,384 bits, by a CA of the
// same size, has 12 KiB.
const maxPublicFile = 64 << 10

// PublicKeyFile reads a public key or certificate file as ssh-keygen writes it. If it has several, it reads the first,
// as OpenSSH does. It refuses as Unavailable a file that cannot be read, and as Malformed one without a public key.
func PublicKeyFile(path string) (Identity, error) {
	id, _, err := readPublic(path)
	return id, err
}

// readPublic also reports whether the file holds a second key.
func readPublic(path string) (id Identity, more bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not block it
	if err != nil {
		return Identity{}, false, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxPublicFile))
	if err != nil {
		return Identity{}, false, unreadable(path, err)
	}
	key, comment, _, rest, err := ssh.ParseAuthorizedKey(b)
	if err != nil || !isPublicKey(b) {
		return Identity{}, false, refusal.New(refusal.Malformed, "%s holds no public key that can be read", path)
	}
	_, _, _, _, err = ssh.ParseAuthorizedKey(rest)
	return identify(key.Marshal(), comment), err == nil, nil
}

// Certificate is an OpenSSH user certificate, as ssh-keygen -s makes it.
type Certificate struct {
	Fingerprint string // SHA256, of its key
	KeyType     string // of its key
	CA          string // SHA256 fingerprint of the key that signed it
	KeyID       string
	Serial      uint64
	Principals  []string
	// ValidAfter is inclusive and ValidBefore exclusive, in whole seconds, UTC. ValidBefore is zero if the certificate
	// is valid for ever.
	ValidAfter, ValidBefore time.Time

	cert *ssh.Certificate
}

func certificateOf(cert *ssh.Certificate) *Certificate {
	c := &Certificate{Fingerprint: ssh.FingerprintSHA256(cert.Key), KeyType: cert.Key.Type(),
		CA: ssh.FingerprintSHA256(cert.SignatureKey), KeyID: cert.KeyId, Serial: cert.Serial,
		Principals: cert.ValidPrincipals, cert: cert}
	c.ValidAfter = moment(cert.ValidAfter)
	if cert.ValidBefore != ssh.CertTimeInfinity {
		c.ValidBefore = moment(cert.ValidBefore)
	}
	return c
}

// lastMoment is the end of the year 9999, which RFC 3339 can write.
const lastMoment = 253402300799

func moment(seconds uint64) time.Time { return time.Unix(int64(min(seconds, lastMoment)), 0).UTC() }

// ReadCertificate reads a certificate file, KEY-cert.pub. It refuses as Unavailable a file that cannot be read, and as
// Malformed a file without a certificate or with several. It also refuses each certificate that no gate accepts: a
// host's, one without exactly one principal, one with a bad CA signature, one of a key that cannot sign for a gate.
func ReadCertificate(path string) (*Certificate, error) {
	id, more, err := readPublic(path)
	switch {
	case err != nil:
		return nil, err
	case more:
		return nil, refusal.New(refusal.Malformed, "%s holds several keys or certificates", path).
			WithHint("keep the one line of the certificate that you mean")
	case id.Certificate == nil && id.Refused != nil:
		return nil, refusal.New(id.Refused.Code, "%s: %s", path, id.Refused.Detail).WithHint("%s", id.Refused.Hint)
	case id.Certificate == nil:
		return nil, refusal.New(refusal.Malformed, "%s is a key, not a certificate", path).
			WithHint("the certificate of KEY is KEY-cert.pub, made with ssh-keygen -s CA -I ID -n PRINCIPAL KEY.pub")
	case id.Refused != nil:
		return nil, refusal.New(id.Refused.Code, "%s: %s", path, id.Refused.Detail).WithHint("%s", id.Refused.Hint)
	}
	return id.Certificate, nil
}

// ValidAt refuses, as SignerExpired, a certificate that is not valid at that
// time.
func (c *Certificate) ValidAt(at time.Time) error {
	const layout = "2006-01-02T15:04:05Z"
	switch {
	case at.Unix() < c.ValidAfter.Unix():
		return refusal.New(refusal.SignerExpired, "the certificate %.60q is valid only from %s",
			c.KeyID, c.ValidAfter.Format(layout)).
			WithHint("ask the CA for one that is valid now")
	case !c.ValidBefore.IsZero() && at.Unix() >= c.ValidBefore.Unix():
		return refusal.New(refusal.SignerExpired, "the certificate %.60q was valid only until %s",
			c.KeyID, c.ValidBefore.Format(layout)).
			WithHint("ask the CA for a new one")
	}
	return nil
}

// Certified returns a signer that signs with the key of s and presents a certificate of that key. It refuses, as
// UnknownSigner, a certificate of another key.
func Certified(s Signer, c *Certificate) (Signer, error) {
	plain, ok := s.(signer)
	if !ok || !bytes.Equal(plain.raw.PublicKey().Marshal(), c.cert.Key.Marshal()) {
		return nil, refusal.New(refusal.UnknownSigner, "the certificate is of the key %s, not of %s",
			c.Fingerprint, s.Fingerprint()).
			WithHint("name the key and the certificate that belong together, KEY and KEY-cert.pub")
	}
	return signer{raw: plain.raw, cert: c.cert}, nil
}

// fit refuses a certificate that no gate accepts, from any CA. ValidAt checks its time.
func fit(cert *ssh.Certificate) *refusal.Refusal {
	if r := usable(cert.Key); r != nil {
		return r
	}
	const hint = "make one with ssh-keygen -s CA -I ID -n PRINCIPAL KEY.pub"
	switch {
	case cert.CertType != ssh.UserCert:
		return refusal.New(refusal.UnknownSigner, "it is the certificate of a host, not of a user").WithHint(hint)
	case len(cert.ValidPrincipals) != 1 || cert.ValidPrincipals[0] == "":
		return refusal.New(refusal.UnknownSigner, "the certificate has %d principals; a signer has exactly one",
			len(cert.ValidPrincipals)).
			WithHint(hint)
	}
	if r := usable(cert.SignatureKey); r != nil {
		return refusal.New(r.Code, "the certificate's CA: %s", r.Detail).WithHint("%s", r.Hint)
	}
	if cert.Signature.Format == ssh.KeyAlgoRSA {
		return refusal.New(refusal.WeakKey, "the certificate is signed with ssh-rsa, which uses SHA-1").
			WithHint("ssh-keygen -t rsa-sha2-512 -s CA …")
	}
	checker := ssh.CertChecker{Clock: func() time.Time { return moment(cert.ValidAfter) }}
	for name := range cert.CriticalOptions { // each gate says itself which of them it knows
		checker.SupportedCriticalOptions = append(checker.SupportedCriticalOptions, name)
	}
	if err := checker.CheckCert(cert.ValidPrincipals[0], cert); err != nil {
		return refusal.New(refusal.BadSignature, "the certificate's CA signature does not verify").WithHint(hint)
	}
	return nil
}
