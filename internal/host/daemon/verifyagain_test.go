package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
)

// The log cannot be read while its directory is away. When the directory is back, the check is made after all.
func TestALogThatCouldNotBeReadIsVerifiedLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	s := fscktest.Open(t, filepath.Join(dir, "gated.db"), store.Options{Migrations: life.Migrations()})
	require.NoError(t, os.Rename(dir, dir+".away")) // before the store has opened a connection to read
	w := newWholeLog(s, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	says := func(ok bool) func() bool {
		return func() bool { v := w.verified(); return v.OK == ok && (!ok || v.At != nil) }
	}
	require.Eventually(t, says(false), time.Minute, time.Millisecond)
	require.Contains(t, w.verified().Detail, "could not be verified")
	require.NoError(t, os.Rename(dir+".away", dir))
	require.Eventually(t, says(true), time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
