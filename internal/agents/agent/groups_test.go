package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGroups: the kernel says which groups a caller is in, however many.
func TestGroups(t *testing.T) {
	s := newStage(t)
	if os.Geteuid() != 0 { // there are no other groups to be in
		groups, err := s.start("mine").peer.Groups()
		require.NoError(t, err)
		require.EqualValues(t, os.Getegid(), groups[0])
		return
	}
	none, err := s.start("nobody", "nobody").peer.Groups()
	require.NoError(t, err)
	require.Equal(t, []uint32{65534}, none)
	many := s.start("many", "groups")
	got, err := many.peer.Groups()
	require.NoError(t, err)
	require.Equal(t, append([]uint32{65534}, manyGroups...), got)
	require.NoError(t, many.conn.Close())
	_, err = many.peer.Groups()
	require.Error(t, err, "nobody is there to ask for")
}
