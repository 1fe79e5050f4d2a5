package hubserver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
	"gated/internal/test/must"
)

func TestDesired(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(web+"# b\n", "pve1", "db.yml")
	w.write("no document", "pve1", ".hidden.yaml")
	w.write("no document", "pve1", "README")
	w.write(web, "pve2", "web.yaml")
	d := w.desired("pve1")
	require.Equal(t, map[string]string{"web": web, "db": web + "# b\n"}, d.Sets)
	require.Len(t, d.Revision, 16)
	require.NotEqual(t, d.Revision, w.desired("pve2").Revision)

	r := w.call("GET", hub.Path("pve1", hub.PathDesired), "")
	tag := r.Header.Get("ETag")
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Equal(t, 304, w.call("GET", hub.Path("pve1", hub.PathDesired), "", "If-None-Match", tag).StatusCode)
	w.write(web, "pve1", "db.yml")
	r = w.call("GET", hub.Path("pve1", hub.PathDesired), "", "If-None-Match", tag)
	require.Equal(t, 200, r.StatusCode)
	require.NotEqual(t, tag, r.Header.Get("ETag"))
	require.NotEqual(t, d.Revision, w.desired("pve1").Revision)
}

// TestAFileThatIsBeingWritten is not served: what was served before stands.
func TestAFileThatIsBeingWritten(t *testing.T) {
	w := newWorld(t)
	w.setClock(0)
	w.write(web, "pve1", "web.yaml")
	require.Equal(t, 503, w.call("GET", hub.Path("pve1", hub.PathDesired), "").StatusCode)
	w.setClock(time.Minute)
	before := w.desired("pve1")
	w.setClock(0)
	w.write("half of", "pve1", "web.yaml")
	require.Equal(t, before, w.desired("pve1"))
	w.setClock(time.Minute)
	require.Equal(t, "half of", w.desired("pve1").Sets["web"])
	w.setClock(-time.Hour)
	require.Equal(t, "half of", w.desired("pve1").Sets["web"], "a clock that was set back holds nothing up")
}

// TestASetThatIsBeingReplaced is away for a moment, as with git checkout, rm and
// cp, and an editor that keeps a backup: it is not withdrawn.
func TestASetThatIsBeingReplaced(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(web, "pve1", "db.yaml")
	w.write("payload", "pve1", "operations", "1.json")
	w.write("signature", "pve1", "operations", "1.json.sig")
	relayed := func() string { return bodyOf(t, w.call("GET", hub.Path("pve1", hub.PathOperations), "")) }
	before, operations := w.desired("pve1"), relayed()
	at := func(elem ...string) string { return filepath.Join(append([]string{w.dir, "pve1"}, elem...)...) }
	for name, away := range map[string]func() error{
		"a backup": func() error { return os.Rename(at("web.yaml"), at("web.yaml~")) },
		"a copy":   func() error { return os.Remove(at("db.yaml")) },
		"a list":   func() error { return os.RemoveAll(at("operations")) },
	} {
		w.setClock(0)
		require.NoError(t, away())
		require.Equal(t, before, w.desired("pve1"), name)
		require.Equal(t, operations, relayed(), name)
		fresh := must.Get(New(Config{Dir: w.dir, Listen: "127.0.0.1:0", Now: w.now, Logger: w.hub.Logger}))(t)
		require.Equal(t, 503, do(fresh, "GET", hub.Path("pve1", hub.PathDesired), "").StatusCode, "%s: nor by a hub that was just started", name)
		require.NoError(t, fresh.root.Close())
		w.write(web, "pve1", "web.yaml")
		w.write(web, "pve1", "db.yaml")
		w.write("payload", "pve1", "operations", "1.json")
		w.write("signature", "pve1", "operations", "1.json.sig")
		w.setClock(time.Minute)
		require.Equal(t, before, w.desired("pve1"), name)
	}
	require.NoError(t, os.Remove(at("web.yaml")))
	require.NoError(t, os.RemoveAll(at("operations")))
	require.NotContains(t, w.desired("pve1").Sets, "web", "what stays away is withdrawn")
	require.NotEqual(t, operations, relayed())
}

func TestWhatIsNotServed(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(web, "outside.yaml")
	for _, host := range []string{"pve3", "..", ".", "pve1/..", "outside.yaml", ".hidden", strings.Repeat("x", 300)} {
		for _, what := range []string{hub.PathDesired, hub.PathOperations, hub.PathReport} {
			require.Equal(t, 404, w.call("GET", hub.Path(strings.ReplaceAll(host, "..", "%2e%2e"), what), "").StatusCode, "%s %s", host, what)
		}
		require.Error(t, w.hub.Documents.Has(t.Context(), host))
	}
	w.write(web, "twice", "a.yaml")
	w.write(web, "twice", "a.yml")
	require.Equal(t, 409, w.call("GET", hub.Path("twice", hub.PathDesired), "").StatusCode)
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "linked"), 0o700))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(w.dir, "linked", "a.yaml")))
	require.Equal(t, 403, w.call("GET", hub.Path("linked", hub.PathDesired), "").StatusCode)
	require.NoError(t, os.Symlink("pve1", filepath.Join(w.dir, "alias")))
	require.Equal(t, 404, w.call("GET", hub.Path("alias", hub.PathDesired), "").StatusCode)
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "large"), 0o700))
	f := must.Get(os.Create(filepath.Join(w.dir, "large", "a.yaml")))(t)
	require.NoError(t, f.Truncate(2<<30))
	require.NoError(t, f.Close())
	require.Equal(t, 413, w.call("GET", hub.Path("large", hub.PathDesired), "").StatusCode)
	for _, method := range []string{"PUT", "DELETE", "PATCH"} {
		require.Equal(t, 405, w.call(method, hub.Path("pve1", hub.PathDesired), "").StatusCode)
	}
}

