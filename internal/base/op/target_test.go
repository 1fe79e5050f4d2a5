package op_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestTargetHasOneSpelling(t *testing.T) {
	for _, s := range []string{"guest/a", "guest/web-1", "command/drop-db", "scope/9", "trust/signers", "gate/self",
		"guest/A.b_c-D", "guest/" + strings.Repeat("x", 128)} {
		got := must.Get(op.ParseTarget(s))(t, s)
		require.Equal(t, s, got.String())

		text := must.Get(got.MarshalText())(t)
		var back op.Target
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, got, back)
	}
}

// badTargets holds the matrix rows B13 (homoglyphs), B15 (path tricks) and B16
// (wildcards and lists).
var badTargets = []string{
	"", "/", "guest", "guest/", "/web-1", "//", "guest//web-1", "Guest/web-1", "guest1/web-1", "guest /web-1",
	"guest/..", "guest/.", "guest/../web-2", "guest/web-1/..", "guest/web-1/", "guest//etc", "../guest/web-1",
	"guest/.trash", "guest/-web", "guest/_web", "guest/a/b", `guest/a\b`, "guest/%2e%2e",
	"guest/*", "guest/web-?", "guest/web-[12]", "guest/{a,b}", "guest/a,guest/b", "guest/a guest/b", "guest/a b",
	"guest/wеb-1", // the e is Cyrillic
	"guest/web‐1", // U+2010, not a hyphen-minus
	"guest/ｗeb",   // full width
	"guest/web-1\n", "guest/web\x001", "guest/web\u200b1", "guest/web\u202e1", "guest/\x1b[2Jx", "guest/\xff",
	"guest/" + strings.Repeat("x", 129),
}

func TestTargetRefusesAllElse(t *testing.T) {
	for _, s := range badTargets {
		_, err := op.ParseTarget(s)
		requireRefusal(t, err, refusal.Malformed, s)

		kept := op.Target{Kind: "guest", Name: "kept"}
		requireRefusal(t, kept.UnmarshalText([]byte(s)), refusal.Malformed, s)
		require.Equal(t, op.Target{Kind: "guest", Name: "kept"}, kept)
	}
}

func TestNameLimits(t *testing.T) {
	requireRefusal(t, op.CheckName(""), refusal.Malformed)
	require.NoError(t, op.CheckName("x"))
	require.NoError(t, op.CheckName(strings.Repeat("x", 127)))
	require.NoError(t, op.CheckName(strings.Repeat("x", 128)))
	requireRefusal(t, op.CheckName(strings.Repeat("x", 129)), refusal.Malformed)
}

// TestNameAlphabet tries every byte at the first and at a later place.
func TestNameAlphabet(t *testing.T) {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for c := 0; c < 256; c++ {
		b := string([]byte{byte(c)})
		require.Equal(t, strings.Contains(first, b), op.CheckName(b+"x") == nil, "%q first", b)
		require.Equal(t, strings.Contains(first+"._-", b), op.CheckName("x"+b) == nil, "%q later", b)
	}
}

func TestFingerprintAndGateIDForms(t *testing.T) {
	f := op.FingerprintOf([]byte("abc"))
	require.True(t, f.Valid())
	// FIPS 180-2, appendix B.1.
	require.Equal(t, op.Fingerprint("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), f)
	require.Equal(t, strings.TrimPrefix(string(f), "sha256:"), op.SHA256([]byte("abc")))

	hex64 := strings.Repeat("0f", 32)
	for _, bad := range []string{"", hex64, "sha256:", "SHA256:" + hex64, "sha256:" + hex64[1:], "sha256:" + hex64 + "0",
		"sha256:" + strings.ToUpper(hex64), "sha512:" + hex64, "sha256:" + strings.Repeat("0g", 32)} {
		require.False(t, op.Fingerprint(bad).Valid(), bad)
	}

	hex32 := hex64[:32]
	require.True(t, op.GateID(hex32).Valid())
	for _, bad := range []string{"", hex32[1:], hex32 + "0", strings.ToUpper(hex32), hex32[:31] + "g", hex32[:31] + " "} {
		require.False(t, op.GateID(bad).Valid(), bad)
	}
}
