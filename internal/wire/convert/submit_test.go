package convert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func asks(t *testing.T, body string) ([]op.Ask, error) {
	t.Helper()
	var s api.Submit
	require.NoError(t, api.DecodeBody([]byte(body), &s))
	return Asks(s)
}

func TestSubmitForms(t *testing.T) {
	got := must.Get(asks(t, `{"op":"guest.snapshot","target":"guest/a","params":{"snapshot":"s"},"reason":"why"}`))(t)
	require.Equal(t, []op.Ask{{Op: "guest.snapshot", Target: op.Target{Kind: "guest", Name: "a"},
		Params: op.Params{"snapshot": "s"}}}, got)
	got, err := asks(t, `{"steps":[{"op":"guest.stop","target":"guest/a"},{"op":"guest.start","target":"guest/a","params":{}}]}`)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, op.Params{}, got[0].Params)

	for body, code := range map[string]refusal.Code{
		`{}`:                                    refusal.Malformed,
		`{"reason":"x"}`:                        refusal.Malformed,
		`{"steps":[]}`:                          refusal.Malformed,
		`{"op":"a"}`:                            refusal.Malformed,
		`{"target":"guest/a"}`:                  refusal.Malformed,
		`{"params":{}}`:                         refusal.Malformed,
		`{"op":"","target":"guest/a"}`:          refusal.Malformed,
		`{"op":"a","target":"guest/*"}`:         refusal.Malformed,
		`{"op":"a","target":"guest/a,b"}`:       refusal.Malformed,
		`{"op":"a","target":"guest/../a"}`:      refusal.Malformed,
		`{"op":"a\u001b[m","target":"guest/a"}`: refusal.Malformed,
		`{"op":"a","target":"guest/a","reason":"a\u202eb"}`:                     refusal.Malformed,
		`{"op":"a","target":"guest/a","steps":[{"op":"a","target":"guest/a"}]}`: refusal.Malformed,
		`{"op":"a","target":"guest/a","steps":[]}`:                              refusal.Malformed,
	} {
		must.Fail(asks(t, body))(t, code, body)
	}
}

func TestSubmitLimits(t *testing.T) {
	submit := func(steps, reason int) error {
		s := api.Submit{Steps: make([]api.Ask, steps), Reason: strings.Repeat("r", reason)}
		for i := range s.Steps {
			s.Steps[i] = api.Ask{Op: "guest.start", Target: "guest/a"}
		}
		_, err := Asks(s)
		return err
	}
	require.NoError(t, submit(op.MaxSteps-1, op.MaxReason-1))
	require.NoError(t, submit(op.MaxSteps, op.MaxReason))
	require.ErrorIs(t, submit(op.MaxSteps+1, 0), refusal.TooComplex)
	require.ErrorIs(t, submit(1, op.MaxReason+1), refusal.Oversized)
}

func TestSubmitOfRoundTrip(t *testing.T) {
	a := op.Ask{Op: "guest.start", Target: op.Target{Kind: "guest", Name: "a"}, Params: op.Params{}}
	for _, list := range [][]op.Ask{{a}, {a, a}} {
		b := must.Get(api.Encode(SubmitOf("why", list...)))(t)
		require.Equal(t, list, must.Get(asks(t, string(b)))(t))
	}
}
