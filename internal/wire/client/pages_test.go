package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Lists that come in pages are read to their end.
func TestPagesAreFollowed(t *testing.T) {
	d, c := behind(t)
	d.change(func() { d.paged = 5 })
	rs, err := c.Requests(t.Context(), "")
	require.NoError(t, err)
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []string{"j12.1", "j12.2", "j12.3", "j12.4", "j12.5"}, ids)

	gs, err := c.Guests(t.Context())
	require.NoError(t, err)
	require.Len(t, gs, 5)
	require.Equal(t, "g5", gs[4].Name)

	scopes, err := c.Scopes(t.Context())
	require.NoError(t, err)
	require.Len(t, scopes, 3)
}
