package op

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// A caller of another member is no caller of this host, and neither is one of a third host.
func TestUidsOfTwoHostsAreTwoCallers(t *testing.T) {
	here := Requester{Source: SourceAPI, UID: 1000}
	one := Requester{Source: SourceAPI, UID: 1000, Set: "node1"}
	two := Requester{Source: SourceAPI, UID: 1000, Set: "node2"}
	for _, r := range []struct {
		by   Requester
		want string
	}{{here, "uid:1000"}, {one, "uid:1000@node1"}, {two, "uid:1000@node2"}, {Requester{Source: SourceOffline, UID: 7, Set: "node2"}, "uid:7@node2"}} {
		require.Equal(t, r.want, r.by.String())
		require.Equal(t, r.want, r.by.Payer(), "each pays for itself")
	}
	require.False(t, here.is(one))
	require.False(t, one.is(two))
	require.True(t, two.is(two))
	one.Agent = "builder#7"
	require.Equal(t, "uid:1000@node1", one.Payer(), "an agent's work counts for its uid on its host")
	require.Equal(t, uint32(1000), here.Account().Lane())
	require.NotEqual(t, one.Account().Lane(), two.Account().Lane())
	require.NotEqual(t, here.Account().Lane(), two.Account().Lane())
	require.Equal(t, Account{UID: 5}, Requester{Source: SourceDesired, UID: 5, Set: "web"}.Account(), "a set is no member")
}

func FuzzAccount(f *testing.F) {
	for _, s := range []string{"0", "1000", "1000@node2", "4294967296", "01", "1@", "@a", "1@a@b", "1@a b", "-1", "1000@node2\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAccount(s)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			require.Zero(t, a)
			return
		}
		require.Equal(t, s, a.String())
		require.Equal(t, a, must.Get(ParseAccount(a.String()))(t))
	})
}
