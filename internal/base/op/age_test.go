package op

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	now := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	for want, d := range map[string]time.Duration{"0s": -time.Hour, "59s": time.Minute - 1, "1m": time.Minute, "59m": time.Hour - 1,
		"1h": time.Hour, "47h": 48*time.Hour - 1, "2d": 48 * time.Hour} {
		require.Equal(t, want, Age(now, now.Add(-d)))
	}
}
