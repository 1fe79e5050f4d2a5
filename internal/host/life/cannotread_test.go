package life

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Nobody throws a good backup away because a disk is full: of a copy, the directory to look at is the copy's.
func TestABackupThatDoesNotOpen(t *testing.T) {
	for name, c := range map[string]struct {
		err        error
		code       refusal.Code
		says, hint string
	}{
		"a full disk":    {fmt.Errorf("copy: %w", syscall.ENOSPC), refusal.Unavailable, "there is no room to open the backup /b/gated.db: ", "make room in /tmp/copies (df -h)"},
		"a damaged one":  {store.ErrCorrupt, refusal.Conflict, "/b/gated.db is damaged, or no backup of a gate: ", ""},
		"a newer one":    {&store.TooNewError{Have: 99, Want: 1}, refusal.SchemaTooNew, "99", ""},
		"a disk's fault": {errors.New("input/output error"), refusal.Unavailable, "the backup /b/gated.db does not open: ", "see whether its disk works, or take another backup"},
	} {
		r := refusal.As(cannotRead("/b/gated.db", "/tmp/copies/1.db", c.err))
		require.Equal(t, c.code, r.Code, name)
		require.Contains(t, r.Detail, c.says, name)
		require.Contains(t, r.Hint, c.hint, name)
	}
}
