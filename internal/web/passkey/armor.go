package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/armor"
	"gated/internal/base/refusal"
)

// Format is the type of an inner signature by a passkey (PROTOCOL.u2f, "SSH U2F
// Signatures").
const Format = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"

// Flags of authenticator data (WebAuthn Level 3, section 6.1).
const (
	flagAttested   = 0x40
	flagExtensions = 0x80
)

// Authenticator data without extensions: hash of the ID, flags, counter.
const plainData = sha256.Size + 1 + 4

// innerWire is an inner signature of the type Format.
type innerWire struct {
	Type       string
	Signature  []byte
	Flags      byte
	Counter    uint32
	Origin     string
	ClientData []byte
	Extensions []byte
}

// clientData has the members that matter here (WebAuthn Level 3, section 5.8.1).
// Browsers add others.
type clientData struct {
	Type      string `json:"type"`
	Challenge string `json:"challenge"`
	Origin    string `json:"origin"`
}

// Armor returns the assertion as an armored SSHSIG by key over the message whose
// [Challenge] is given. It refuses what OpenSSH would refuse for its form, with a
// sentence that names the cause; it does not verify the signature. Errors are Malformed,
// NamespaceMismatch (another challenge) or UnknownSigner (another relying party).
func (a Assertion) Armor(key Key, namespace string, challenge []byte) (string, error) {
	flags, counter, extensions, err := a.authenticator(key)
	if err != nil {
		return "", err
	}
	origin, err := a.origin(challenge)
	if err != nil {
		return "", err
	}
	pair, err := parseDER(a.Signature)
	if err != nil {
		return "", err
	}
	inner := ssh.Marshal(innerWire{Format, ssh.Marshal(pair), flags, counter, origin, a.ClientData, extensions})
	return armor.Signature(append([]byte(magic), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Inner                     []byte
	}{1, key.blob, namespace, "", hash, inner})...)), nil
}

// Origin returns the origin that the browser wrote into clientDataJSON, unproved; "" if
// it does not decode.
func (a Assertion) Origin() string {
	var c clientData
	if json.Unmarshal(a.ClientData, &c) != nil {
		return ""
	}
	return c.Origin
}

// authenticator splits the authenticator data (WebAuthn Level 3, section 6.1).
func (a Assertion) authenticator(key Key) (flags byte, counter uint32, extensions []byte, err error) {
	data, want := a.AuthenticatorData, sha256.Sum256([]byte(key.application))
	if len(data) < plainData {
		return 0, 0, nil, malformedData("has %d bytes, fewer than %d", len(data), plainData)
	}
	flags, counter, extensions = data[sha256.Size], binary.BigEndian.Uint32(data[sha256.Size+1:]), data[plainData:]
	switch {
	case !bytes.Equal(data[:sha256.Size], want[:]):
		return 0, 0, nil, refusal.New(refusal.UnknownSigner, "the passkey signed for another site than %s", key.application).
			WithHint("open the page at the address for which the passkey was made")
	case flags&flagAttested != 0:
		return 0, 0, nil, malformedData("has the data of a new key, and OpenSSH refuses that")
	case flags&flagExtensions == 0 && len(extensions) > 0:
		return 0, 0, nil, malformedData("goes on for %d bytes that its flags do not announce", len(extensions))
	case flags&flagExtensions != 0 && (len(extensions) == 0 || extensions[0]>>5 != cborMap):
		// A look at the first byte is enough for a plain sentence. authz checks the whole map: here at a sign-in and an
		// enrolment, and at the gate for each decision.
		return 0, 0, nil, malformedData("announces extensions and has no map of them")
	}
	return flags, counter, extensions, nil
}

// cborMap is the major type of a map (RFC 8949, section 3.1).
const cborMap = 5

func malformedData(format string, args ...any) error {
	return refusal.New(refusal.Malformed, "the authenticator data "+format, args...).
		WithHint("use another browser or another place for the passkey")
}

// origin checks the client data as OpenSSH does: it begins with type, challenge and
// origin, in this order and without spaces (PROTOCOL.u2f).
func (a Assertion) origin(challenge []byte) (string, error) {
	var c clientData
	if err := json.Unmarshal(a.ClientData, &c); err != nil {
		return "", refusal.New(refusal.Malformed, "the browser's clientDataJSON is not one strict JSON object").
			WithHint("use another browser or another place for the passkey")
	}
	switch {
	case c.Type != "webauthn.get":
		return "", refusal.New(refusal.Malformed, "the browser's answer is for another ceremony than a signature")
	case c.Challenge != url.EncodeToString(challenge):
		return "", refusal.New(refusal.NamespaceMismatch, "the passkey signed another challenge than this page's").
			WithHint("reload the page and sign again")
	case c.Origin == "" || strings.ContainsAny(c.Origin, "\"\\"):
		return "", refusal.New(refusal.Malformed, "the browser's clientDataJSON has no plain origin")
	}
	prefix := `{"type":"webauthn.get","challenge":"` + c.Challenge + `","origin":"` + c.Origin + `"`
	if !bytes.HasPrefix(a.ClientData, []byte(prefix)) {
		return "", refusal.New(refusal.Malformed, "this browser or password vault writes the members of clientDataJSON in an order that OpenSSH refuses").
			WithHint("make the passkey with the browser's own store, a phone or a security key; KeePassXC is known for this order")
	}
	return c.Origin, nil
}

// pair is an ECDSA signature, as SEQUENCE in DER and as two mpints.
type pair struct{ R, S *big.Int }

// parseDER reads two positive numbers in DER. The library accepts more elements after
// them, so the text has to be what it would write.
func parseDER(b []byte) (pair, error) {
	var p pair
	rest, err := asn1.Unmarshal(b, &p)
	if err == nil && len(rest) == 0 && p.R.Sign() > 0 && p.S.Sign() > 0 && p.R.BitLen() <= 256 && p.S.BitLen() <= 256 {
		if again, err := asn1.Marshal(p); err == nil && bytes.Equal(again, b) {
			return p, nil
		}
	}
	return pair{}, refusal.New(refusal.Malformed, "the passkey's signature is not a pair of positive numbers in DER").
		WithHint("use another browser or another place for the passkey")
}
