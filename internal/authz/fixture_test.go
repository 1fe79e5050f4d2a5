package authz

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const (
	testGate = op.GateID("00112233445566778899aabbccddeeff")
	testHost = "pve1"
)

// issued is the time of these tests' payloads, which are valid for an hour.
var issued = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

var testPayload = op.Payload{
	Gate: testGate, Host: testHost, Op: "guest.restore",
	Target:      op.Target{Kind: "guest", Name: "web-1"},
	Incarnation: "7b0f9c6e-3a86-4d8e-9f39-0f5a3c1f0d11:1234:5678",
	State:       op.FingerprintOf([]byte("state")),
	Params:      op.Params{"snapshot": "before-upgrade"},
	Nonce:       "AAECAwQFBgcICQoLDA0ODw",
	IssuedAt:    issued, ExpiresAt: issued.Add(time.Hour),
	Reason: "the upgrade went wrong",
}

var testRejection = op.Rejection{
	Gate: testGate, Host: testHost, Request: op.RequestID{Job: 12, Index: 1},
	PayloadSHA256: op.SHA256([]byte("payload")),
	Nonce:         "AAECAwQFBgcICQoLDA0ODw",
	IssuedAt:      issued, ExpiresAt: issued.Add(time.Hour),
	Reason: "not today",
}

func encode(t testing.TB, p interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	return must.Get(p.Encode())(t)
}

// testKey reads a key of testdata/keys.
func testKey(t testing.TB, name string) mint.Key {
	return mint.ReadFile(t, filepath.Join("..", "..", "testdata", "keys", name))
}

// trustLine returns an allowed_signers line; options is its second field.
func trustLine(principal, options string, key ssh.PublicKey) string {
	return fmt.Sprintf("%s %s %s", principal, options, ssh.MarshalAuthorizedKey(key))
}

func loadTrust(t testing.TB, lines ...string) *Trust {
	t.Helper()
	return must.Get(LoadTrust([]byte(strings.Join(lines, ""))))(t)
}

// testVerifier trusts alice, the ecdsa and the rsa key as operational.
func testVerifier(t testing.TB) Verifier {
	t.Helper()
	const options = `namespaces="operational@gated"`
	trust := loadTrust(t,
		trustLine("alice@example.com", options, testKey(t, "alice").PublicKey()),
		trustLine("erin@example.com", options, testKey(t, "ecdsa-p256").PublicKey()),
		trustLine("rolf@example.com", options, testKey(t, "rsa-3072").PublicKey()))
	return Verifier{Gate: testGate, Host: testHost, Trust: trust, Skew: time.Minute, MaxValidity: 24 * time.Hour}
}

// envelope signs payload with keys, as operational.
func envelope(t testing.TB, payload []byte, keys ...mint.Key) Envelope {
	t.Helper()
	e := Envelope{Payload: payload}
	for _, k := range keys {
		e.Signatures = append(e.Signatures, mint.Sign(t, k, "operational@gated", payload).Armored())
	}
	return e
}

// refused asserts the exact code and stage, and that there is a text for people.
func refused(t testing.TB, err error, code refusal.Code, stage refusal.Stage) {
	t.Helper()
	require.Error(t, err)
	r := refusal.As(err)
	require.Equal(t, code, r.Code, "%v", err)
	require.Equal(t, stage, r.Stage, "%v", err)
	require.NotEmpty(t, r.Detail)
}
