package daemon

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// TestTheWatchdogPingsAfterARead: readers come and go, and the ping comes; if no reader ever ends, as on a disk that
// hangs, it does not. Nor does it if the database cannot be read.
func TestTheWatchdogPingsAfterARead(t *testing.T) {
	dir := t.TempDir()
	s := fscktest.Open(t, filepath.Join(dir, "gated.db"), store.Options{Migrations: life.Migrations()})
	path := filepath.Join(dir, "n")
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { require.NoError(t, notify.Close()) })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")

	d := &daemon{opened: &life.Opened{Store: s}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.watchdog(ctx) }()
	heard := func(within time.Duration) bool {
		require.NoError(t, notify.SetReadDeadline(time.Now().Add(within)))
		buf := make([]byte, 100)
		n, err := notify.Read(buf)
		if err != nil {
			return false
		}
		require.Equal(t, "WATCHDOG=1", string(buf[:n]))
		return true
	}
	require.True(t, heard(time.Minute))
	require.True(t, heard(time.Minute), "again and again")

	// Every connection for readers is taken, and does not come back.
	hold := make(chan struct{})
	var taken, readers sync.WaitGroup
	const most = 12 // maxReaders of base/store
	taken.Add(most)
	for range most {
		readers.Go(func() {
			_ = s.View(t.Context(), func(*store.Tx) error { // it reads nothing
				taken.Done()
				<-hold
				return nil
			})
		})
	}
	taken.Wait()
	silent := false
	for range 20 { // as many as were on their way, or unread
		if silent = !heard(time.Second); silent {
			break
		}
	}
	require.True(t, silent, "it is silent for a hundred intervals")
	close(hold)
	readers.Wait()
	require.True(t, heard(time.Minute), "the database answers again")

	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Error(t, d.alive(ctx))
}
