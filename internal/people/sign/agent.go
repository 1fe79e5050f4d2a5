package sign

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

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
	return s.holds(chosen), nil
}

// Held returns a signer with one of the Identities of the agent behind a socket, which is not refused and no
// certificate.
func Held(socket string, id Identity) Signer { return unixAgent(socket).holds(id) }

func (s agentSocket) holds(id Identity) signer {
	return signer{raw: agentKey{socket: s, blob: id.Blob, key: id.key}}
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
	return Certified(s.holds(*found), c)
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
		return Identity{}, refusal.New(refusal.UnknownSigner, "the agent does not hold the key %s, but:%s",
			fingerprint, table(held)).
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

const (
	// listTimeout bounds an agent's list of its keys, for which it asks no person.
	listTimeout = 10 * time.Second
	// signTimeout bounds an agent's signature: a person may have to find the
	// security key, touch it, or confirm the use.
	signTimeout = 2 * time.Minute
	// maxAgentReply is the longest answer of an agent in bytes, the same as in OpenSSH's client.
	maxAgentReply = 256 << 10
)

// Messages of the agent protocol (draft-ietf-sshm-ssh-agent).
const (
	msgFailure          = 5
	msgListIdentities   = 11
	msgIdentities       = 12
	msgSign             = 13
	msgSigned           = 14
	msgExtensionFailure = 28
)

// flagRSASHA512 asks for rsa-sha2-512 (RFC 8332) instead of SHA-1.
const flagRSASHA512 = 4

// errRefused says that the agent refused.
var errRefused = errors.New("the agent refuses")

// odd is an answer that is not an agent's.
type odd string

func (o odd) Error() string { return string(o) }

// agentSocket is the socket of an agent.
type agentSocket struct {
	path string
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func unixAgent(path string) agentSocket { return agentSocket{path, new(net.Dialer).DialContext} }

// call connects, runs use, and closes the connection. Each call has a connection of its own, so that none stays open
// while a person reads the payload.
func (s agentSocket) call(ctx context.Context, limit time.Duration, use func(io.ReadWriter) error) error {
	if s.path == "" {
		return refusal.New(refusal.Unavailable, "there is no ssh-agent: SSH_AUTH_SOCK is not set").
			WithHint("start one with eval $(ssh-agent), or sign with --key FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := s.dial(ctx, "unix", s.path)
	if err != nil {
		return refusal.New(refusal.Unavailable, "ssh-agent: %v", err).
			WithHint("check SSH_AUTH_SOCK, or sign with --key FILE")
	}
	defer func() { _ = conn.Close() }() // the answer came, or the call failed
	// Closing ends a read that waits, at the deadline and at a cancel.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = use(conn)
	var strange odd
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return refusal.New(refusal.Unavailable, "ssh-agent at %s did not answer in time", s.path).
			WithHint("it may wait for a touch, a PIN or a confirmation; else restart it, or sign with --key FILE")
	case errors.Is(err, errRefused):
		return refusal.New(refusal.Unavailable, "ssh-agent at %s refused", s.path).
			WithHint("the key may have been removed or its use not confirmed, or nobody touched the security key; " +
				"ssh-add -l shows what the agent holds")
	case errors.As(err, &strange):
		return refusal.New(refusal.Unavailable, "what listens at %s does not answer as an ssh-agent does: %s",
			s.path, strange).
			WithHint("check SSH_AUTH_SOCK, or sign with --key FILE")
	default:
		return refusal.New(refusal.Unavailable, "ssh-agent: %v", err).WithHint("it may have ended; check SSH_AUTH_SOCK")
	}
}

// exchange sends a request and returns the body of the answer, which must be one message of type want.
func exchange(conn io.ReadWriter, request []byte, want byte) ([]byte, error) {
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(request)))
	if _, err := conn.Write(append(framed, request...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, cutShort(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxAgentReply {
		return nil, odd(fmt.Sprintf("an answer of %d bytes", n))
	}
	reply := make([]byte, n)
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, cutShort(err)
	}
	switch typ := reply[0]; typ {
	case want:
		return reply[1:], nil
	case msgFailure, msgExtensionFailure:
		return nil, errRefused
	default:
		return nil, odd(fmt.Sprintf("an answer of type %d, not %d", typ, want))
	}
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return odd("its answer is cut short")
	}
	return err
}

// named is one entry of an agent's list.
type named struct{ Blob, Comment []byte }

// listHeld asks an agent for its list of keys.
func listHeld(conn io.ReadWriter) ([]named, error) {
	body, err := exchange(conn, []byte{msgListIdentities}, msgIdentities)
	if err != nil {
		return nil, err
	}
	var list struct {
		Count uint32
		Rest  []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(body, &list); err != nil {
		return nil, odd("its list has no number of keys")
	}
	var out []named
	rest := list.Rest
	for range list.Count {
		var one struct {
			Blob, Comment []byte
			Rest          []byte `ssh:"rest"`
		}
		if err := ssh.Unmarshal(rest, &one); err != nil {
			return nil, odd("its list has fewer keys than it says")
		}
		out, rest = append(out, named{one.Blob, one.Comment}), one.Rest
	}
	if len(rest) != 0 {
		return nil, odd("its list is followed by other bytes")
	}
	return out, nil
}

// signHeld asks an agent for a signature by the key or certificate of a blob. It does not check the signature.
func signHeld(conn io.ReadWriter, blob, data []byte, flags uint32) (*ssh.Signature, error) {
	request := append([]byte{msgSign}, ssh.Marshal(struct {
		Blob, Data []byte
		Flags      uint32
	}{blob, data, flags})...)
	body, err := exchange(conn, request, msgSigned)
	if err != nil {
		return nil, err
	}
	var reply struct{ Signature []byte }
	if err := ssh.Unmarshal(body, &reply); err != nil {
		return nil, odd("its signature is cut short or followed by other bytes")
	}
	var sig ssh.Signature
	if err := ssh.Unmarshal(reply.Signature, &sig); err != nil {
		return nil, odd("its signature does not decode")
	}
	return &sig, nil
}