func TestOperations(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	get := func() []api.Envelope {
		r := w.call("GET", hub.Path("pve1", hub.PathOperations), "")
		require.Equal(t, 200, r.StatusCode)
		return must.Get(hub.DecodeOperations([]byte(bodyOf(t, r)), "pve1"))(t)
	}
	require.Empty(t, get(), "no directory, no operations")
	w.write("payload 1", "pve1", "operations", "1.json")
	require.Empty(t, get(), "nobody signed it")
	w.write("sig alice", "pve1", "operations", "1.json.sig")
	w.write("sig bob", "pve1", "operations", "1.json.bob.sig")
	w.write("payload 10", "pve1", "operations", "10.json")
	w.write("sig 10", "pve1", "operations", "10.json.sig")
	w.write("x", "pve1", "operations", "lost.json.sig")
	require.Equal(t, []api.Envelope{api.EnvelopeOf([]byte("payload 1"), "sig bob", "sig alice"),
		api.EnvelopeOf([]byte("payload 10"), "sig 10")}, get())
}

func TestReports(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	path := hub.Path("pve1", hub.PathReport)
	require.Equal(t, 404, w.call("GET", path, "").StatusCode)
	first := hub.Report{Gate: "g", Seq: 2, StartedAt: time.Unix(1, 0), Revision: "two"}
	require.Equal(t, 204, w.report("pve1", first).StatusCode)
	old := first
	old.Seq, old.Revision = 1, "one"
	require.Equal(t, 204, w.report("pve1", old).StatusCode)
	require.Contains(t, bodyOf(t, w.call("GET", path, "")), `"revision":"two"`, "a late one is not the last")
	first.StartedAt, first.Seq = time.Unix(0, 0), 9
	require.Equal(t, 409, w.report("pve1", first).StatusCode, "an older daemon")
	require.Contains(t, bodyOf(t, w.call("GET", path, "")), `"revision":"two"`)
	anew := hub.Report{Gate: "g", Seq: 1, StartedAt: time.Unix(2, 0), Revision: "three"}
	require.Equal(t, 204, w.report("pve1", anew).StatusCode)
	require.Contains(t, bodyOf(t, w.call("GET", path, "")), `"revision":"three"`)

	first.Gate = "h"
	require.Equal(t, 204, w.report("pve1", first).StatusCode, "another gate took its place")
	anew.Gate, anew.StartedAt = "h", w.now().Add(time.Hour)
	require.Equal(t, 204, w.report("pve1", anew).StatusCode)
	anew.StartedAt = w.now().Add(-time.Hour)
	require.Equal(t, 204, w.report("pve1", anew).StatusCode, "the one before had a wrong clock")

	for _, c := range []struct {
		path, body, kind string
		want             int
	}{
		{path, "{}", "application/json", 409}, {path, `{"host":"pve2"}`, "application/json", 409}, {path, "", "application/json", 400},
		{path, `{"host":"pve1"}`, "text/plain", 400}, {path, `{"host":"pve1"}`, "", 400}, {path, strings.Repeat(" ", hub.MaxReport+1), "application/json", 413},
		{hub.Path("nobody", hub.PathReport), `{"host":"nobody"}`, "application/json", 404},
	} {
		require.Equal(t, c.want, w.call("POST", c.path, c.body, "Content-Type", c.kind).StatusCode, "%.50s", c.body)
	}
	require.Contains(t, bodyOf(t, w.call("GET", path, "")), `"revision":"three"`)
}

