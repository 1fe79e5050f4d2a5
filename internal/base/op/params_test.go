package op_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// visible draws text that a payload may have. It often draws characters that an
// encoder could spell in different ways.
var visible = rapid.StringOfN(rapid.OneOf(
	rapid.RuneFrom([]rune("\"\\/<>&'{}[]:, abcABC019é€\ufb33😀𝄞")),
	rapid.Rune(),
).Filter(func(r rune) bool { return op.CheckText("a rune", string(r)) == nil }), 0, 24, 96)

func anyParam(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		visible.AsAny(),
		rapid.Bool().AsAny(),
		rapid.Int64Range(-op.MaxInt, op.MaxInt).AsAny(),
		rapid.SampledFrom([]int64{0, 1, -1, op.MaxInt, -op.MaxInt}).AsAny(),
	}
	if depth < op.MaxDepth {
		leaves = append(leaves,
			rapid.Custom(func(t *rapid.T) any {
				return rapid.MapOfN(visible, anyParam(depth+1), 0, 3).Draw(t, "object")
			}),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.SliceOfN(anyParam(depth+1), 0, 3).Draw(t, "array")
			}))
	}
	return rapid.OneOf(leaves...)
}

// anyParams draws everything that ParseParams can make.
var anyParams = rapid.Custom(func(t *rapid.T) op.Params {
	return rapid.MapOfN(visible, anyParam(1), 0, 5).Draw(t, "params")
})

func TestParamsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		got := must.Get(op.ParseParams(p.Canonical()))(t)
		require.Equal(t, p, got)
		require.True(t, p.Equal(got))
		require.Equal(t, p.Canonical(), got.Canonical())

		text := must.Get(p.MarshalJSON())(t)
		require.Equal(t, p.Canonical(), text)
		var back op.Params
		require.NoError(t, back.UnmarshalJSON(text))
		require.Equal(t, p, back)
	})
}

// TestParamsCanonicalForm has examples of RFC 8785: member order by UTF-16 code
// units (3.2.3), the shortest string spelling (3.2.2.2), integers unchanged
// (3.2.2.3).
func TestParamsCanonicalForm(t *testing.T) {
	for given, want := range map[string]string{
		`{}`:                                `{}`,
		" { } ":                             `{}`,
		`{"b":1,"a":2}`:                     `{"a":2,"b":1}`,
		`{"a":1,"A":2,"aa":3,"1":4,"10":5}`: `{"1":4,"10":5,"A":2,"a":1,"aa":3}`,
		`{"":0,"a":{"d":[],"c":{}}}`:        `{"":0,"a":{"c":{},"d":[]}}`,
		`{"a": [ 3, 1 , 2 ]}`:               `{"a":[3,1,2]}`,
		"{\"\ufb33\":3,\"😀\":2,\"€\":1,\"é\":0}":                    "{\"é\":0,\"€\":1,\"😀\":2,\"\ufb33\":3}", // U+1F600 is D83D DE00, before FB33
		`{"a":"\u0062\/\"\\"}`:                                      `{"a":"b/\"\\"}`,
		`{"a":"\u003c\u0026\u20ac\ud83d\ude00"}`:                    `{"a":"<&€😀"}`,
		`{"a":9007199254740991,"b":-9007199254740991,"c":0,"d":-1}`: `{"a":9007199254740991,"b":-9007199254740991,"c":0,"d":-1}`,
		`{"a":true,"b":false}`:                                      `{"a":true,"b":false}`,
	} {
		p := must.Get(op.ParseParams([]byte(given)))(t, given)
		require.Equal(t, want, string(p.Canonical()), given)
	}
	require.Equal(t, "{}", string(op.Params(nil).Canonical()))
}

// badParams has the number, null and duplicate forms of matrix row B10 and the
// characters of B11.
var badParams = []string{
	``, ` `, `null`, `[]`, `"a"`, `1`, `true`, `{`, `}`, `{}{}`, `{} x`, `{},`, `{"a"}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":1,}`,
	`{"a":null}`, `{"a":[null]}`, `{"a":{"b":null}}`, `nul`, `{"a":True}`, `{"a":NaN}`, `{"a":Infinity}`,
	`{"a":1,"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":1}}`,
	`{"a":1e2}`, `{"a":1E2}`, `{"a":1.0}`, `{"a":1.5}`, `{"a":-0}`, `{"a":-0.0}`, `{"a":01}`, `{"a":+1}`, `{"a":.5}`, `{"a":1.}`, `{"a":0x10}`,
	`{"a":9007199254740992}`, `{"a":-9007199254740992}`, `{"a":9007199254740993}`, `{"a":9223372036854775808}`,
	`{"a":1000000000000000000000}`, `{"a":1e400}`,
	`{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud800\u0041"}`, `{"\ud800":1}`, "{\"a\":\"\xff\"}", "{\"\xff\":1}", "{\"a\":\"\xed\xa0\x80\"}",
	`{"a":"\u0000"}`, `{"a":"\n"}`, `{"a":"\u001b[31m"}`, `{"a":"\u007f"}`, `{"a":"\u0085"}`, `{"a":"\u200b"}`, `{"a":"\u202e"}`,
	`{"a":"\u2028"}`, `{"a":"\u2029"}`, `{"a":"\ufeff"}`, `{"a":"\u00ad"}`, `{"a\u200b":1}`, `{"a":["\u2066"]}`, `{"a":{"\n":1}}`,
	"{\"a\":\"\n\"}", "\xef\xbb\xbf{}", `{}/**/`, `{"a":1 /* one */}`,
}

