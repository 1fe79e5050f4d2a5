package hubserver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/test/must"
)

// FuzzHandler: whatever is asked, nothing outside a host's directory is served,
// and nothing is written.
func FuzzHandler(f *testing.F) {
	for _, what := range []string{hub.PathDesired, hub.PathOperations, hub.PathReport} {
		f.Add(http.MethodGet, hub.Path("pve1", what), "", "")
		f.Add(http.MethodGet, "/v1/hosts/../"+what, `"x"`, "")
		f.Add(http.MethodGet, "/v1/hosts/%2e%2e/"+what, "", "")
	}
	f.Add(http.MethodPost, hub.Path("pve1", hub.PathReport), "", `{"host":"pve1","sets":[{"name":"<b>"}]}`)
	f.Add(http.MethodGet, "/", "", "")
	f.Add(http.MethodGet, "/?after=pve1", "", "")
	f.Add(http.MethodGet, "/v1/queue?host=pve1&op=guest.destroy&limit=1&after=1.70.6a", "", "")
	f.Add(http.MethodGet, "/v1/heads/"+string(statetest.GateID), "", "")
	f.Add(http.MethodGet, hub.Path("pve1", hub.PathHead)+"?gate="+string(statetest.GateID), "", "")
	f.Add(http.MethodPost, hub.Path("pve1", hub.PathReport), "", `{"host":"pve1","requests":[{"request":"j1.1","created_at":"9999-12-31T23:59:59-23:59"}]}`)
	l := statetest.NewLog(f, statetest.GateID)
	l.Add(f, "one", "two")
	f.Add(http.MethodPost, hub.Path("pve1", hub.PathHead), "", string(must.Get(api.Encode(l.Head(f, "pve1", 0)))(f)))
	w := newWorld(f)
	w.write(web, "pve1", "web.yaml")
	w.write("secret", "outside.yaml")
	f.Fuzz(func(t *testing.T, method, path, tag, body string) {
		r, err := http.NewRequest(method, "http://127.0.0.1", nil)
		if err != nil || len(path) == 0 || path[0] != '/' {
			return
		}
		if u, err := r.URL.Parse(path); err != nil || u.Host != "127.0.0.1" || u.Path == "" {
			return
		}
		for _, c := range path {
			if c <= ' ' || c > '~' {
				return // no request line has it
			}
		}
		resp := do(w.hub, method, path, body, "If-None-Match", tag, "Content-Type", "application/json")
		require.NotContains(t, bodyOf(t, resp), "secret")
		require.NotEqual(t, 500, resp.StatusCode)
		require.Len(t, must.Get(os.ReadDir(filepath.Join(w.dir, "pve1")))(t), 1)
	})
}
