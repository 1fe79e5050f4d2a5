package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestAHubIsTheOnlySource: of two sources that have a set of one name, each would
// withdraw what the other asks for.
func TestAHubIsTheOnlySource(t *testing.T) {
	w := newServing(t)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web")).State)
	must.Get(w.client.PutSet(t.Context(), "site", "", document("name: web\n    state: absent")))(t)
	pending := func() []api.Request { return must.Get(w.client.Requests(t.Context(), op.StatePending))(t) }
	require.Eventually(t, func() bool { return len(pending()) == 1 }, patience, 10*time.Millisecond)
	waits := pending()
	w.halt()

	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	conf := filepath.Join(w.state, "gated.yaml")
	whole := read(t, conf)
	section := "hub: {url: \"" + s.URL + "\", interval: 1s}\n"
	dir := filepath.Join(w.dir, "desired")
	require.NoError(t, os.Mkdir(dir, 0o700))
	w.config(section + "desired: {dir: " + dir + "}\n")
	refused(t, w.run(t.Context()), refusal.Malformed, "desired state comes from one place")

	require.NoError(t, os.WriteFile(conf, []byte(whole), 0o600))
	w.config(section)
	w.serve()
	require.Len(t, w.status().Sources, 1, "what was put before is no source")
	require.Equal(t, "hub", w.status().Sources[0].Name)
	require.Eventually(t, func() bool { return w.status().Sources[0].Error != nil }, patience, 10*time.Millisecond)
	fault := w.status().Sources[0].Error
	require.Equal(t, refusal.UnknownTarget, fault.Code)
	require.Regexp(t, `^the hub has nothing for the host "[^"]+", or the URL is not a hub's \(since [0-9TZ:-]+, (is tried now|tried next at [0-9TZ:-]+)\)$`, fault.Detail)
	require.Equal(t, waits, pending(), "while the hub does not answer, nothing is withdrawn")
	_, err := w.client.PutSet(t.Context(), "site", "", document("name: web"))
	refused(t, err, refusal.Conflict, s.URL)
	refused(t, w.client.DeleteSet(t.Context(), "site"), refusal.Conflict, s.URL)
	require.Len(t, w.status().Sources, 1)
	w.halt()
}
