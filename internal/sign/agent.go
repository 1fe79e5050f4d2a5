package sign

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gated/internal/op"
)

const (
	// listTimeout bounds an agent's answer to what it holds: nobody is asked.
	listTimeout = 10 * time.Second
	// signTimeout bounds an agent's signature: a person may have to confirm it.
	signTimeout = 2 * time.Minute
)

// Identity is one key that an agent holds.
type Identity struct {
	Fingerprint string // SHA256, of the key or, for a certificate, of its key
	KeyType     string
	Comment     string
	Refused     *op.Refusal // why it cannot sign for a gate; nil if it can

	key ssh.PublicKey
}

// Identities lists what the agent behind a socket holds, in its order. It
// refuses with Unavailable if the agent does not answer.
func Identities(ctx context.Context, socket string) ([]Identity, error) {
	var keys []*agent.Key
	err := dial(ctx, socket, listTimeout, func(a agent.ExtendedAgent) (err error) {
		keys, err = a.List()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Identity, 0, len(keys))
	for _, k := range keys {
		out = append(out, identify(k))
	}
	return out, nil
}

func identify(k *agent.Key) Identity {
	id := Identity{KeyType: k.Format, Comment: k.Comment}
	key, err := ssh.ParsePublicKey(k.Blob)
	if err != nil {
		id.Refused = op.Refuse(op.UnknownSigner, "keys of this type are not supported yet")
		return id
	}
	id.key, id.Refused = key, usable(key)
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	id.Fingerprint = ssh.FingerprintSHA256(key)
	return id
}

// Agent returns a signer with a key that ssh-agent holds: the one with that
// SHA256 fingerprint or, if fingerprint is empty, the only one that can sign
// for a gate. A certificate is never chosen, though it has the fingerprint of
// its key. It refuses with UnknownSigner, listing what the agent holds, when no
// key or several fit, and with Unavailable if the agent does not answer.
func Agent(ctx context.Context, socket, fingerprint string) (Signer, error) {
	if fingerprint != "" && !strings.HasPrefix(fingerprint, "SHA256:") {
		return nil, op.Refuse(op.Malformed, "%.80q is not a SHA256 fingerprint", fingerprint).
			WithHint("ssh-add -l shows them")
	}
	held, err := Identities(ctx, socket)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(held, fingerprint)
	if err != nil {
		return nil, err
	}
	return signer{agentKey{socket: socket, key: chosen.key}}, nil
}

func choose(held []Identity, fingerprint string) (Identity, error) {
	var fit []Identity
	var unfit *op.Refusal
	for _, id := range held {
		switch {
		case fingerprint != "" && id.Fingerprint != fingerprint:
		case id.Refused == nil:
			fit = append(fit, id)
		case fingerprint != "" && !isCertificate(id.KeyType):
			unfit = id.Refused
		}
	}
	switch {
	case len(fit) == 1 || fingerprint != "" && len(fit) > 1:
		return fit[0], nil
	case len(fit) > 1:
		return Identity{}, op.Refuse(op.UnknownSigner, "the agent holds several keys:%s", table(held)).
			WithHint("choose one with --fingerprint SHA256:…")
	case unfit != nil:
		return Identity{}, op.Refuse(unfit.Code, "key %s: %s", fingerprint, unfit.Detail).WithHint("%s", unfit.Hint)
	case len(held) == 0:
		return Identity{}, op.Refuse(op.UnknownSigner, "the agent holds no key").
			WithHint("unlock it (ssh-add -X), or load a key with ssh-add")
	case fingerprint != "":
		return Identity{}, op.Refuse(op.UnknownSigner, "the agent does not hold the key %s, but:%s", fingerprint, table(held)).
			WithHint("load it with ssh-add")
	default:
		return Identity{}, op.Refuse(op.UnknownSigner, "the agent holds no key that can sign for a gate:%s", table(held)).
			WithHint("load an ed25519, ecdsa or rsa key with ssh-add")
	}
}

// table lists keys for people, a line each. Comments are quoted: whoever loaded
// a key chose them.
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
	socket string
	key    ssh.PublicKey
}

// PublicKey returns the key.
func (a agentKey) PublicKey() ssh.PublicKey { return a.key }

func (a agentKey) with(ctx context.Context) ssh.Signer { return agentCall{a, ctx} }

// agentCall makes one signature. Each has a connection of its own, so that
// nothing stays open while a person reads what is to be signed.
type agentCall struct {
	agentKey
	ctx context.Context
}

// Sign asks the agent for a signature in the key's default format.
func (a agentCall) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) { return a.ask(data, 0) }

// SignWithAlgorithm asks for a signature in that format; only rsa-sha2-512 is
// ever another than the default.
func (a agentCall) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if algorithm != ssh.KeyAlgoRSASHA512 {
		return nil, op.Refuse(op.BadSignature, "no agent is asked for %s", algorithm)
	}
	return a.ask(data, agent.SignatureFlagRsaSha512)
}

func (a agentCall) ask(data []byte, flags agent.SignatureFlags) (sig *ssh.Signature, err error) {
	err = dial(a.ctx, a.socket, signTimeout, func(c agent.ExtendedAgent) error {
		sig, err = c.SignWithFlags(a.key, data, flags)
		return err
	})
	return sig, err
}

// dial connects, calls use once and hangs up. The deadline is on the socket,
// because the agent protocol's client knows none.
func dial(ctx context.Context, socket string, limit time.Duration, use func(agent.ExtendedAgent) error) error {
	if socket == "" {
		return op.Refuse(op.Unavailable, "there is no ssh-agent: SSH_AUTH_SOCK is not set").
			WithHint("start one with eval $(ssh-agent), or sign with --key FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return op.Refuse(op.Unavailable, "ssh-agent: %v", err).
			WithHint("check SSH_AUTH_SOCK, or sign with --key FILE")
	}
	defer func() { _ = conn.Close() }() // it was answered or it failed
	// Closing ends a read that waits, at the deadline and at a cancel alike.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = use(agent.NewClient(conn))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return op.Refuse(op.Unavailable, "ssh-agent at %s did not answer in time", socket).
			WithHint("it may wait for a confirmation")
	default:
		return op.Refuse(op.Unavailable, "ssh-agent: %v", err).
			WithHint("the key may have been removed, or its use not confirmed; ssh-add -l shows what the agent holds")
	}
}
