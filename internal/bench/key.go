package bench

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

const (
	host      = "bench"
	principal = "alice@example.com"
	gateID    = op.GateID("b10cb10cb10cb10cb10cb10cb10cb10c")
)

// key is an operator's.
type key struct{ ssh.Signer }

func newKey() (key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return key{}, err
	}
	s, err := ssh.NewSignerFromKey(private)
	return key{s}, err
}

// public is the key's line in a .pub file.
func (k key) public() string {
	return k.PublicKey().Type() + " " + base64.StdEncoding.EncodeToString(k.PublicKey().Marshal()) + " " + principal + "\n"
}

// line lists the key in an allowed_signers file.
func (k key) line() string {
	return principal + ` namespaces="` + op.Operational.Namespace() + `" ` + k.public()
}

// signed is an operation that an operator signed before the gate saw it.
type signed struct {
	payload []byte
	armor   string
}

// destroy signs the end of a guest as it was observed.
func (k key) destroy(o op.Observed, now time.Time) (signed, error) {
	var nonce [24]byte
	rand.Read(nonce[:]) // never fails (crypto/rand)
	now = now.UTC().Truncate(time.Second)
	payload, err := op.Payload{Gate: gateID, Host: host, Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation,
		State: o.Fingerprint, Params: op.Params{}, Nonce: base64.RawURLEncoding.EncodeToString(nonce[:]),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "the project ended"}.Encode()
	if err != nil {
		return signed{}, err
	}
	sig, err := sshsig.Sign(bytes.NewReader(payload), k.Signer, sshsig.HashSHA512, op.Operational.Namespace())
	if err != nil {
		return signed{}, err
	}
	return signed{payload, string(sshsig.Armor(sig))}, nil
}
