package journal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// The output of a step is read unchanged and only with its job. Reading steps does
// not read it, and it is never replaced.
func TestOutputs(t *testing.T) {
	s := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(1, 200, 4096).Draw(rt, "text")
		update(t, s, func(tx *store.Tx) {
			id := add(t, tx, uid, step(0, 0, op.StateFailed), step(0, 0, op.StateFailed))
			require.NoError(t, journal.AddOutput(tx, op.StepID{Job: id, Index: 2}, text))
			j := must.Get(journal.ReadShownJob(tx, id))(t)
			require.Equal(t, "", j.Steps[0].Output)
			require.Equal(t, text, j.Steps[1].Output)
			j = must.Get(journal.ReadJob(tx, id))(t)
			require.Empty(t, j.Steps[1].Output)
			require.Error(t, tx.Savepoint(func() error {
				return journal.AddOutput(tx, op.StepID{Job: id, Index: 2}, strings.ToUpper(text))
			}))
			must.Fail(journal.ReadShownJob(tx, id+1))(t, refusal.UnknownTarget)
		})
	})
}
