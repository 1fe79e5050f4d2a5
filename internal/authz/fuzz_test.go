package authz

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

// TestFuzzCorpora fails when a corpus is empty: a glob that matches nothing
// would turn a fuzz target into nothing without a word.
func TestFuzzCorpora(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"FuzzLoadTrust", "FuzzEnvelope", "FuzzArmor"} {
		files, err := filepath.Glob(filepath.Join("testdata", "fuzz", target, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, files, target)
		for _, name := range files {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(b), "go test fuzz v1\n"), name)
		}
	}
}

// FuzzLoadTrust: what is accepted can be written out plainly and read again to
// the same, and every line of it is within the rules.
func FuzzLoadTrust(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		trust, err := LoadTrust(data)
		if err != nil {
			require.ErrorIs(t, err, op.Malformed)
			return
		}
		var plain strings.Builder
		for _, e := range trust.entries {
			require.NotEmpty(t, e.Principal)
			require.NotContains(t, e.Principal, ",")
			require.NotContains(t, e.Principal, "*")
			options := []string{`namespaces="git`}
			for _, r := range e.Roles {
				options[0] += "," + r.Namespace()
			}
			options[0] += `"`
			if !e.ValidAfter.IsZero() {
				options = append(options, e.ValidAfter.Format(`valid-after="20060102150405Z"`))
			}
			if !e.ValidBefore.IsZero() {
				options = append(options, e.ValidBefore.Format(`valid-before="20060102150405Z"`))
			}
			plain.WriteString(trustLine(`"`+e.Principal+`"`, strings.Join(options, ","), e.public))
		}
		again, err := LoadTrust([]byte(plain.String()))
		require.NoError(t, err, plain.String())
		before, after := trust.Signers(), again.Signers()
		require.Len(t, after, len(before))
		for i := range before {
			before[i].Line, after[i].Line = 0, 0
		}
		require.Equal(t, before, after)
	})
}

// FuzzEnvelope: no input is accepted but the bytes that were signed, and
// nothing panics. Signatures of malleable kinds may come out changed.
func FuzzEnvelope(f *testing.F) {
	v := testVerifier(f)
	approval, rejection := encode(f, testPayload), encode(f, testRejection)
	f.Fuzz(func(t *testing.T, payload []byte, armored string) {
		e := Envelope{Payload: payload, Signatures: []string{armored}}
		_, err := v.Approval(e, issued)
		require.True(t, err != nil || string(payload) == string(approval))
		_, rejErr := v.Rejection(e, issued)
		require.True(t, rejErr != nil || string(payload) == string(rejection))
		_, fileErr := VerifyFile(payload, armored, v.Trust, issued)
		if fileErr != nil {
			require.Error(t, err)
			require.Error(t, rejErr)
			require.NotEqual(t, op.Internal, op.CodeOf(fileErr))
		}
	})
}

// FuzzArmor: an accepted armor is the one spelling of its blob at its width,
// and an accepted blob is the one spelling of its fields.
func FuzzArmor(f *testing.F) {
	f.Fuzz(func(t *testing.T, armored string) {
		blob, err := dearmor(armored)
		if err != nil {
			_, err = parseSignature(armored)
			require.Error(t, err)
			return
		}
		width := strings.Index(armored[len(armorBegin):], "\n")
		require.Equal(t, armorLines(blob, width), strings.TrimSuffix(armored, "\n")+"\n")
		s, err := parseSignature(armored)
		if err != nil || s.key == nil {
			return
		}
		again := forge{magic: "SSHSIG", version: 1, key: s.key.Marshal(), namespace: s.namespace, hash: string(s.hash),
			format: s.inner.Format, value: s.inner.Blob}
		require.Equal(t, blob, again.blob())
	})
}
