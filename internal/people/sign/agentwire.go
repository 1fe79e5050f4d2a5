package sign

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

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
		return refusal.New(refusal.Unavailable, "what listens at %s does not answer as an ssh-agent does: %s", s.path,
			strange).
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
