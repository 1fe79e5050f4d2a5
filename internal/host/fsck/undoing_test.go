package fsck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// TestEveryUndoIsKnown: an operation of the catalogue that another one takes back
// has its pair here, else fsck would call each of its steps unfit.
func TestEveryUndoIsKnown(t *testing.T) {
	undone := map[string]bool{}
	for _, spec := range op.Catalogue() {
		if spec.Undo != nil {
			undone[spec.Name] = true
			require.NotEmpty(t, undoing[spec.Name], "%s has an undo: add it to undoing", spec.Name)
		}
	}
	for name, by := range undoing {
		require.True(t, undone[name], "%s has no undo", name)
		must.Get(op.Lookup(by))(t)
	}
}
