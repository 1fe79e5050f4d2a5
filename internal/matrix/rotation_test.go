package matrix_test

import (
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

// rotation asks to change the trust file.
func rotation(epoch int64, add, remove []string) op.Ask {
	p := op.Params{"epoch": epoch}
	for name, list := range map[string][]string{"add": add, "remove": remove} {
		var lines []any
		for _, l := range list {
			lines = append(lines, strings.TrimSuffix(l, "\n"))
		}
		if lines != nil {
			p[name] = lines
		}
	}
	return op.Ask{Op: "trust.rotate", Target: op.Signers, Params: p}
}

// next is a rotation to the next epoch.
func (w *world) next(add, remove []string) op.Ask {
	return rotation(w.gate.Epoch()+1, add, remove)
}

// rotate changes the trust file as operators do.
func (w *world) rotate(add, remove []string, votes ...vote) {
	w.t.Helper()
	r := w.mustSign(w.request(w.next(add, remove)), votes...)
	require.Equal(w.t, op.StateAuthorized, r.Step.State)
	require.NoError(w.t, w.executor().execute(w.ctx, r.ID))
	require.Equal(w.t, op.StateSucceeded, w.stepOf(r.ID).State)
}
