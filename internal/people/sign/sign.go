// Package sign makes the signatures that authz verifies: with a key file or
// with ssh-agent. Only opsign links it.
package sign

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Signer signs payloads with one key.
type Signer interface {
	// Fingerprint returns the key's SHA256 fingerprint, as ssh-keygen -l prints it. For a certificate it is that of its
	// key.
	Fingerprint() string
	// PublicKey returns the key, or its certificate, that signatures name.
	PublicKey() ssh.PublicKey
	// SecurityKey reports whether each signature needs a touch.
	SecurityKey() bool
	// Sign returns an armored SSHSIG over the payload in the role's namespace, as ssh-keygen -Y sign writes it. It
	// refuses, as Malformed, a payload that no gate would decode, so that a key signs nothing else. ctx bounds the wait
	// for an agent.
	Sign(ctx context.Context, role op.Role, payload []byte) (armored string, err error)
}

// rawSigner makes the inner signature. Without a private key of its own, it may wait for an agent.
type rawSigner interface {
	PublicKey() ssh.PublicKey
	with(ctx context.Context) ssh.Signer
}

type signer struct {
	raw  rawSigner
	cert *ssh.Certificate // of its key; nil without
}

// Fingerprint returns the key's SHA256 fingerprint.
func (s signer) Fingerprint() string { return ssh.FingerprintSHA256(s.raw.PublicKey()) }

// PublicKey returns the key or its certificate.
func (s signer) PublicKey() ssh.PublicKey {
	if s.cert != nil {
		return s.cert
	}
	return s.raw.PublicKey()
}

// SecurityKey reports whether the key is one.
func (s signer) SecurityKey() bool { return isSecurityKey(s.raw.PublicKey().Type()) }

// Sign signs as the interface says.
func (s signer) Sign(ctx context.Context, role op.Role, payload []byte) (string, error) {
	if !role.Valid() {
		return "", refusal.New(refusal.NamespaceMismatch, "%.64q is not the name of a role", string(role)).
			WithHint("every gate has operational, coordination and recovery; its configuration may name others")
	}
	if err := checkPayload(payload); err != nil {
		return "", err
	}
	made, err := sshsig.Sign(bytes.NewReader(payload), s.raw.with(ctx), sshsig.HashSHA512, role.Namespace())
	if err != nil {
		if ctx.Err() != nil {
			return "", refusal.New(refusal.Unavailable, "the signing was given up: %v", ctx.Err())
		}
		return "", asRefusal(err, "the key did not sign")
	}
	if err := checkMade(made, payload); err != nil {
		return "", err
	}
	if s.cert != nil {
		// A certificate signs as its key does. The signature names it instead of the key.
		made.PublicKey = s.cert
	}
	return armor(made.Marshal()), nil
}

func checkPayload(payload []byte) error {
	_, err := op.DecodePayload(payload)
	if err == nil {
		return nil
	}
	if _, rejErr := op.DecodeRejection(payload); rejErr == nil {
		return nil
	}
	return err
}

// armor writes a blob as ssh-keygen does, in lines of 70 characters.
func armor(blob []byte) string {
	var b bytes.Buffer
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(blob)), 70) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}

// asRefusal keeps a refusal that came through a library, and hides any other text.
func asRefusal(err error, what string) error {
	if r := refusal.As(err); r.Code != refusal.Internal {
		return r
	}
	return refusal.New(refusal.Unavailable, "%s: %v", what, err)
}
