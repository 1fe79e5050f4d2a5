package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// Lists that come in pages are read to their end.
func TestPagesAreFollowed(t *testing.T) {
	d, c := behind(t)
	d.change(func() { d.paged = 5 })
	rs := must.Get(c.Requests(t.Context(), ""))(t)
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []string{"j12.1", "j12.2", "j12.3", "j12.4", "j12.5"}, ids)

	gs := must.Get(c.Guests(t.Context()))(t)
	require.Len(t, gs, 5)
	require.Equal(t, "g5", gs[4].Name)

	require.Len(t, must.Get(c.Scopes(t.Context()))(t), 3)
}
