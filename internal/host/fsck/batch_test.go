package fsck_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// TestForgedBatches changes one thing of a batch that is stored with its signature.
func TestForgedBatches(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	a, b := c.destroy("a"), c.destroy("b")
	es := gateworld.BatchSigned(t, c.wall, [][]byte{c.request(a).Payload, c.request(b).Payload}, c.bob)
	for i, id := range []op.RequestID{a, b} {
		must.Get(c.gate.Approve(t.Context(), hub, id, es[i]))(t)
	}
	c.approve(b)
	sound(t, c.path)
	require.NoError(t, c.store.Close())
	const first, bob = ` WHERE job = 5 AND principal = 'bob'`, "the signature of bob does not verify"
	for _, f := range []struct{ name, says, sql string }{
		{"no batch", bob, `UPDATE signatures SET batch = x'', leaf = 0, path = x''` + first},
		{"another batch", bob, `UPDATE signatures SET batch = CAST(replace(CAST(batch AS TEXT), '"count":2', '"count":3') AS BLOB)` + first},
		{"a batch that is none", bob, `UPDATE signatures SET batch = x'7b7d'` + first},
		{"another leaf", bob, `UPDATE signatures SET leaf = 1` + first},
		{"a leaf out of range", "do not decode", `UPDATE signatures SET leaf = -1` + first},
		{"a leaf far out of range", "do not decode", `UPDATE signatures SET leaf = 1000` + first},
		{"no path", bob, `UPDATE signatures SET path = x''` + first},
		{"half a path", "do not decode", `UPDATE signatures SET path = substr(path, 1, 16)` + first},
		{"the path of the other", bob, `UPDATE signatures SET path = (SELECT path FROM signatures WHERE job = 6 AND principal = 'bob')` + first},
		{"a path without a batch", "do not decode", `UPDATE signatures SET batch = x''` + first},
		{"a step that takes no batch", "the step takes none", `UPDATE requests SET need = json_set(need, '$.single', json('true')) WHERE job = 5`},
		{"a step of another kind", "the step takes none", `UPDATE steps SET op = 'trust.rotate' WHERE job = 5`},
		{"another person's", "not those that count", `UPDATE signatures SET principal = 'carl'` + first},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := check(t, byHand(t, c.path, f.sql))
			require.False(t, r.Sound)
			said := false
			for _, p := range r.Problems {
				require.Equal(t, "j5.1", p.Where, "%+v", r.Problems)
				said = said || p.Rule == "signed-step" && strings.Contains(p.Detail, f.says)
			}
			require.True(t, said, "%+v", r.Problems)
		})
	}
}
