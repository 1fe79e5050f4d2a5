package authz

import (
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// SignInNamespace is the SSHSIG namespace with which a passkey signs in at a console. It is no role's and no batch's, because
// it does not end in @gated or @batch.gated. So such a signature approves nothing.
const SignInNamespace = "sign-in.console"

// SignedIn is the person that signed in at a console.
type SignedIn struct {
	Principal string
	Key       string // SHA256 fingerprint
	Listed    bool   // by the signers in force; else a rotation asks for the key
}

// SignIn verifies a passkey's signature over the message in SignInNamespace. The key must be listed in some role at that
// time and not be revoked, or be in a line of adds, the lines that open rotations would add. Refusals name their stage.
func (t *Trust) SignIn(message []byte, armored string, page op.Passkeys, adds []string, now time.Time) (SignedIn, error) {
	s, err := parseSignature(armored)
	if err != nil {
		return SignedIn{}, atStage(refusal.StageDecode, err)
	}
	if s.namespace != SignInNamespace {
		return SignedIn{}, atStage(refusal.StageNamespace, refusal.New(refusal.NamespaceMismatch, "the signature is not for signing in"))
	}
	by, err := t.mayRead(s, adds, now)
	if err != nil {
		return SignedIn{}, atStage(refusal.StageAllowList, err)
	}
	if err = s.checkCrypto(message); err == nil {
		err = page.Allow(attestedBy(s.key, s.inner))
	}
	if err != nil {
		return SignedIn{}, atStage(refusal.StageCrypto, err)
	}
	return by, nil
}

// mayRead finds the line of a passkey.
func (t *Trust) mayRead(s signature, adds []string, now time.Time) (SignedIn, error) {
	if s.barred != nil || !isPasskey(s.key) {
		return SignedIn{}, refusal.New(refusal.UnknownSigner, "only a passkey signs in on a page")
	}
	key := ssh.FingerprintSHA256(s.key)
	if t != nil {
		if err := t.checkRevoked(key, ""); err != nil {
			return SignedIn{}, err
		}
		for _, e := range t.pick(t.byKey[string(s.blob)], "") {
			if len(e.Roles) > 0 && e.validAt(now) == nil {
				return SignedIn{Principal: e.Principal, Key: key, Listed: true}, nil
			}
		}
	}
	a := additions{lines: adds}
	a.parse()
	for _, e := range a.byKey[string(s.blob)] {
		return SignedIn{Principal: e.Principal, Key: key}, nil
	}
	return SignedIn{}, refusal.New(refusal.UnknownSigner, "the passkey %s is not listed, and no open rotation would add it", key).
		WithHint("enrol it, and have an operator ask for the rotation")
}
