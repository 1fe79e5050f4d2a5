package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestGroups: the kernel says which groups a caller is in, however many.
func TestGroups(t *testing.T) {
	s := newStage(t)
	if os.Geteuid() != 0 { // there are no other groups to be in
		groups := must.Get(s.start("mine").peer.Groups())(t)
		require.EqualValues(t, os.Getegid(), groups[0])
		return
	}
	require.Equal(t, []uint32{65534}, must.Get(s.start("nobody", "nobody").peer.Groups())(t))
	many := s.start("many", "groups")
	got := must.Get(many.peer.Groups())(t)
	require.Equal(t, append([]uint32{65534}, manyGroups...), got)
	require.NoError(t, many.conn.Close())
	must.Err(many.peer.Groups())(t, "nobody is there to ask for")
}
