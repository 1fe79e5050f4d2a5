package passkey

import (
	"encoding/base64"

	"github.com/go-json-experiment/json"

	"gated/internal/base/refusal"
)

// The most bytes of an assertion's parts. Browsers send about 300 bytes of client data,
// 37 of authenticator data and 72 of signature. MaxClientData keeps the armored
// signature below authz.MaxArmor.
const (
	MaxAssertion         = 16 << 10 // as JSON
	MaxClientData        = 4 << 10
	MaxAuthenticatorData = 1 << 10
	maxID                = 1023 // WebAuthn Level 3, section 5.1: a credential ID
	maxUserHandle        = 64   // section 5.4.3
	maxSignature         = 72   // two numbers of P-256 in DER
)

// Assertion is what a passkey answered, as yet unproved (WebAuthn Level 3, section
// 5.2.2, AuthenticatorAssertionResponse).
type Assertion struct {
	ID                []byte
	ClientData        []byte // clientDataJSON, byte by byte as it was signed
	AuthenticatorData []byte
	Signature         []byte // ECDSA in DER
	UserHandle        []byte // may be absent
}

// assertionJSON has the members of an Assertion in base64url without padding.
type assertionJSON struct {
	ID                string `json:"id"`
	ClientDataJSON    string `json:"clientDataJSON"`
	AuthenticatorData string `json:"authenticatorData"`
	Signature         string `json:"signature"`
	UserHandle        string `json:"userHandle"`
}

var (
	std = base64.StdEncoding
	url = base64.RawURLEncoding.Strict()
)

// DecodeAssertion reads the one JSON object that the page posts: no unknown or doubled
// member, each part present but userHandle, and within its bound. Errors are Malformed
// or Oversized.
func DecodeAssertion(b []byte) (Assertion, error) {
	if len(b) > MaxAssertion {
		return Assertion{}, oversized("assertion", len(b), MaxAssertion)
	}
	var in *assertionJSON // a pointer, so that null is seen
	if err := json.Unmarshal(b, &in, json.RejectUnknownMembers(true)); err != nil || in == nil {
		return Assertion{}, refusal.New(refusal.Malformed, "the assertion is not the JSON object that the page sends").
			WithHint("reload the page and sign again")
	}
	var a Assertion
	for _, part := range []struct {
		name     string
		text     string
		into     *[]byte
		most     int
		optional bool
	}{
		{"id", in.ID, &a.ID, maxID, false},
		{"clientDataJSON", in.ClientDataJSON, &a.ClientData, MaxClientData, false},
		{"authenticatorData", in.AuthenticatorData, &a.AuthenticatorData, MaxAuthenticatorData, false},
		{"signature", in.Signature, &a.Signature, maxSignature, false},
		{"userHandle", in.UserHandle, &a.UserHandle, maxUserHandle, true},
	} {
		decoded, err := decodePart(part.name, part.text, part.most)
		if err != nil {
			return Assertion{}, err
		}
		if len(decoded) == 0 && !part.optional {
			return Assertion{}, refusal.New(refusal.Malformed, "the assertion has no %s", part.name).
				WithHint("reload the page and sign again")
		}
		*part.into = decoded
	}
	return a, nil
}

// decodePart reads one member. The decoder skips line ends, which would give the same
// bytes two texts.
func decodePart(name, text string, most int) ([]byte, error) {
	if n := url.DecodedLen(len(text)); n > most {
		return nil, oversized(name, n, most)
	}
	decoded, err := url.DecodeString(text)
	if err != nil || url.EncodeToString(decoded) != text {
		return nil, refusal.New(refusal.Malformed, "the assertion's %s is not base64url without padding", name).
			WithHint("reload the page and sign again")
	}
	return decoded, nil
}

func oversized(name string, n, most int) error {
	return refusal.New(refusal.Oversized, "the %s has %d bytes, more than %d", name, n, most).
		WithHint("use another browser or another place for the passkey")
}

// Encode returns the assertion as DecodeAssertion reads it.
func (a Assertion) Encode() ([]byte, error) {
	return json.Marshal(assertionJSON{
		ID: url.EncodeToString(a.ID), ClientDataJSON: url.EncodeToString(a.ClientData),
		AuthenticatorData: url.EncodeToString(a.AuthenticatorData), Signature: url.EncodeToString(a.Signature),
		UserHandle: url.EncodeToString(a.UserHandle),
	})
}
