package op_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestTextByClass tries every code point against the Unicode classes of
// protocol section 1.
func TestTextByClass(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r <= 0xdfff {
			continue // surrogates are no code points of UTF-8
		}
		hidden := unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
		if err := op.CheckText("a field", "a"+string(r)+"b"); (err != nil) != hidden {
			t.Fatalf("%U: hidden %v, got %v", r, hidden, err)
		}
	}
}

func TestTextRefusalNamesFieldAndPlace(t *testing.T) {
	r := requireRefusal(t, op.CheckText("reason", "ok\x1b[31m"), refusal.Malformed)
	require.Contains(t, r.Detail, "reason")
	require.Contains(t, r.Detail, "U+001B")
	require.Contains(t, r.Detail, "byte 2")
	require.NotContains(t, r.Detail, "\x1b", "the refusal is itself shown on a terminal")
	require.NotEmpty(t, r.Hint)

	for _, bad := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf5\x80\x80\x80"} {
		requireRefusal(t, op.CheckText("reason", bad), refusal.Malformed, bad)
	}
	require.NoError(t, op.CheckText("reason", ""))
	require.NoError(t, op.CheckText("reason", "naïve — €5, 日本語 😀 \u00a0"))
}

// TestRefusalsAreSafeToShow: a refusal quotes bad input without any character that a
// terminal acts on (matrix rows B11 and H05).
func TestRefusalsAreSafeToShow(t *testing.T) {
	bad := "\x1b]0;owned\x07\u202e\u200b\n\xff"
	_, errTarget := op.ParseTarget("guest/" + bad)
	_, errKind := op.ParseTarget(bad)
	_, errJob := op.ParseJobID(bad)
	_, errStep := op.ParseStepID(bad)
	_, errOp := op.Lookup(bad)
	_, errParams := op.ParseParams([]byte(`{"` + bad + `":1}`))
	_, errTwice := op.ParseParams([]byte(`{"\u202e":1,"\u202e":1}`))
	_, errPayload := op.DecodePayload([]byte(bad))
	_, errDoubled := op.DecodePayload([]byte(`{"\u001b[2J":1,"\u001b[2J":1}`))
	spec := must.Get(op.Lookup("guest.create"))(t)
	errParam := spec.Check(op.Target{Kind: "guest", Name: "a"}, op.Params{bad: true})
	errKey := spec.Check(op.Target{Kind: "guest", Name: "a"}, op.Params{"labels": map[string]any{bad: "x"}})
	errAway := spec.Check(op.Target{Kind: bad, Name: bad}, op.Params{})
	for _, err := range []error{errTarget, errKind, errJob, errStep, errOp, errParams, errTwice, errPayload, errDoubled, errParam, errKey, errAway} {
		var r *refusal.Refusal
		require.ErrorAs(t, err, &r)
		require.NoError(t, op.CheckText("detail", r.Detail), "%q", r.Detail)
		require.NoError(t, op.CheckText("hint", r.Hint), "%q", r.Hint)
	}
}

func TestWordsOfAShell(t *testing.T) {
	require.Equal(t, `a%b=c,d:e@f+g`, op.ShellWords("a%b=c,d:e@f+g"), "hooks that are installed have these as they are")
	require.Equal(t, `rm -r /var/lib/gated`, op.ShellWords("rm", "-r", "/var/lib/gated"))
	require.Equal(t, `rm 'a b' 'it'\''s' '' '$x'`, op.ShellWords("rm", "a b", "it's", "", "$x"))
}
