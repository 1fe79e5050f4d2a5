package authz

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// securityKey is the public half of a key in a FIDO authenticator (OpenSSH's
// PROTOCOL.u2f). Verify checks only the mathematics. touched checks the flags
// afterwards, so that a forged signature is never judged by its flags. Versions of
// the library check different things, so this type does not rely on it.
type securityKey struct {
	ssh.PublicKey
	application string
	ed25519     ed25519.PublicKey // one of the two is set
	ecdsa       *ecdsa.PublicKey
}

var (
	errNotVerified = errors.New("the signature does not verify")
	errOtherCurve  = errors.New("the key is on another curve than its type says")
)

// parseSecurityKey parses a key blob of one of the two types.
func parseSecurityKey(blob []byte) (ssh.PublicKey, error) {
	public, err := parsePlainKey(blob)
	if err != nil {
		return nil, err
	}
	return securityKeyOf(public, blob)
}

// securityKeyOf returns the parts of the key in a blob. It checks the blob itself,
// because some versions of the library check less.
func securityKeyOf(public ssh.PublicKey, blob []byte) (ssh.PublicKey, error) {
	var err error
	k := securityKey{PublicKey: public}
	w := wire{rest: blob}
	if typ := string(w.next()); typ == ssh.KeyAlgoSKED25519 {
		k.ed25519 = w.next()
	} else {
		curve := string(w.next())
		k.ecdsa, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), w.next())
		if curve != "nistp256" {
			err = errOtherCurve
		}
	}
	k.application = string(w.next())
	if err != nil || !w.ended() || k.ecdsa == nil && len(k.ed25519) != ed25519.PublicKeySize {
		return nil, refusal.New(refusal.Malformed, "the key does not decode")
	}
	switch {
	case strings.HasPrefix(k.application, "ssh:") && op.CheckText("the application", k.application) == nil:
		return k, nil
	case k.ecdsa != nil && op.IsRelyingParty(k.application): // a web site's: browsers sign for it
		return passkey{PublicKey: public, party: k.application, ecdsa: k.ecdsa}, nil
	}
	return nil, refusal.New(refusal.Malformed, "the security key's application neither starts with ssh: nor is the host name of a passkey").
		WithHint("make one for ssh: ssh-keygen -t ed25519-sk")
}

// Verify verifies that the authenticator signed data, whatever its flags are.
func (k securityKey) Verify(data []byte, sig *ssh.Signature) error {
	application, message := sha256.Sum256([]byte(k.application)), sha256.Sum256(data)
	signed := slices.Concat(application[:], sig.Rest, message[:])
	if k.ecdsa == nil {
		if !ed25519.Verify(k.ed25519, signed, sig.Blob) {
			return errNotVerified
		}
		return nil
	}
	pair, digest := wire{rest: sig.Blob}, sha256.Sum256(signed)
	r, s := new(big.Int).SetBytes(pair.next()), new(big.Int).SetBytes(pair.next())
	if !ecdsa.Verify(k.ecdsa, digest[:], r, s) {
		return errNotVerified
	}
	return nil
}

// attestedBy returns what a security key or a passkey attests beside its signature,
// nil for another key. parseInner has checked the form of Rest.
func attestedBy(key ssh.PublicKey, sig *ssh.Signature) *op.Attested {
	switch key.(type) {
	case securityKey:
		return &op.Attested{Flags: sig.Rest[0], Counter: binary.BigEndian.Uint32(sig.Rest[1:])}
	case passkey:
		a, _ := parseAssertion(sig.Rest)
		return &op.Attested{Flags: a.flags, Counter: a.counter, Origin: a.origin}
	}
	return nil
}

// touched refuses a verified signature of a security key if no person touched the
// key. It ignores the key's own setting, and a certificate's, that no touch is
// needed. Of a passkey it also checks which page asked.
func touched(key ssh.PublicKey, sig *ssh.Signature) error {
	if k, ok := key.(passkey); ok {
		if a, err := parseAssertion(sig.Rest); err != nil {
			return err
		} else if err := k.browsed(a); err != nil {
			return err
		}
	}
	if a := attestedBy(key, sig); a != nil && a.Touch() == op.TouchNone {
		return refusal.New(refusal.TouchRequired, "the security key %s signed without a touch", ssh.FingerprintSHA256(key)).
			WithHint("make the key again without no-touch-required")
	}
	return nil
}
