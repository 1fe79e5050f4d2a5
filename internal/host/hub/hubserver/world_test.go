package hubserver

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/host/hub"
	"gated/internal/test/must"
)

const web = "apiVersion: gated/v1\nhost: pve1\nguests: []\n"

// world is a hub over a directory, with a clock that is ahead of the files'.
type world struct {
	t    testing.TB
	dir  string
	hub  *Hub
	mu   sync.Mutex
	time time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), time: time.Now().Add(time.Minute)}
	var err error
	w.hub, err = New(Config{Dir: w.dir, Listen: "127.0.0.1:0", Now: w.now, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.hub.root.Close()) })
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

// setClock sets the clock so long after now.
func (w *world) setClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = time.Now().Add(d)
}

func (w *world) write(text string, elem ...string) {
	w.t.Helper()
	path := filepath.Join(append([]string{w.dir}, elem...)...)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// call asks the handler as a caller on this machine.
func (w *world) call(method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	return do(w.hub, method, path, body, headers...)
}

func do(h *Hub, method, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8442"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.Handler().ServeHTTP(rec, r)
	return rec.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b := must.Get(io.ReadAll(r.Body))(t)
	return string(b)
}

func (w *world) desired(host string) hub.Desired {
	w.t.Helper()
	r := w.call("GET", hub.Path(host, hub.PathDesired), "")
	require.Equal(w.t, 200, r.StatusCode)
	return must.Get(hub.DecodeDesired([]byte(bodyOf(w.t, r)), host))(w.t)
}

func (w *world) report(host string, r hub.Report) *http.Response {
	w.t.Helper()
	r.Host = host
	b := must.Get(api.Encode(r))(w.t)
	return w.call("POST", hub.Path(host, hub.PathReport), string(b), "Content-Type", "application/json")
}
