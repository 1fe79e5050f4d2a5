// Package passkeytest is for tests alone: an authenticator in software, with a browser
// before it.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/web/passkey"
)

// Device holds one passkey. A test may change what it says.
type Device struct {
	Key        passkey.Key
	SPKI       []byte // as getPublicKey() returns it
	Flags      byte
	Counter    uint32
	Extensions []byte
	ClientData func(challenge string) string // clientDataJSON for a challenge in base64url

	private *ecdsa.PrivateKey
}

// New makes a passkey for a relying party, in a browser that shows a page of origin.
func New(t testing.TB, rpID, origin string) *Device {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	d := &Device{private: private, Flags: 0x05, Counter: 7}
	d.SPKI, err = x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	d.Key, err = passkey.NewKey(d.SPKI, rpID)
	require.NoError(t, err)
	d.ClientData = func(challenge string) string {
		return fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":%q,"crossOrigin":false}`, challenge, origin)
	}
	return d
}

// data returns authenticator data for the device's state.
func (d *Device) data() []byte {
	id := sha256.Sum256([]byte(d.Key.RPID()))
	return append(binary.BigEndian.AppendUint32(append(id[:], d.Flags), d.Counter), d.Extensions...)
}

// Sign signs a challenge.
func (d *Device) Sign(t testing.TB, challenge []byte) passkey.Assertion {
	t.Helper()
	a := passkey.Assertion{
		ID: []byte("id"), AuthenticatorData: d.data(), UserHandle: []byte("user"),
		ClientData: []byte(d.ClientData(base64.RawURLEncoding.EncodeToString(challenge))),
	}
	sum := sha256.Sum256(a.ClientData)
	digest := sha256.Sum256(append(d.data(), sum[:]...))
	var err error
	a.Signature, err = d.private.Sign(rand.Reader, digest[:], nil)
	require.NoError(t, err)
	return a
}
