package server

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ask sends a request whose answer nobody will read.
func (w *world) ask(t *testing.T, path string) {
	t.Helper()
	conn := w.dial(t)
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
}

// Who asks for a stream and never reads it loses it when one part was not taken
// in time, and costs nobody else anything meanwhile.
func TestAReaderThatNeverReads(t *testing.T) {
	for _, path := range []string{"/v1/events", "/v1/backup"} {
		t.Run(path, func(t *testing.T) {
			w := start(t, -1, func(c *Config) {
				c.Backup = func(_ context.Context, to io.Writer) error {
					part := make([]byte, 1<<20)
					for {
						if _, err := to.Write(part); err != nil {
							return err
						}
					}
				}
				c.Limits.Streams, c.Limits.StreamsUID, c.Limits.StreamsKept, c.Limits.Write = 2, 2, 1, time.Second
			})
			w.Happen(t, 40*eventBatch)
			w.ask(t, path)
			w.ask(t, path)
			taken := func() int64 {
				w.server.streams.mu.Lock()
				defer w.server.streams.mu.Unlock()
				return w.server.streams.used
			}
			require.Eventually(t, func() bool { return taken() > 0 }, 10*time.Second, time.Millisecond)
			require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status, "others are answered")
			require.Eventually(t, func() bool { return taken() == 0 }, 20*time.Second, time.Millisecond, "it keeps its place for ever")
			require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
		})
	}
}

// A call that does not end is cut off when the daemon has waited long enough.
func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Drain = 10 * time.Millisecond })
	hold := w.holdStatus()
	broken := make(chan error, 1)
	go func() {
		resp, err := w.http.Get("http://gated/v1/status")
		if err == nil {
			_ = resp.Body.Close()
		}
		broken <- err
	}()
	<-hold.Held
	w.stop()
	require.Error(t, <-broken, "no answer is better than one that may be half")
	hold.End()
}
