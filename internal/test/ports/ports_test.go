package ports

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFree(t *testing.T) {
	seen := map[int]bool{}
	t.Run("held", func(t *testing.T) {
		for range 200 {
			p := Free(t)
			require.False(t, seen[p], "%d was handed out twice", p)
			require.True(t, lowest <= p && p <= highest, p)
			seen[p] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
	})
	for p := range seen { // free again, because that test has ended
		l, err := net.Listen("unix", fmt.Sprintf("@gated-test-port-%d", p))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
