package op_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func FuzzPayload(f *testing.F) {
	f.Add([]byte(examplePayloadBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := op.DecodePayload(b)
		if err != nil {
			requireDecodeRefusal(t, err, b)
			return
		}
		again := must.Get(p.Encode())(t)
		require.Equal(t, string(b), string(again), "accepted bytes are the only form of what they say")
		requireCanonical(t, b)
		require.True(t, p.Gate.Valid())
		require.True(t, p.State.Valid())
		require.NoError(t, op.CheckNonce(p.Nonce))
		require.NoError(t, op.CheckName(p.Target.Name))
		require.True(t, p.ExpiresAt.After(p.IssuedAt))
		require.LessOrEqual(t, len(p.Reason), op.MaxReason)
		for _, shown := range []string{p.Host, p.Op, string(p.Incarnation), p.Reason} {
			require.NoError(t, op.CheckText("a shown field", shown))
		}
		_, err = op.DecodeRejection(b)
		requireRefusal(t, err, refusal.Malformed)
	})
}

func FuzzRejection(f *testing.F) {
	f.Add([]byte(exampleRejectionBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := op.DecodeRejection(b)
		if err != nil {
			requireDecodeRefusal(t, err, b)
			return
		}
		again := must.Get(r.Encode())(t)
		require.Equal(t, string(b), string(again), "accepted bytes are the only form of what they say")
		requireCanonical(t, b)
		require.Positive(t, int64(r.Request.Job))
		require.Positive(t, r.Request.Index)
		require.NoError(t, op.CheckText("reason", r.Reason))
		_, err = op.DecodePayload(b)
		requireRefusal(t, err, refusal.Malformed)
	})
}

func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"a":[1,true,{"b":"c"}]}`))
	for _, s := range badParams {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := op.ParseParams(b)
		if err != nil {
			requireRefusal(t, err, refusal.Malformed, string(b))
			return
		}
		canonical := p.Canonical()
		requireCanonical(t, canonical)
		again := must.Get(op.ParseParams(canonical))(t)
		require.True(t, p.Equal(again))
		for _, s := range op.Catalogue() {
			if err := s.Check(op.Target{Kind: s.Kind, Name: "x"}, p); err != nil {
				require.Contains(t, []refusal.Code{refusal.BadParams, refusal.NotAllowed}, refusal.CodeOf(err))
			}
		}
	})
}

var targetForm = regexp.MustCompile(`\A[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)

func FuzzTarget(f *testing.F) {
	f.Add("guest/web-1")
	for _, s := range badTargets {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := op.ParseTarget(s)
		require.Equal(t, targetForm.MatchString(s), err == nil, "%q", s)
		if err != nil {
			requireRefusal(t, err, refusal.Malformed, s)
			return
		}
		require.Equal(t, s, target.String())
		require.NotContains(t, []string{".", ".."}, target.Name)
	})
}

func requireDecodeRefusal(t *testing.T, err error, b []byte) {
	t.Helper()
	want := refusal.Malformed
	if len(b) > op.MaxPayload {
		want = refusal.Oversized
	}
	require.Equal(t, refusal.StageDecode, requireRefusal(t, err, want).Stage)
}

func requireCanonical(t *testing.T, b []byte) {
	t.Helper()
	v := jsontext.Value(b).Clone()
	require.NoError(t, v.Canonicalize())
	require.Equal(t, string(v), string(b))
}

// TestEveryFuzzTargetHasSeeds: with an empty corpus directory a fuzz run would try
// much less than it seems to.
func TestEveryFuzzTargetHasSeeds(t *testing.T) {
	for _, name := range []string{"FuzzPayload", "FuzzRejection", "FuzzParams", "FuzzTarget"} {
		require.NotEmpty(t, must.Get(os.ReadDir(filepath.Join("testdata", "fuzz", name)))(t), name)
	}
}
