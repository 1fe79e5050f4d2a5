package authz_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// modelLine is a line of the file in the model, without text or index.
type modelLine struct {
	key           mint.Key
	ca            bool
	roles         []op.Role
	after, before int // hours since noon; 0 means no limit
}

func (l modelLine) text() string {
	var options []string
	if l.ca {
		options = append(options, "cert-authority")
	}
	var namespaces []string
	for _, r := range l.roles {
		namespaces = append(namespaces, r.Namespace())
	}
	options = append(options, `namespaces="`+strings.Join(namespaces, ",")+`"`)
	for name, hours := range map[string]int{"valid-after": l.after, "valid-before": l.before} {
		if hours != 0 {
			options = append(options, fmt.Sprintf(`%s="%s"`, name, noon.Add(time.Duration(hours)*time.Hour).Format("20060102150405Z")))
		}
	}
	return l.key.Name + " " + strings.Join(options, ",") + " " + l.key.Text()
}

func (l modelLine) valid(hour int) bool {
	return (l.after == 0 || hour >= l.after) && (l.before == 0 || hour <= l.before)
}

// model is the content of a file and its revocation list.
type model struct {
	lines   []modelLine
	revoked []mint.Key
}

// holds reports whether a role has a key that could sign at these hours.
func (m model) holds(role op.Role, hours ...int) bool {
	return slices.ContainsFunc(m.lines, func(l modelLine) bool {
		return slices.Contains(l.roles, role) && !m.isRevoked(l.key) &&
			!slices.ContainsFunc(hours, func(hour int) bool { return !l.valid(hour) })
	})
}

func (m model) isRevoked(k mint.Key) bool { return slices.ContainsFunc(m.revoked, same(k)) }

func same(k mint.Key) func(mint.Key) bool {
	return func(o mint.Key) bool { return o.Fingerprint() == k.Fingerprint() }
}

// rotate says what a rotation must make of the file, and whether it is allowed.
func (m model) rotate(add []modelLine, remove []mint.Key, hour int) (model, []authz.Owed, bool) {
	may := len(add)+len(remove) > 0
	stays := model{revoked: m.revoked}
	for _, l := range m.lines {
		if !slices.ContainsFunc(remove, same(l.key)) {
			stays.lines = append(stays.lines, l)
		}
	}
	for i, k := range remove {
		listed := slices.ContainsFunc(m.lines, func(l modelLine) bool { return same(k)(l.key) })
		may = may && listed && !slices.ContainsFunc(remove[:i], same(k))
	}
	after := model{lines: slices.Concat(stays.lines, add), revoked: m.revoked}
	var owed []authz.Owed
	for _, l := range add {
		taken := slices.ContainsFunc(stays.lines, func(o modelLine) bool { return same(l.key)(o.key) })
		may = may && !taken && !m.isRevoked(l.key) && (l.before == 0 || hour <= l.before)
		for _, role := range l.roles {
			known := slices.ContainsFunc(m.lines, func(o modelLine) bool {
				return same(l.key)(o.key) && o.ca == l.ca && o.valid(hour) && slices.Contains(o.roles, role)
			})
			if o := (authz.Owed{Key: l.key.Fingerprint(), Role: role}); !known && !slices.Contains(owed, o) {
				owed = append(owed, o)
			}
		}
	}
	for _, role := range modelRoles {
		now := m.holds(role, hour) && !after.holds(role, hour)
		soon := m.holds(role, hour, hour+24) && !after.holds(role, hour, hour+24)
		may = may && !now && !soon
	}
	return after, owed, may
}

var modelRoles = []op.Role{op.Operational, op.Recovery, "manager"}

