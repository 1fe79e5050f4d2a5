package authz

import (
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// certifies names the types of certificates. Each has the type of the certified key,
// and the number of strings of such a key.
var certifies = map[string]struct {
	plain string
	parts int
}{
	ssh.CertAlgoED25519v01:    {ssh.KeyAlgoED25519, 1},
	ssh.CertAlgoECDSA256v01:   {ssh.KeyAlgoECDSA256, 2},
	ssh.CertAlgoECDSA384v01:   {ssh.KeyAlgoECDSA384, 2},
	ssh.CertAlgoECDSA521v01:   {ssh.KeyAlgoECDSA521, 2},
	ssh.CertAlgoRSAv01:        {ssh.KeyAlgoRSA, 2},
	ssh.CertAlgoSKED25519v01:  {ssh.KeyAlgoSKED25519, 2},
	ssh.CertAlgoSKECDSA256v01: {ssh.KeyAlgoSKECDSA256, 3},
}

// minNonce is the shortest nonce. Because of the CA's random bytes, the requester of
// a certificate cannot choose everything that the CA signs. ssh-keygen makes 32.
const minNonce = 16

// verifyRequired is the critical option by which a CA asks that a security key
// verifies its user. The others that OpenSSH knows, force-command and
// source-address, are about logins and not about approvals.
const verifyRequired = "verify-required"

// certificate is a parsed certificate (OpenSSH's PROTOCOL.certkeys). Its parts are
// unproved until authentic has returned nil.
type certificate struct {
	key           ssh.PublicKey // the certified key
	keyPrint      string        // SHA256 fingerprint of key
	ca            ssh.PublicKey
	caBlob        []byte
	caPrint       string
	serial        uint64
	kind          uint32 // ssh.UserCert or ssh.HostCert
	principals    []string
	after, before uint64   // valid from after up to, not including, before; seconds since 1970
	critical      []option // sorted by name
	signed        []byte   // what the CA signed
	signature     *ssh.Signature
}

// option is a critical option or an extension.
type option struct {
	name string
	data []byte
}

// parseCertificate reads a certificate strictly: all its fields, an empty reserved
// field, options in order, and nothing after them. It refuses as parseKey does, for
// the key and for the CA's key.
func parseCertificate(blob []byte) (*certificate, error) {
	w := wire{rest: blob}
	of := certifies[string(w.next())]
	nonce := w.next()
	keyBlob := appendString(nil, of.plain)
	for range of.parts {
		keyBlob = appendString(keyBlob, string(w.next()))
	}
	c := &certificate{serial: w.long(), kind: w.number()}
	id, names := w.next(), w.next()
	c.after, c.before = w.long(), w.long()
	critical, extensions, reserved := w.next(), w.next(), w.next()
	c.caBlob = w.next()
	c.signed = blob[:len(blob)-len(w.rest)]
	signature := w.next()
	switch {
	case !w.ended():
		return nil, badCertificate("it is cut short or followed by other bytes")
	case len(nonce) < minNonce:
		return nil, badCertificate("its nonce is too short")
	case c.kind != ssh.UserCert && c.kind != ssh.HostCert:
		return nil, badCertificate("it is neither for users nor for hosts")
	case op.CheckText("the key id", string(id)) != nil:
		return nil, badCertificate("its key id does not show on a terminal as it is")
	case len(reserved) != 0:
		return nil, badCertificate("its reserved field is not empty")
	}
	var ok, okToo bool
	c.critical, ok = parseOptions(critical)
	if _, okToo = parseOptions(extensions); !ok || !okToo {
		return nil, badCertificate("its options are not pairs in the order of their names")
	}
	for w := (wire{rest: names}); len(w.rest) > 0; {
		c.principals = append(c.principals, string(w.next()))
		if w.bad {
			return nil, badCertificate("its principals are cut short")
		}
	}
	return c, c.parseKeys(keyBlob, signature)
}

// parseKeys reads both keys, and the signature by the CA's key.
func (c *certificate) parseKeys(keyBlob, signature []byte) (err error) {
	if c.key, err = parseKey(keyBlob); err != nil {
		return err
	}
	// Certificates do not nest. So this refuses a CA key that is a certificate,
	// before it parses it.
	if c.ca, err = parseKey(c.caBlob); err != nil {
		r := *refusal.As(err)
		r.Detail = "the certificate's CA: " + r.Detail
		return &r
	}
	if isPasskey(c.key) || isPasskey(c.ca) {
		return badCertificate("one of its keys is a passkey, which has a line of its own")
	}
	c.keyPrint, c.caPrint = ssh.FingerprintSHA256(c.key), ssh.FingerprintSHA256(c.ca)
	c.signature, err = parseInner(c.ca, signature)
	return err
}

// parseOptions reads pairs of a name and its data. Each name occurs once, in lexical
// order.
func parseOptions(b []byte) ([]option, bool) {
	var out []option
	for w := (wire{rest: b}); len(w.rest) > 0; {
		o := option{name: string(w.next()), data: w.next()}
		if w.bad || len(out) > 0 && o.name <= out[len(out)-1].name {
			return nil, false
		}
		out = append(out, o)
	}
	return out, true
}

// principal returns the one person that the certificate names. It refuses, as
// UnknownSigner, a certificate for hosts, for several people or for any person. It
// also refuses one with an unknown critical option.
func (c *certificate) principal() (string, error) {
	unknown := slices.IndexFunc(c.critical, func(o option) bool { return o.name != verifyRequired || len(o.data) != 0 })
	switch {
	case c.kind != ssh.UserCert:
		return "", c.unknown("is for hosts").WithHint("have the CA sign one for a user, without ssh-keygen's -h")
	case len(c.principals) != 1:
		return "", c.unknown("has %d principals, not one", len(c.principals)).
			WithHint("one person is one principal: have the CA sign one with ssh-keygen -n NAME")
	case checkPrincipal(c.principals[0]) != nil || op.CheckText("the principal", c.principals[0]) != nil:
		return "", c.unknown("has a principal that no line could name")
	case unknown >= 0:
		return "", c.unknown("has the critical option %.64q, which is not known here", c.critical[unknown].name)
	default:
		return c.principals[0], nil
	}
}

// verifiesUser reports whether the CA asks that the key verifies its user.
func (c *certificate) verifiesUser() bool {
	return slices.ContainsFunc(c.critical, func(o option) bool { return o.name == verifyRequired })
}

// validAt compares whole seconds as ssh-keygen does: valid_before itself is too
// late.
func (c *certificate) validAt(at time.Time) error {
	switch now := at.Unix(); {
	case now < 0 || uint64(now) < c.after:
		return refusal.New(refusal.SignerExpired, "the certificate of key %s is not valid yet", c.keyPrint).
			WithHint("sign with a key that is valid now")
	case uint64(now) >= c.before:
		return refusal.New(refusal.SignerExpired, "the certificate of key %s has expired", c.keyPrint).
			WithHint("have the CA sign a new one")
	default:
		return nil
	}
}

// authentic returns nil if the CA signed the certificate.
func (c *certificate) authentic() error {
	if c.ca.Verify(c.signed, c.signature) != nil {
		return refusal.New(refusal.BadSignature, "the certificate of key %s is not signed by the CA %s that it names",
			c.keyPrint, c.caPrint)
	}
	return touched(c.ca, c.signature)
}

func (c *certificate) unknown(format string, args ...any) *refusal.Refusal {
	r := refusal.New(refusal.UnknownSigner, format, args...)
	r.Detail = "the certificate of key " + c.keyPrint + " " + r.Detail
	return r
}

func badCertificate(why string) error {
	return refusal.New(refusal.Malformed, "the certificate does not decode: %s", why)
}
