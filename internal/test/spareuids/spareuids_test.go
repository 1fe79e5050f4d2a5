package spareuids

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A driver kills by uid. So two tests must not have one range at once, however many ranges were given before.
func TestARangeIsOneTests(t *testing.T) {
	held, _ := Next(t.Cleanup)
	for range 10 * ranges {
		var giveBack func()
		first, last := Next(func(f func()) { giveBack = f })
		require.NotEqual(t, held, first)
		require.EqualValues(t, Len, last-first+1)
		giveBack()
	}
	var last func()
	for range ranges - 1 {
		first, _ := Next(func(f func()) { last = f })
		defer last()
		require.NotEqual(t, held, first)
	}
	select {
	case <-free:
		t.Fatal("a range is free that a test has")
	default:
	}
}
