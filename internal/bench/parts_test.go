package bench

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A part that fails takes no figure of the others away.
func TestAPartThatFails(t *testing.T) {
	all := parts
	t.Cleanup(func() { parts = all })
	wrong := errors.New("wrong")
	measures := func(what string) func(*bench) error {
		return func(b *bench) error { b.table.add(row{what: what, value: 1, unit: plain}); return nil }
	}
	parts = parts[:0:0]
	add := func(name string, run func(*bench) error) {
		parts = append(parts, struct {
			name string
			run  func(*bench) error
		}{name, run})
	}
	add("limits", measures("the machine"))
	add("first", func(*bench) error { return wrong })
	add("second", measures("a figure"))
	var out bytes.Buffer
	err := Run(t.Context(), Options{Dir: t.TempDir(), Out: &out, Progress: t.Output()})
	require.ErrorIs(t, err, wrong)
	require.ErrorContains(t, err, "first: ")
	require.Contains(t, out.String(), "the machine")
	require.Contains(t, out.String(), "a figure")
}
