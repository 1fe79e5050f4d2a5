package sign

import (
	"bytes"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

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
		return refusal.New(refusal.SignerExpired, "the certificate %.60q is valid only from %s", c.KeyID,
			c.ValidAfter.Format(layout)).
			WithHint("ask the CA for one that is valid now")
	case !c.ValidBefore.IsZero() && at.Unix() >= c.ValidBefore.Unix():
		return refusal.New(refusal.SignerExpired, "the certificate %.60q was valid only until %s", c.KeyID,
			c.ValidBefore.Format(layout)).
			WithHint("ask the CA for a new one")
	}
	return nil
}

// Certified returns a signer that signs with the key of s and presents a certificate of that key. It refuses, as
// UnknownSigner, a certificate of another key.
func Certified(s Signer, c *Certificate) (Signer, error) {
	plain, ok := s.(signer)
	if !ok || !bytes.Equal(plain.raw.PublicKey().Marshal(), c.cert.Key.Marshal()) {
		return nil, refusal.New(refusal.UnknownSigner, "the certificate is of the key %s, not of %s", c.Fingerprint,
			s.Fingerprint()).
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
