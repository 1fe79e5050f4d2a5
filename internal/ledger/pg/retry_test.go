package pg

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The last try of a call that fails is often cut at its limit. What the try before was told is said, and not that the time
// was over.
func TestATryThatIsCutHidesNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tries, refused := 0, errors.New("no such certificate")
		cut := func() error {
			if tries++; tries == 1 {
				return refused
			}
			<-ctx.Done()
			return ctx.Err()
		}
		require.Equal(t, refused, retry(ctx, cut))
		require.Equal(t, 2, tries)
		require.Equal(t, context.DeadlineExceeded, retry(ctx, cut), "if it is all that is known")
	})
}
