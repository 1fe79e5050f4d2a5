package journal_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// TestShownHasEachLabel: the digest of what people saw is the same each time. It
// changes if one label or fact is removed, changed, or merged with another.
func TestShownHasEachLabel(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		id := op.StepID{Job: add(t, tx, uid, step(0, 0, op.StatePending)), Index: 1}
		labels := map[string]string{"a": "1", "b": "1", "legal-hold": "yes", "owner": "", "tier": "prod", "x": "y", "y": "x", "z": "\u05d0"}
		r := op.Request{ID: id, Payload: []byte("p1"), Nonce: "n1", Labels: labels, CreatedAt: now, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
			Facts: []op.Fact{{Name: "files", Text: "3"}, {Name: "key", Text: "a"}, {Name: "key", Text: "b"}}}
		require.NoError(t, journal.PutRequest(tx, r))
		digest := journal.ShownDigest(r)
		for range 50 {
			again := r
			again.Labels = maps.Clone(labels) // Go reads a map in any order
			require.Equal(t, digest, journal.ShownDigest(again))
		}
		var storedFacts, storedLabels []byte
		require.NoError(t, tx.QueryRow(`SELECT facts, labels FROM requests`).Scan(&storedFacts, &storedLabels))
		require.Equal(t, digest, journal.DigestShown(storedFacts, storedLabels), "of what is stored")
		got := must.Get(journal.ReadRequest(tx, id))(t)
		require.Equal(t, labels, got.Labels)
		require.Equal(t, r.Facts, got.Facts)
		require.Equal(t, digest, journal.ShownDigest(got))

		other := func(what string, change func(*op.Request)) {
			x := r
			x.Labels, x.Facts = maps.Clone(labels), slices.Clone(r.Facts)
			change(&x)
			require.NotEqual(t, digest, journal.ShownDigest(x), what)
		}
		for name, value := range labels {
			other("without "+name, func(x *op.Request) { delete(x.Labels, name) })
			other("changed "+name, func(x *op.Request) { x.Labels[name] += "x" })
			other("renamed "+name, func(x *op.Request) { delete(x.Labels, name); x.Labels[name+"x"] = value })
			for second, its := range labels {
				if name == second {
					continue
				}
				other("without "+name+" and "+second, func(x *op.Request) { delete(x.Labels, name); delete(x.Labels, second) })
				other("merged "+name+" and "+second, func(x *op.Request) { delete(x.Labels, second); x.Labels[name] = value + "," + its })
				if value != its {
					other("swapped "+name+" and "+second, func(x *op.Request) { x.Labels[name], x.Labels[second] = its, value })
				}
			}
		}
		other("a fact less", func(x *op.Request) { x.Facts = x.Facts[:2] })
		other("two facts merged", func(x *op.Request) { x.Facts = []op.Fact{x.Facts[0], {Name: "key", Text: "a, b"}} })
		other("in another order", func(x *op.Request) { x.Facts[1], x.Facts[2] = x.Facts[2], x.Facts[1] })
		other("labels as facts", func(x *op.Request) { x.Labels = nil })
	})
}
