package authz

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// FuzzRotate: the new file has the old lines without the removed keys, and the added
// lines. Otherwise nothing changes, and the refusal says why.
func FuzzRotate(f *testing.F) {
	text := seedTrust(f)
	trust := must.Get(LoadTrust([]byte(text)))(f)
	next, again := mint.Ed25519(f, "next"), mint.Ed25519(f, "again")
	var last string
	for _, l := range trust.Signers() {
		last = l.Key
	}
	f.Add(strings.TrimSuffix(next.Line("next@example.com", `namespaces="operational@gated"`), "\n"), last)
	f.Add(again.Line("again", `namespaces="recovery@gated"`)+"mallory namespaces=\"operational@gated\" "+next.Text(), "")
	f.Add("# a comment", "")
	f.Add(strings.TrimSuffix(next.Line("*", `cert-authority,namespaces="operational@gated"`), "\n"), last)
	f.Add("", last)
	f.Fuzz(func(t *testing.T, line, gone string) {
		var remove []string
		if gone != "" {
			remove = []string{gone}
		}
		r, err := trust.Rotate([]string{line}, remove, issued)
		if err != nil {
			require.Equal(t, refusal.BadParams, refusal.CodeOf(err), "%v", err)
			return
		}
		require.Len(t, r.Added, 1, "one line became several")
		require.NotEmpty(t, r.Added[0].Roles)
		require.Len(t, r.Trust.Signers(), len(trust.Signers())+1-len(r.Removed))
		require.NotEmpty(t, r.Owed(), "no proof is owed for the added key")
		for _, l := range trust.Signers() {
			require.True(t, l.Key == gone || listed(r.Trust, l), "a line that was not removed is gone: %+v", l)
		}
		must.Get(LoadTrust(r.Text))(t)
	})
}

func listed(trust *Trust, want Listed) bool {
	for _, l := range trust.Signers() {
		if l.Key == want.Key && l.Principal == want.Principal && l.CA == want.CA {
			return true
		}
	}
	return false
}

// FuzzPrincipals: the patterns of a CA's line have the meaning that the simplest
// reading of ssh_config(5) gives them.
func FuzzPrincipals(f *testing.F) {
	f.Add("alice@example.com", "*@example.com,!root@*")
	f.Add("aaaaaaaaab", "a*a*a*a*b")
	f.Add("", "*")
	f.Add("é", "??")
	f.Fuzz(func(t *testing.T, name, list string) {
		if len(name) > 24 || len(list) > 24 {
			return // the simple reading takes exponential time
		}
		found, barred := false, false
		for p := range strings.SplitSeq(list, ",") {
			p, negated := strings.CutPrefix(p, "!")
			found = found || !negated && plainly(name, p)
			barred = barred || negated && plainly(name, p)
		}
		require.Equal(t, found && !barred, matchList(name, list))
		if checkPrincipal(name) == nil && len(list) > 0 {
			require.True(t, matchList(name, name), "a name is no pattern of itself")
		}
	})
}

func plainly(name, pattern string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return plainly(name, pattern[1:]) || name != "" && plainly(name[1:], pattern)
	default:
		return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && plainly(name[1:], pattern[1:])
	}
}
