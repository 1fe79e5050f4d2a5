package members

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestACallHasOneCaller(t *testing.T) {
	c := Call{Gate: "g", UID: 1000, PID: 77, Agent: "builder#7"}
	h := http.Header{CallerHeader: {c.String()}}
	require.Equal(t, c, must.Get(CallOf(h))(t))
	_, err := CallOf(http.Header{})
	require.ErrorIs(t, err, refusal.Malformed)
	h.Add(CallerHeader, Call{Gate: "g", UID: 0}.String())
	_, err = CallOf(h)
	require.ErrorIs(t, err, refusal.Malformed, "two callers are none")
}

func TestCallsThatAreNone(t *testing.T) {
	for _, s := range []string{"", "v2 g 1 1 -", "v1 g 1 1", "v1  1 1 -", "v1 g -1 1 -", "v1 g 01 1 -", "v1 g 4294967296 1 -", "v1 g 1 -1 -",
		"v1 g 1 1 builder", "v1 g 1 1 builder#0", "v1 g 1 1 builder#07", "v1 g 1 1 #7", "v1 g 1 1 a@b#7", "v1 g 1 1 - x", "v1 g 1@node1 1 -",
		"v1 " + strings.Repeat("g", maxCall) + " 1 1 -"} {
		c, err := ParseCall(s)
		require.ErrorIs(t, err, refusal.Malformed, s)
		require.Zero(t, c, s)
	}
}

func FuzzCall(f *testing.F) {
	f.Add("v1 gate 1000 77 -")
	f.Add("v1 gate 0 1 builder#7")
	f.Add("v1 gate 0 1 -#7")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCall(s)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, s, c.String())
	})
}