func TestParamsRefusesAllElse(t *testing.T) {
	for _, s := range badParams {
		_, err := op.ParseParams([]byte(s))
		requireRefusal(t, err, refusal.Malformed, s)

		kept := op.Params{"kept": true}
		requireRefusal(t, kept.UnmarshalJSON([]byte(s)), refusal.Malformed, s)
		require.Equal(t, op.Params{"kept": true}, kept)
	}
}

func TestParamsDepthLimit(t *testing.T) {
	nested := func(open, close string, n int) string {
		return `{"a":` + strings.Repeat(open, n-1) + `1` + strings.Repeat(close, n-1) + `}`
	}
	for _, c := range []struct{ open, close string }{{`{"a":`, `}`}, {`[`, `]`}} {
		for depth := 1; depth <= op.MaxDepth; depth++ {
			must.Get(op.ParseParams([]byte(nested(c.open, c.close, depth))))(t, "depth %d", depth)
		}
		for _, depth := range []int{op.MaxDepth + 1, op.MaxDepth + 2, 9000, 30000} {
			_, err := op.ParseParams([]byte(nested(c.open, c.close, depth)))
			requireRefusal(t, err, refusal.Malformed, depth)
		}
	}
	// Empty at the limit, and one level deeper.
	must.Get(op.ParseParams([]byte(`{"a":[[[]]]}`)))(t)
	_, err := op.ParseParams([]byte(`{"a":[[[[]]]]}`))
	requireRefusal(t, err, refusal.Malformed)
	_, err = op.ParseParams([]byte(`{"a":[[[{}]]]}`))
	requireRefusal(t, err, refusal.Malformed)
}

func TestParamsIntegerLimits(t *testing.T) {
	p := must.Get(op.ParseParams([]byte(`{"at":9007199254740991,"below":9007199254740990,"low":-9007199254740991}`)))(t)
	require.Equal(t, int64(op.MaxInt), p.Int("at"))
	require.Equal(t, int64(op.MaxInt-1), p.Int("below"))
	require.Equal(t, int64(-op.MaxInt), p.Int("low"))
}

func TestParamsAreComparedAsValues(t *testing.T) {
	parse := func(s string) op.Params { return must.Get(op.ParseParams([]byte(s)))(t) }
	require.True(t, parse(`{"a":1,"b":{"c":"d"}}`).Equal(parse(`{ "b":{"c":"\u0064"}, "a":1 }`)))
	require.True(t, op.Params(nil).Equal(op.Params{}))
	base := parse(`{"a":1,"b":["x","y"]}`)
	for _, other := range []string{`{}`, `{"a":1}`, `{"a":2,"b":["x","y"]}`, `{"a":"1","b":["x","y"]}`, `{"a":1,"b":["y","x"]}`,
		`{"a":1,"b":["x","y"],"c":false}`, `{"A":1,"b":["x","y"]}`, `{"a":true,"b":["x","y"]}`} {
		require.False(t, base.Equal(parse(other)), other)
		require.False(t, parse(other).Equal(base), other)
	}
}

func TestParamsGetters(t *testing.T) {
	p, err := op.ParseParams([]byte(`{"s":"x","n":7,"b":true,"l":{"tier":"prod"},"empty":{},"a":["y","x"],"none":[],"mixed":["x",1]}`))
	require.NoError(t, err)
	require.True(t, p.Has("s"))
	require.False(t, p.Has("S"))
	require.Equal(t, "x", p.Str("s"))
	require.Equal(t, int64(7), p.Int("n"))
	require.True(t, p.Bool("b"))
	require.Equal(t, map[string]string{"tier": "prod"}, p.Labels("l"))
	require.NotNil(t, p.Labels("empty"), "no labels is a wish, an absent member is none")
	require.Nil(t, p.Labels("absent"))
	// A getter of another type returns the zero value, as if the parameter were
	// absent.
	require.Zero(t, p.Str("n"))
	require.Zero(t, p.Int("s"))
	require.False(t, p.Bool("n"))
	require.Nil(t, p.Labels("s"))
	require.Equal(t, []string{"y", "x"}, p.Lines("a"))
	require.Empty(t, p.Lines("none"))
	require.Empty(t, p.Lines("absent"))
	require.Empty(t, p.Lines("s"))
	require.Equal(t, []string{"x"}, p.Lines("mixed"))
}
