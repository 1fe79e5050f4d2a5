package bench

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/test/mint"
)

const (
	host   = "bench"
	gateID = op.GateID("b10cb10cb10cb10cb10cb10cb10cb10c")
)

// key is the key of an operator.
type key struct {
	mint.Key
	principal string
	names     []byte // the signer as a signature names it: the public key, or its certificate
	line      string // of allowed_signers
}

// keys are those of four people. Every gate lists all of them.
type keys struct {
	plain, second key // ed25519
	touched       key // ed25519 of a security key
	certified     key // ed25519, by an authority that is listed in its place
}

func newKeys() keys {
	authority, certified := mint.Ed25519(must{}, "authority"), mint.Ed25519(must{}, "dave")
	const dave = "dave@example.com"
	only := fmt.Sprintf("namespaces=%q", op.Operational.Namespace())
	return keys{
		plain:   listed("alice@example.com", only, mint.Ed25519(must{}, "alice")),
		second:  listed("bob@example.com", only, mint.Ed25519(must{}, "bob")),
		touched: listed("carol@example.com", only, mint.SKEd25519(must{}, "carol", mint.Touched)),
		certified: key{certified, dave, mint.Certify(authority, certified, dave).Blob(must{}),
			authority.Line(dave, "cert-authority,"+only)},
	}
}

func listed(principal, options string, k mint.Key) key {
	return key{k, principal, k.Blob(), k.Line(principal, options)}
}

// lines are an allowed_signers file.
func (k keys) lines() []byte {
	return []byte(k.plain.line + k.second.line + k.touched.line + k.certified.line)
}

// must ends the program if a key cannot be made.
type must struct{}

// Helper does nothing.
func (must) Helper() {}

// Fatalf panics.
func (must) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// public is the key's line in a .pub file.
func (k key) public() string { return k.Text() + " " + k.principal + "\n" }

// signed is an operation that operators signed before the gate saw it.
type signed struct {
	payload []byte
	armors  []string
}

// destroy is the end of a guest in the state o. Each key signs it.
func destroy(o op.Observed, now time.Time, by ...key) (s signed, err error) {
	var nonce [24]byte
	rand.Read(nonce[:]) // never fails (crypto/rand)
	now = now.UTC().Truncate(time.Second)
	s.payload, err = op.Payload{Gate: gateID, Host: host, Op: "guest.destroy", Target: o.Target,
		Incarnation: o.Incarnation, State: o.Fingerprint, Params: op.Params{},
		Nonce:    base64.RawURLEncoding.EncodeToString(nonce[:]),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "the project ended"}.Encode()
	for _, k := range by {
		s.armors = append(s.armors, mint.Unsigned(k.names, op.Operational.Namespace()).By(must{}, k.Key, s.payload).Armored())
	}
	return s, err
}
