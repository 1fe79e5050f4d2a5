package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// namespace begins every text that a gate's key signs for a group, so that the signature fits nothing else that the key
// signs: a head of the audit log begins with its origin, "gated/…".
const namespace = "gated ledger group v1\x00"

// Signer is the private half of a gate's key.
type Signer interface {
	Sign(message []byte) (signature []byte, err error)
}

// Verifier is the public half of a gate's key. A reader of a chain has it from the operator, never from the ledger.
type Verifier interface {
	Verify(message, signature []byte) bool
}

// The stages of checking a group, in order. Each is an error of its own.
var (
	// ErrNumber: the group is not the next one.
	ErrNumber = errors.New("the group has another number")
	// ErrEra: its era is 0, or lower than that of the group before.
	ErrEra = errors.New("the group is of an earlier era than the one before it")
	// ErrLink: it follows on another group than the one before.
	ErrLink = errors.New("the group follows on another one")
	// ErrSignature: the gate's key did not sign it.
	ErrSignature = errors.New("the gate's key did not sign the group")
)

// message is what is signed: the namespace, the gate's id behind its length, number, era, the digest of the group before,
// and the digest of the body. Numbers are 8 bytes, big-endian.
func message(gate string, g Group) []byte {
	m := append([]byte(namespace), byte(len(gate)))
	m = append(m, gate...)
	m = binary.BigEndian.AppendUint64(m, g.Number)
	m = binary.BigEndian.AppendUint64(m, g.Era)
	m = append(m, g.Previous[:]...)
	body := sha256.Sum256(g.Body)
	return append(m, body[:]...)
}

// DigestOf is the digest of a group of a gate, and through its links of all groups before it.
func DigestOf(gate string, g Group) Digest { return sha256.Sum256(message(gate, g)) }

// Link is the end of a chain: a group follows on it.
type Link struct {
	Number uint64
	Era    uint64
	Digest Digest
}

// sign makes the group after a link.
func sign(gate string, key Signer, after Link, era uint64, body []byte) (Group, Link, error) {
	g := Group{Number: after.Number + 1, Era: era, Previous: after.Digest, Body: body}
	m := message(gate, g)
	var err error
	if g.Signature, err = key.Sign(m); err != nil {
		return Group{}, Link{}, fmt.Errorf("sign group %d: %w", g.Number, err)
	}
	return g, Link{g.Number, era, sha256.Sum256(m)}, nil
}

// Verify checks that a group follows on a link, and that the gate's key signed it. It returns the link after the group.
func Verify(gate string, key Verifier, after Link, g Group) (Link, error) {
	m := message(gate, g)
	switch {
	case g.Number != after.Number+1:
		return Link{}, fmt.Errorf("%w: %d, not %d", ErrNumber, g.Number, after.Number+1)
	case g.Era == 0 || g.Era < after.Era:
		return Link{}, fmt.Errorf("%w: group %d of era %d after era %d", ErrEra, g.Number, g.Era, after.Era)
	case g.Previous != after.Digest:
		return Link{}, fmt.Errorf("%w: group %d", ErrLink, g.Number)
	case !key.Verify(m, g.Signature):
		return Link{}, fmt.Errorf("%w: group %d", ErrSignature, g.Number)
	}
	return Link{g.Number, g.Era, sha256.Sum256(m)}, nil
}
