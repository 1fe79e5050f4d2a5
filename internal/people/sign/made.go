package sign

import (
	"bytes"
	"crypto/rsa"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// checkMade checks a signature before it is returned. An agent may answer with another format (one that ignores the
// flags answers ssh-rsa), with bytes after the signature, or with a signature over other data. checkMade is as strict
// as a gate, so that the user learns of it here.
func checkMade(made *sshsig.Signature, payload []byte) error {
	format, sig := made.PublicKey.Type(), made.Signature
	if !formatFits(format, sig.Format) {
		want := format
		if format == ssh.KeyAlgoRSA {
			want = ssh.KeyAlgoRSASHA512
		}
		return refusal.New(refusal.BadSignature, "the signature came back as %.64q, not as %s", sig.Format, want).
			WithHint("use an agent that supports %s, or the key's file", want)
	}
	if !lengthsFit(made.PublicKey, sig) {
		return refusal.New(refusal.BadSignature, "the signature came back with other lengths than those of a %s key", format).
			WithHint("try the key with ssh-keygen -Y sign")
	}
	if isSecurityKey(format) && sig.Rest[0]&op.FlagPresent == 0 {
		return refusal.New(refusal.TouchRequired, "the security key signed without a touch").
			WithHint("a gate always wants one: make a key without -O no-touch-required")
	}
	err := sshsig.Verify(bytes.NewReader(payload), made, made.PublicKey, made.HashAlgorithm, made.Namespace)
	if err != nil {
		return refusal.New(refusal.BadSignature, "the signature that came back does not verify").
			WithHint("try the key with ssh-keygen -Y sign")
	}
	return nil
}

// formatFits reports whether a key of that type may sign in that format.
func formatFits(key, format string) bool {
	if key == ssh.KeyAlgoRSA {
		return format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256
	}
	return format == key
}

// skTail is the length of the end of a security key's signature: a byte of flags and a counter of four bytes (OpenSSH's
// PROTOCOL.u2f).
const skTail = 5

// lengthsFit reports whether a signature has the lengths of its key's type, and nothing after it.
func lengthsFit(key ssh.PublicKey, sig *ssh.Signature) bool {
	tail := 0
	if isSecurityKey(key.Type()) {
		tail = skTail
	}
	if len(sig.Rest) != tail {
		return false
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519:
		return len(sig.Blob) == 64
	case ssh.KeyAlgoRSA:
		k, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return false
		}
		pub, ok := k.CryptoPublicKey().(*rsa.PublicKey)
		return ok && len(sig.Blob) == pub.Size()
	default: // ECDSA, RFC 5656, 3.1.2
		var pair struct{ R, S []byte }
		return ssh.Unmarshal(sig.Blob, &pair) == nil && positive(pair.R) && positive(pair.S)
	}
}

// positive reports whether b is the shortest mpint of a number above zero.
func positive(b []byte) bool {
	switch {
	case len(b) == 0 || b[0] >= 0x80:
		return false
	case b[0] == 0:
		return len(b) > 1 && b[1] >= 0x80
	default:
		return true
	}
}
