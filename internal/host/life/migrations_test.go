package life

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/fsck"
)

// fsck misses rejections that a program of this schema, by its entry in the log, should have kept.
func TestRejectionsAreSinceTheSchemaThatFsckKnows(t *testing.T) {
	all := Migrations()
	require.Contains(t, all[fsck.RejectionsSchema-1].SQL, "CREATE TABLE rejections")
	for i, m := range all {
		require.Equal(t, i+1, m.Version)
	}
}
