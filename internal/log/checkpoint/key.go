package checkpoint

import (
	"crypto/rand"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Signer signs checkpoints for one gate.
type Signer = note.Signer

// Key is a gate's own key pair (Ed25519). It signs only the heads of the audit log,
// and it allows nothing.
type Key struct {
	Signer
	Public string // in the form for Open: NAME+HASH+KEY
	text   string
}

// NewKey makes a key for a gate.
func NewKey(gate op.GateID) (Key, error) {
	private, public, err := note.GenerateKey(rand.Reader, Origin(gate))
	if err != nil {
		return Key{}, fmt.Errorf("make a key for the audit log: %w", err)
	}
	return ParseKey(private + "\n" + public + "\n")
}

// Text returns the content of a key file: the private key on the first line, the
// public key on the second.
func (k Key) Text() string { return k.text }

// ParseKey reads a key file. If it is none, or its halves do not fit, the error is
// Malformed and has no byte of the file.
func ParseKey(text string) (Key, error) {
	refused := refusal.New(refusal.Malformed, "this is not the key file of a gate")
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || lines[2] != "" {
		return Key{}, refused
	}
	signer, err := note.NewSigner(lines[0])
	if err != nil {
		return Key{}, refused
	}
	verifier, err := note.NewVerifier(lines[1])
	if err != nil || verifier.Name() != signer.Name() {
		return Key{}, refused
	}
	const probe = "gated: do both halves of this key belong together?"
	sig, err := signer.Sign([]byte(probe))
	if err != nil || verifier.KeyHash() != signer.KeyHash() || !verifier.Verify([]byte(probe), sig) {
		return Key{}, refused
	}
	return Key{Signer: signer, Public: lines[1], text: text}, nil
}

// Of reports whether the key belongs to that gate.
func (k Key) Of(gate op.GateID) bool { return k.Signer != nil && k.Name() == Origin(gate) }

// Gate returns the gate that the key belongs to.
func (k Key) Gate() op.GateID {
	if k.Signer == nil {
		return ""
	}
	return op.GateID(strings.TrimPrefix(k.Name(), originPrefix))
}

// NewVerifier returns what checks signatures of a key, of which it has the public half as Key.Public does.
func NewVerifier(public string) (note.Verifier, error) { return note.NewVerifier(public) }