func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	for _, host := range []string{"localhost:1", "[::1]:1", "127.0.0.9"} {
		require.Equal(t, 200, w.call("GET", "/", "", "Host", host).StatusCode, host)
	}
	require.Equal(t, 403, w.call("GET", "/", "", "Host", "evil.example.com").StatusCode, "a name that somebody made stand for this machine")

	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	h := must.Get(New(Config{Dir: w.dir, Listen: "127.0.0.1:0", TokenFile: token, Now: w.now, Logger: w.hub.Logger}))(t)
	defer h.root.Close()
	for _, path := range []string{"/", hub.Path("pve1", hub.PathDesired), hub.Path("pve1", hub.PathReport)} {
		for _, auth := range []string{"", "Bearer", "Bearer wrong", "Bearer 0123456789abcdef ", "bearer 0123456789abcdef", "Basic OjAx"} {
			r := do(h, "GET", path, "", "Authorization", auth)
			require.Equal(t, 401, r.StatusCode, "%s %q", path, auth)
			require.NotEmpty(t, r.Header.Get("WWW-Authenticate"))
		}
	}
	require.Equal(t, 200, do(h, "GET", "/", "", "Authorization", "Bearer 0123456789abcdef").StatusCode)
	require.Equal(t, 200, do(h, "GET", "/", "", "Authorization", "Basic Z2F0ZWQ6MDEyMzQ1Njc4OWFiY2RlZg==").StatusCode)
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef"), 0o600))
	for name, c := range map[string]Config{
		"everywhere":            {Dir: dir, Listen: "0.0.0.0:0"},
		"every address":         {Dir: dir, Listen: ":0"},
		"a name":                {Dir: dir, Listen: "hub.example.com:1"},
		"without a token":       {Dir: dir, Listen: "0.0.0.0:0", Cert: "c", Key: "k"},
		"without a certificate": {Dir: dir, Listen: "0.0.0.0:0", TokenFile: token},
		"half a pair":           {Dir: dir, Listen: "127.0.0.1:0", Cert: "c"},
		"no port":               {Dir: dir, Listen: "127.0.0.1"},
		"no directory":          {Dir: filepath.Join(dir, "none"), Listen: "127.0.0.1:0"},
		"a file":                {Dir: token, Listen: "127.0.0.1:0"},
		"no token":              {Dir: dir, Listen: "127.0.0.1:0", TokenFile: filepath.Join(dir, "none")},
	} {
		must.Fail(New(c))(t, refusal.BadParams, name)
	}
}

func TestThePage(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(web, "<b>", "web.yaml")
	page := func() string {
		r := w.call("GET", "/", "")
		require.Equal(t, 200, r.StatusCode)
		require.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		return bodyOf(t, r)
	}
	require.Contains(t, page(), "no report yet")
	revision := w.desired("pve1").Revision
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := hub.Report{Revision: revision, Sets: []hub.SetReport{{Name: "web", Guests: 1, Waiting: 1}},
		Guests:     []hub.GuestReport{{Set: "web", Name: "<script>alert(1)</script>", State: "waiting", Request: "j1.1", Since: &since, Why: "\u202e"}},
		Operations: []hub.OperationReport{{Op: "guest.destroy", Target: "guest/a", Code: refusal.Replayed, Detail: `"><img>`}}}
	w.report("pve1", r)
	text := page()
	require.Contains(t, text, "not converged")
	require.Contains(t, text, "2026-03-01T12:00:00Z")
	require.Contains(t, text, "&lt;script&gt;")
	require.Contains(t, text, "&lt;b&gt;")
	for _, raw := range []string{"<script", "<img", "<b>", "\u202e"} {
		require.NotContains(t, text, raw)
	}
	r.Seq, r.Sets[0].Waiting, r.Sets[0].Converged, r.Guests = 1, 0, 1, nil
	w.report("pve1", r)
	require.Contains(t, page(), `class="ok">converged`)
	w.write(web+"#\n", "pve1", "web.yaml")
	require.Contains(t, page(), "has another revision")
	r.Seq, r.Error = 2, &api.Error{Code: refusal.Malformed, Detail: "web:1:1: broken"}
	w.report("pve1", r)
	require.Contains(t, page(), "does not take it")
	require.Contains(t, page(), "web:1:1: broken")
	for range maxRows + 50 {
		r.Guests = append(r.Guests, hub.GuestReport{Name: "g"})
	}
	r.Seq, r.GuestsLeftOut = 3, 7
	w.report("pve1", r)
	require.Contains(t, page(), "57 more rows")
}

// changed is a store whose report of one host was changed in the database, or is of a hub of another version.
type changed struct {
	hubstate.Store
	host string
	code refusal.Code
}

func (c changed) Report(ctx context.Context, host string) (*hubstate.Told, error) {
	if host == c.host {
		return nil, refusal.New(c.code, "<the report of %s>", host)
	}
	return c.Store.Report(ctx, host)
}

// TestThePageWithoutOneReport: one host's report that cannot be read takes the page from no other host. A database that is
// away is no page at all.
func TestThePageWithoutOneReport(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"pve1", "pve2"} {
		w.write(web, host, "web.yaml")
	}
	require.Equal(t, 204, w.report("pve2", hub.Report{Revision: "r7"}).StatusCode)
	was := w.hub.Store
	w.hub.Store = changed{was, "pve1", refusal.Internal}
	r := w.call("GET", "/", "")
	require.Equal(t, 200, r.StatusCode)
	text := bodyOf(t, r)
	require.Contains(t, text, "cannot be read")
	require.Contains(t, text, "&lt;the report of pve1&gt;")
	require.Contains(t, text, "r7")
	w.hub.Store = changed{was, "pve1", refusal.Unavailable}
	require.Equal(t, 503, w.call("GET", "/", "").StatusCode)
}