// TestRotateMachine rotates a file again and again, and compares refusals, owed
// proofs and lines with the model. A refusal changes nothing, and no role loses its
// last valid key.
func TestRotateMachine(t *testing.T) {
	t.Parallel()
	var keys []mint.Key
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		keys = append(keys, mint.Ed25519(t, name))
	}
	var rotated, refused int
	rapid.Check(t, func(t *rapid.T) {
		var m model
		trust, hour := loaded(t, "# the beginning\n"), 0
		for range rapid.IntRange(1, 12).Draw(t, "rotations") {
			hour += rapid.IntRange(0, 2).Draw(t, "hours")
			if rapid.IntRange(0, 5).Draw(t, "revoke") == 0 {
				m.revoked = append(slices.Clone(m.revoked), rapid.SampledFrom(keys).Draw(t, "revoked"))
				trust = trust.WithRevoked(revoking(t, fingerprints(m.revoked)...))
			}
			add := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelLine { return drawModelLine(t, keys, hour) }), 0, 3).Draw(t, "add")
			remove := rapid.SliceOfN(rapid.SampledFrom(keys), 0, 2).Draw(t, "remove")
			after, owed, may := m.rotate(add, remove, hour)
			var lines []string
			for _, l := range add {
				lines = append(lines, l.text())
			}
			r, err := trust.Rotate(lines, fingerprints(remove), noon.Add(time.Duration(hour)*time.Hour))
			require.Equal(t, may, err == nil, "%v", err)
			if err != nil {
				require.ErrorIs(t, err, refusal.BadParams)
				require.Nil(t, r.Trust)
				refused++
				continue
			}
			require.Equal(t, owed, r.Owed())
			rotated++
			m, trust = after, r.Trust
			agrees(t, m, trust, hour)
		}
	})
	// Shares of the total, because -short and -rapid.checks change how many there
	// are.
	asked := rotated + refused
	require.Greater(t, rotated, asked/30, "too few are made")
	require.Greater(t, refused, asked/2, "too few are refused")
}

func fingerprints(keys []mint.Key) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Fingerprint())
	}
	return out
}

func drawModelLine(t *rapid.T, keys []mint.Key, hour int) modelLine {
	l := modelLine{key: rapid.SampledFrom(keys).Draw(t, "key"), ca: rapid.IntRange(0, 3).Draw(t, "CA") == 0}
	chosen := rapid.IntRange(1, 7).Draw(t, "roles")
	for i, role := range modelRoles {
		if chosen&(1<<i) != 0 {
			l.roles = append(l.roles, role)
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "limits") {
	case 0:
		l.before = hour + rapid.SampledFrom([]int{-1, 0, 1, 3, 23, 24, 25, 30}).Draw(t, "before")
	case 1:
		l.after = hour + rapid.IntRange(-1, 3).Draw(t, "after")
	}
	return l
}

// agrees compares a file with the model of it.
func agrees(t require.TestingT, m model, trust *authz.Trust, hour int) {
	at := noon.Add(time.Duration(hour) * time.Hour)
	require.Equal(t, must.Get(authz.LoadTrust(trust.Text()))(t).Signers(), trust.Signers())
	require.True(t, strings.HasPrefix(string(trust.Text()), "# the beginning\n"), "comments stay")
	listed := trust.Signers()
	require.Len(t, listed, len(m.lines))
	for i, l := range m.lines {
		require.Equal(t, l.key.Fingerprint(), listed[i].Key)
		require.Equal(t, l.ca, listed[i].CA)
		require.Equal(t, l.roles, listed[i].Roles)
		for _, role := range modelRoles {
			signed := op.Signed{Principal: l.key.Name, Role: role, Key: l.key.Fingerprint()}
			counts := slices.ContainsFunc(m.lines, func(o modelLine) bool {
				return !o.ca && same(l.key)(o.key) && o.valid(hour) && slices.Contains(o.roles, role)
			}) && !m.isRevoked(l.key)
			require.Equal(t, counts, trust.Still(signed, at) == nil)
		}
	}
	for _, role := range modelRoles {
		require.Equal(t, m.holds(role, hour), len(trust.Could(role, op.TouchNone, false, at)) > 0)
	}
}
