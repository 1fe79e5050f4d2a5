package sign

import (
	"bytes"
	"context"
	"crypto/rsa"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// Identities lists the keys of the agent behind a socket, in the agent's order. It refuses as Unavailable if no agent
// answers.
func Identities(ctx context.Context, socket string) ([]Identity, error) {
	return unixAgent(socket).identities(ctx)
}

func (s agentSocket) identities(ctx context.Context) ([]Identity, error) {
	var found []named
	err := s.call(ctx, listTimeout, func(conn io.ReadWriter) (err error) {
		found, err = listHeld(conn)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Identity, 0, len(found))
	for _, k := range found {
		out = append(out, identify(k.Blob, string(k.Comment)))
	}
	return out, nil
}

// Agent returns a signer with a key that ssh-agent holds: the one with that SHA256 fingerprint or, if fingerprint is
// empty, the only key that can sign for a gate. It never chooses a certificate, although that has its key's
// fingerprint. If no key or several fit, it refuses as UnknownSigner and lists the agent's keys. It refuses as
// Unavailable if the agent does not answer.
func Agent(ctx context.Context, socket, fingerprint string) (Signer, error) {
	return unixAgent(socket).signer(ctx, fingerprint)
}

func (s agentSocket) signer(ctx context.Context, fingerprint string) (Signer, error) {
	if fingerprint != "" && !strings.HasPrefix(fingerprint, "SHA256:") {
		return nil, refusal.New(refusal.Malformed, "%.80q is not a SHA256 fingerprint", fingerprint).
			WithHint("ssh-add -l shows them")
	}
	held, err := s.identities(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(held, fingerprint)
	if err != nil {
		return nil, err
	}
	return signer{raw: agentKey{socket: s, blob: chosen.Blob, key: chosen.key}}, nil
}

// AgentCertified returns a signer that presents a certificate; an agent signs with its key. The agent may hold the key
// alone, this certificate, or another certificate of the key. It refuses as Agent does.
func AgentCertified(ctx context.Context, socket string, c *Certificate) (Signer, error) {
	s := unixAgent(socket)
	held, err := s.identities(ctx)
	if err != nil {
		return nil, err
	}
	own := c.cert.Key.Marshal()
	var found *Identity
	for i, id := range held {
		if id.key == nil || !bytes.Equal(id.key.Marshal(), own) {
			continue
		}
		if found == nil || id.Certificate == nil {
			found = &held[i]
		}
	}
	if found == nil {
		return nil, refusal.New(refusal.UnknownSigner, "the agent does not hold the key %s of the certificate, but:%s",
			c.Fingerprint, table(held)).WithHint("load it with ssh-add")
	}
	return Certified(signer{raw: agentKey{socket: s, blob: found.Blob, key: found.key}}, c)
}

func choose(held []Identity, fingerprint string) (Identity, error) {
	var fit []Identity
	var unfit *refusal.Refusal
	certified := false // only certificates have the fingerprint
	for _, id := range held {
		switch {
		case fingerprint != "" && id.Fingerprint != fingerprint:
		case id.Certificate != nil:
			certified = true
		case id.Refused == nil:
			fit = append(fit, id)
		case fingerprint != "":
			unfit = id.Refused
		}
	}
	const certHint = "name its certificate with --cert FILE; ssh-add -L prints what the agent holds"
	switch {
	case len(fit) == 1 || fingerprint != "" && len(fit) > 1:
		return fit[0], nil
	case len(fit) > 1:
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent holds several keys:%s", table(held)).
			WithHint("choose one with --fingerprint SHA256:…")
	case unfit != nil:
		return Identity{}, refusal.New(unfit.Code, "key %s: %s", fingerprint, unfit.Detail).WithHint("%s", unfit.Hint)
	case len(held) == 0:
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent holds no key").
			WithHint("unlock it (ssh-add -X), or load a key with ssh-add")
	case certified:
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent holds only a certificate, not the plain key:%s",
			table(held)).
			WithHint(certHint)
	case fingerprint != "":
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent does not hold the key %s, but:%s", fingerprint,
			table(held)).
			WithHint("load it with ssh-add")
	default:
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent holds no key that can sign for a gate:%s",
			table(held)).
			WithHint("load an ed25519, ecdsa or rsa key, or a security key, with ssh-add")
	}
}

// table lists keys for people, a line each. It quotes comments, because the user who loaded a key chose them.
func table(held []Identity) string {
	var b strings.Builder
	for _, id := range held {
		fmt.Fprintf(&b, "\n  %s %.60q %.60q", id.Fingerprint, id.KeyType, id.Comment)
		if id.Refused != nil {
			fmt.Fprintf(&b, " (%s)", id.Refused.Detail)
		}
	}
	return b.String()
}

// agentKey is a key that an agent holds.
type agentKey struct {
	socket agentSocket
	blob   []byte // the agent's name for it: the key's blob, or a certificate's
	key    ssh.PublicKey
}

// PublicKey returns the key.
func (a agentKey) PublicKey() ssh.PublicKey { return a.key }

func (a agentKey) with(ctx context.Context) ssh.Signer { return agentCall{a, ctx} }

// agentCall makes one signature.
type agentCall struct {
	agentKey
	ctx context.Context
}

// Sign asks the agent for a signature in the key's default format.
func (a agentCall) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) { return a.ask(data, 0) }

// SignWithAlgorithm asks for a signature in that format. Only rsa-sha2-512 ever differs from the default.
func (a agentCall) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if algorithm != ssh.KeyAlgoRSASHA512 {
		return nil, refusal.New(refusal.BadSignature, "no agent is asked for %s", algorithm)
	}
	sig, err := a.ask(data, flagRSASHA512)
	if err == nil {
		sig.Blob = a.padded(sig.Blob)
	}
	return sig, err
}

// padded gives an RSA signature the length of the modulus, as in RFC 8332. Some agents leave out leading zeros, but a
// gate accepts only one form.
func (a agentCall) padded(blob []byte) []byte {
	k, ok := a.key.(ssh.CryptoPublicKey)
	if !ok {
		return blob
	}
	if pub, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && len(blob) > 0 && len(blob) < pub.Size() {
		return append(make([]byte, pub.Size()-len(blob)), blob...)
	}
	return blob
}

func (a agentCall) ask(data []byte, flags uint32) (sig *ssh.Signature, err error) {
	err = a.socket.call(a.ctx, signTimeout, func(conn io.ReadWriter) error {
		sig, err = signHeld(conn, a.blob, data, flags)
		return err
	})
	return sig, err
}
