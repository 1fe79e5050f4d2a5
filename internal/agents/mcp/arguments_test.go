package mcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// What a client sends in a form of its own is read as it was meant. What may be the value itself stays.
func TestArgumentsAreReadAsTheyAreMeant(t *testing.T) {
	for arguments, want := range map[string]submitIn{
		`{"op":"a","target":null,"params":null,"steps":null,"reason":null}`:          {Op: "a"},
		`{"op":"a","params":"{\"memory\":512}"}`:                                     {Op: "a", Params: op.Params{"memory": int64(512)}},
		`{"steps":"[{\"op\":\"a\",\"target\":\"b\",\"params\":null}]"}`:              {Steps: []ask{{Op: "a", Target: "b"}}},
		`{"steps":[{"op":"a","target":"b","params":"{\"labels\":{\"x\":\"{}\"}}"}]}`: {Steps: []ask{{Op: "a", Target: "b", Params: op.Params{"labels": map[string]any{"x": "{}"}}}}},
		`{"op":"{}","reason":"[1]"}`:                                                 {Op: "{}", Reason: "[1]"},
	} {
		var got submitIn
		require.NoError(t, decodeArguments([]byte(arguments), schemaOf[submitIn](), &got), arguments)
		require.Equal(t, want, got, arguments)
	}
	var got reserveIn
	require.NoError(t, decodeArguments([]byte(`{"patterns":"[\"app/[slug]/page.tsx\"]","ttl_seconds":"900","keep":"true","reason":null}`), schemaOf[reserveIn](), &got))
	require.Equal(t, []string{"app/[slug]/page.tsx"}, got.Patterns)
	require.EqualValues(t, 900, got.TTLSeconds)
	require.True(t, got.Keep)
	for _, pattern := range []string{`"[slug]"`, `"docs"`, `{"0":"docs"}`} { // a text that is no JSON of a list is none
		require.Error(t, decodeArguments([]byte(`{"patterns":`+pattern+`}`), schemaOf[reserveIn](), new(reserveIn)), pattern)
	}
}
