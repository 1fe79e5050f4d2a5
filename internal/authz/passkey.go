package authz

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// keyAlgoWebAuthn is the format of a signature that a browser asked for (OpenSSH's PROTOCOL.u2f).
const keyAlgoWebAuthn = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"

// Bounds in bytes. Browsers write client data of about 300 bytes, and authenticators no extension data unless a page asks.
const (
	maxClientData = 4 << 10
	maxExtensions = 1 << 10
)

// passkey is the public half of a WebAuthn credential. Its line lists it as an ECDSA security key whose application is the
// relying party's id, a host name. OpenSSH accepts both forms of signature for such a key; a passkey signs the WebAuthn form
// alone, and a key for ssh: the other form alone.
type passkey struct {
	ssh.PublicKey
	party string
	ecdsa *ecdsa.PublicKey
}

func isPasskey(key ssh.PublicKey) bool {
	_, ok := key.(passkey)
	return ok
}

// assertion is what follows the ECDSA signature in the inner signature.
type assertion struct {
	flags      byte
	counter    uint32
	origin     string
	clientData []byte // JSON (WebAuthn level 3, 5.8.1)
	extensions []byte // one map of CBOR, whose content is not read; or empty
}

// parseAssertion reads the form alone: nothing in it is proved yet.
func parseAssertion(b []byte) (a assertion, err error) {
	w := wire{rest: b}
	if flags := w.take(1); !w.bad {
		a.flags = flags[0]
	}
	a.counter, a.origin, a.clientData, a.extensions = w.number(), string(w.next()), w.next(), w.next()
	switch {
	case !w.ended():
		return a, notAssertion("it is cut short or followed by other bytes")
	case len(a.clientData) > maxClientData || len(a.extensions) > maxExtensions:
		return a, notAssertion("its client data or its extension data is too long")
	case a.flags&^(op.FlagPresent|op.FlagVerified|op.FlagBackupEligible|op.FlagBackedUp|op.FlagExtensions) != 0:
		return a, notAssertion("it has flags that no assertion has") // attested credential data, and two that are reserved
	case a.flags&op.FlagBackedUp != 0 && a.flags&op.FlagBackupEligible == 0:
		return a, notAssertion("its key is copied and may not be")
	case (a.flags&op.FlagExtensions != 0) != (len(a.extensions) > 0):
		return a, notAssertion("its flag of extension data is wrong")
	case len(a.extensions) > 0 && !isExtensionData(a.extensions):
		return a, notAssertion("its extension data is not one map of CBOR")
	}
	return a, nil
}

func notAssertion(why string) error {
	return refusal.New(refusal.Malformed, "the signature is not a passkey's: %s", why)
}

// Verify verifies that the authenticator signed client data whose challenge is the data. The client data begins as
// PROTOCOL.u2f says, byte by byte. browsed checks the rest of it afterwards.
func (k passkey) Verify(data []byte, sig *ssh.Signature) error {
	a, err := parseAssertion(sig.Rest)
	if err != nil {
		return err
	}
	begins := `{"type":"webauthn.get","challenge":"` + base64.RawURLEncoding.EncodeToString(data) + `","origin":"` + a.origin + `"`
	rest, ok := bytes.CutPrefix(a.clientData, []byte(begins))
	if !ok || len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
		return errNotVerified
	}
	party, message := sha256.Sum256([]byte(k.party)), sha256.Sum256(a.clientData)
	digest := sha256.Sum256(slices.Concat(party[:], []byte{a.flags}, binary.BigEndian.AppendUint32(nil, a.counter), a.extensions, message[:]))
	pair := wire{rest: sig.Blob}
	r, s := new(big.Int).SetBytes(pair.next()), new(big.Int).SetBytes(pair.next())
	if !ecdsa.Verify(k.ecdsa, digest[:], r, s) {
		return errNotVerified
	}
	return nil
}

// browsed refuses a verified signature of a passkey if no page of its relying party asked for it, or if the page was in the
// frame of another site. OpenSSH ignores both.
func (k passkey) browsed(a assertion) error {
	var said struct {
		Type        string         `json:"type"`
		Challenge   string         `json:"challenge"`
		Origin      string         `json:"origin"`
		CrossOrigin jsontext.Value `json:"crossOrigin"`
		TopOrigin   jsontext.Value `json:"topOrigin"`
	}
	// The decoder refuses doubled members, at any depth. A member above in other letters counts as one of them, because many
	// decoders read it so.
	if err := json.Unmarshal(a.clientData, &said, json.MatchCaseInsensitiveNames(true)); err != nil {
		return refusal.New(refusal.Malformed, "the client data of the signature by %s is not one strict JSON object", ssh.FingerprintSHA256(k))
	}
	host, ok := op.Origin(a.origin)
	switch {
	case said.Origin != a.origin || !ok || !op.IsOf(host, k.party):
		return refusal.New(refusal.OriginMismatch, "the passkey %s is of %s, and a page of %s asked for the signature", ssh.FingerprintSHA256(k),
			k.party, op.Shown(a.origin)).WithHint("sign on a page of %s", k.party)
	case said.CrossOrigin != nil && string(said.CrossOrigin) != "false", said.TopOrigin != nil:
		return refusal.New(refusal.OriginMismatch, "a page in a frame of another site asked for the signature by %s", ssh.FingerprintSHA256(k)).
			WithHint("sign on the page itself")
	}
	return nil
}
