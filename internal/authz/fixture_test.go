package authz

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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
func testKey(t testing.TB, name string) ssh.Signer {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "testdata", "keys", name)))(t)
	return must.Get(ssh.ParsePrivateKey(b))(t)
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

// forge has the parts of an SSHSIG blob, so that a test can make any of them wrong.
type forge struct {
	magic         string
	version       uint32
	key           []byte
	namespace     string
	reserved      string
	hash          string
	format        string
	value         []byte
	innerTrailing string
	outerTrailing string
}

// mint signs payload as ssh-keygen does.
func mint(t testing.TB, key ssh.Signer, namespace string, hash sshsig.HashAlgorithm, payload []byte) forge {
	t.Helper()
	f := forge{magic: "SSHSIG", version: 1, key: key.PublicKey().Marshal(), namespace: namespace, hash: string(hash)}
	return f.signedBy(t, key, payload)
}

// signedBy signs the parts, even if they make no sense.
func (f forge) signedBy(t testing.TB, key ssh.Signer, payload []byte) forge {
	t.Helper()
	algorithm := key.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512
	}
	return f.signedAs(t, key, algorithm, payload)
}

func (f forge) signedAs(t testing.TB, key ssh.Signer, algorithm string, payload []byte) forge {
	t.Helper()
	h := sshsig.HashAlgorithm(f.hash).Hash()
	h.Write(payload)
	data := []byte("SSHSIG")
	for _, s := range []string{f.namespace, f.reserved, f.hash, string(h.Sum(nil))} {
		data = append(data, sshString(s)...)
	}
	sig := must.Get(key.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, algorithm))(t)
	f.format, f.value = sig.Format, sig.Blob
	return f
}

func sshString(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func (f forge) inner() []byte {
	return slices.Concat(sshString(f.format), sshString(string(f.value)), []byte(f.innerTrailing))
}

// fields returns the blob's fields in their order, each with its length.
func (f forge) fields() [][]byte {
	return [][]byte{
		[]byte(f.magic), binary.BigEndian.AppendUint32(nil, f.version),
		sshString(string(f.key)), sshString(f.namespace), sshString(f.reserved), sshString(f.hash),
		sshString(string(f.inner())),
	}
}

func (f forge) blob() []byte { return slices.Concat(append(f.fields(), []byte(f.outerTrailing))...) }

func (f forge) armored() string { return armorLines(f.blob(), 70) }

func armorLines(blob []byte, width int) string {
	text := base64.StdEncoding.EncodeToString(blob)
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for len(text) > 0 {
		n := min(width, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}

// envelope signs payload with keys, as operational.
func envelope(t testing.TB, payload []byte, keys ...ssh.Signer) Envelope {
	t.Helper()
	e := Envelope{Payload: payload}
	for _, k := range keys {
		e.Signatures = append(e.Signatures, mint(t, k, "operational@gated", sshsig.HashSHA512, payload).armored())
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
