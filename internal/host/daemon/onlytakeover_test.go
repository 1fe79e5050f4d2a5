package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A standby with a part that failed, or that goes on, does not become the active member in the same process.
func TestAStandbyTakesOverOnlyIfAllItsPartsEnded(t *testing.T) {
	takesOver := part{"the ledger", func(context.Context) error { return errTakeOver }}
	ends := part{"the server", func(ctx context.Context) error { <-ctx.Done(); return nil }}
	fails := part{"the reload", func(ctx context.Context) error { <-ctx.Done(); return errors.New("broken") }}
	goesOn := make(chan struct{})
	defer close(goesOn)
	hangs := part{"the watchdog", func(context.Context) error { <-goesOn; return nil }}
	run := func(limit time.Duration, parts ...part) bool {
		return onlyTakeOver(together(t.Context(), limit, parts, func() {}, func() {}))
	}
	require.True(t, run(time.Minute, takesOver, ends))
	require.True(t, run(time.Minute, takesOver))
	require.False(t, run(time.Minute, takesOver, ends, fails))
	require.False(t, run(time.Millisecond, takesOver, ends, hangs))
	require.False(t, onlyTakeOver(nil))
}
