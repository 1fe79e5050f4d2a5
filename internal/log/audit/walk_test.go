package audit_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

func TestProgressEndsAWalk(t *testing.T) {
	l := filled(t, 600)
	stop := errors.New("stop")
	var seen int64
	l.view(func(tx *store.Tx) error {
		_, err := audit.Checker{Progress: func(done int64) error { seen = done; return stop }}.Verify(tx)
		require.ErrorIs(t, err, stop)
		return nil
	})
	require.Positive(t, seen)
	require.Less(t, seen, int64(600))
}
