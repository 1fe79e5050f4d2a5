package spareuids

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A driver kills by uid. So two tests must not have one range at once, in whichever process.
func TestARangeIsOneTests(t *testing.T) {
	held, _ := Next(t.Cleanup)
	for range 100 {
		var giveBack func()
		first, last := Next(func(f func()) { giveBack = f })
		require.NotEqual(t, held, first)
		require.EqualValues(t, Len, last-first+1)
		require.GreaterOrEqual(t, first, uint32(base))
		giveBack()
	}
	_, err := net.Listen("unix", fmt.Sprintf("@gated-test-uids-%d", (held-base)/width))
	require.Error(t, err, "another process can take the range")
}

// The next range of this process is another process': it takes the one after it.
func TestARangeOfAnotherProcessIsLeft(t *testing.T) {
	n := (start + given.Load() + 1) % count
	other, err := net.Listen("unix", fmt.Sprintf("@gated-test-uids-%d", n))
	require.NoError(t, err)
	defer other.Close()
	first, _ := Next(t.Cleanup)
	require.NotEqual(t, uint32(base+n*width), first)
}

// The last range has no number that is no uid.
func TestTheLastRangeHasUIDsAlone(t *testing.T) {
	require.Less(t, uint64(base+(count-1)*width+Len-1), uint64(1<<32-2))
}
