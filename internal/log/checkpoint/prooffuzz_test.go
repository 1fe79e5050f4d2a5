package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

// FuzzProof: hashes are accepted only in one form. No list of them proves that a log
// continues as another, or has another entry.
func FuzzProof(f *testing.F) {
	honest, forged := filled(f, 12), filled(f, 12)
	forged.hashes[0][0] ^= 1 // another first entry
	other := &log{}
	for i, text := range honest.texts {
		if i == 2 {
			text += " "
		}
		other.add(f, text)
	}
	for _, l := range []*log{honest, other, forged} {
		proof := must.Get(tlog.ProveTree(12, 5, l))(f)
		f.Add(strings.Join(checkpoint.EncodeHashes(proof), "\n"))
		proof2 := must.Get(tlog.ProveRecord(12, 2, l))(f)
		f.Add(strings.Join(checkpoint.EncodeHashes(proof2), "\n"))
	}
	f.Add(strings.Repeat("A", 43) + "=")
	f.Add(strings.Repeat("A", 42) + "B=")
	f.Add(strings.Repeat("\n", checkpoint.MaxProof))
	was, is, lie := honest.head(f, 5), honest.head(f, 12), other.head(f, 12)
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := checkpoint.DecodeHashes(strings.Split(text, "\n"))
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, text, strings.Join(checkpoint.EncodeHashes(hashes), "\n"), "a hash has one form")
		require.ErrorIs(t, was.Continues(lie, hashes), refusal.BindingMismatch)
		require.ErrorIs(t, is.Continues(was, hashes), refusal.BindingMismatch)
		require.ErrorIs(t, is.Includes(3, []byte(other.texts[2]), hashes), refusal.BindingMismatch)
		require.ErrorIs(t, is.Includes(13, []byte(honest.texts[2]), hashes), refusal.BindingMismatch)
		if was.Continues(is, hashes) == nil {
			proof := must.Get(tlog.ProveTree(12, 5, honest))(t)
			require.Equal(t, []tlog.Hash(proof), hashes, "a second proof of the same")
		}
	})
}
