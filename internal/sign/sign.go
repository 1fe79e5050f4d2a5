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

	"gated/internal/op"
)

// Signer signs payloads with one key.
type Signer interface {
	// Fingerprint returns the key's SHA256 fingerprint, as ssh-keygen -l prints it.
	Fingerprint() string
	// PublicKey returns the key.
	PublicKey() ssh.PublicKey
	// Sign returns an armored SSHSIG over the payload in the role's namespace,
	// in the form that ssh-keygen -Y sign writes. It refuses, as Malformed, a
	// payload that no gate would decode, so that a key is never used for
	// anything else. ctx bounds the wait for an agent.
	Sign(ctx context.Context, role op.Role, payload []byte) (armored string, err error)
}

// rawSigner makes the inner signature; where it holds no private key it may
// wait for one that does.
type rawSigner interface {
	PublicKey() ssh.PublicKey
	with(ctx context.Context) ssh.Signer
}

type signer struct{ raw rawSigner }

// Fingerprint returns the key's SHA256 fingerprint.
func (s signer) Fingerprint() string { return ssh.FingerprintSHA256(s.raw.PublicKey()) }

// PublicKey returns the key.
func (s signer) PublicKey() ssh.PublicKey { return s.raw.PublicKey() }

// Sign signs as the interface says.
func (s signer) Sign(ctx context.Context, role op.Role, payload []byte) (string, error) {
	if !slices.Contains(op.Roles, role) {
		return "", op.Refuse(op.NamespaceMismatch, "there is no role %q", string(role)).
			WithHint("the roles are operational, coordination and recovery")
	}
	if err := checkPayload(payload); err != nil {
		return "", err
	}
	made, err := sshsig.Sign(bytes.NewReader(payload), s.raw.with(ctx), sshsig.HashSHA512, role.Namespace())
	if err != nil {
		if ctx.Err() != nil {
			return "", op.Refuse(op.Unavailable, "the signing was given up: %v", ctx.Err())
		}
		return "", asRefusal(err, "the key did not sign")
	}
	if err := checkMade(made, payload); err != nil {
		return "", err
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

// checkMade looks at what came back before it is handed on: an agent may answer
// with another format (one that ignores the flags answers ssh-rsa), with bytes
// after the signature, or with a signature over something else.
func checkMade(made *sshsig.Signature, payload []byte) error {
	format := made.PublicKey.Type()
	if format == ssh.KeyAlgoRSA {
		format = ssh.KeyAlgoRSASHA512
	}
	if got := made.Signature.Format; got != format || len(made.Signature.Rest) != 0 {
		return op.Refuse(op.BadSignature, "the signature came back as %.64q, not as %s", got, format).
			WithHint("use an agent that supports %s, or the key's file", format)
	}
	err := sshsig.Verify(bytes.NewReader(payload), made, made.PublicKey, made.HashAlgorithm, made.Namespace)
	if err != nil {
		return op.Refuse(op.BadSignature, "the signature that came back does not verify").
			WithHint("try the key with ssh-keygen -Y sign")
	}
	return nil
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

// asRefusal keeps a refusal that came through a library and hides other text.
func asRefusal(err error, what string) error {
	if r := op.AsRefusal(err); r.Code != op.Internal {
		return r
	}
	return op.Refuse(op.Unavailable, "%s: %v", what, err)
}
