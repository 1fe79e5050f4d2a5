package hubserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// sendHead sends a head as a gate does.
func (w *world) sendHead(h hub.Head) *http.Response {
	w.t.Helper()
	return w.call("POST", hub.Path(h.Host, hub.PathHead), string(must.Get(api.Encode(h))(w.t)), "Content-Type", "application/json")
}

// TestHeads: the hub says what it keeps, takes what goes on from there, and shows what does not.
func TestHeads(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	kept := func() int64 {
		r := w.call("GET", hub.Path("pve1", hub.PathHead)+"?gate="+string(statetest.GateID), "")
		require.Equal(t, 200, r.StatusCode)
		return must.Get(hub.DecodeKept([]byte(bodyOf(t, r)), statetest.GateID))(t)
	}
	heads := func() []string {
		r := w.call("GET", "/v1/heads/"+string(statetest.GateID), "")
		if r.StatusCode == 404 {
			return nil
		}
		require.Equal(t, linesType, r.Header.Get("Content-Type"))
		return strings.Split(strings.TrimSuffix(bodyOf(t, r), "\n"), "\n")
	}
	require.Zero(t, kept())
	require.Empty(t, heads())
	l := statetest.NewLog(t, statetest.GateID)
	l.Add(t, "one", "two")
	require.Equal(t, 204, w.sendHead(l.Head(t, "pve1", 0)).StatusCode)
	require.Equal(t, int64(2), kept())
	other := statetest.NewLog(t, statetest.GateID)
	other.Key = l.Key
	other.Add(t, "one")
	shorter := other.Head(t, "pve1", 2)
	l.Add(t, "three")
	require.Equal(t, 409, w.sendHead(l.Head(t, "pve1", 1)).StatusCode, "it goes on from another size")
	require.Equal(t, 204, w.sendHead(l.Head(t, "pve1", 2)).StatusCode)
	require.Len(t, heads(), 1)

	shorter.From = 3
	r := w.sendHead(shorter)
	require.Equal(t, hub.StatusContradicts, r.StatusCode)
	text := bodyOf(t, r)
	require.Contains(t, text, `"code":"binding_mismatch"`)
	require.Contains(t, text, "was cut, rewritten or rolled back: entries are missing that it had")
	require.Contains(t, text, "gated restore, which gives it a new id")
	require.Equal(t, int64(3), kept())
	require.Len(t, heads(), 2)
	require.True(t, must.Get(witness.ParseRecord([]byte(heads()[1])))(t).Contradiction())
	page := bodyOf(t, w.call("GET", "/", ""))
	require.Contains(t, page, "audit logs that do not go on")
	require.Contains(t, page, "entries are missing that it had")

	unsigned := l.Head(t, "pve1", 3)
	unsigned.Note = strings.Replace(unsigned.Note, "\n3\n", "\n4\n", 1)
	for _, c := range []struct {
		host, body string
		want       int
	}{
		{"pve1", string(must.Get(api.Encode(unsigned))(t)), 403}, {"pve1", "{}", 400}, {"pve1", "nonsense", 400},
		{"pve2", string(must.Get(api.Encode(l.Head(t, "pve2", 3)))(t)), 404}, {"pve1", string(must.Get(api.Encode(l.Head(t, "pve2", 3)))(t)), 409},
		{"pve1", strings.Repeat(" ", hub.MaxHead+1), 413},
	} {
		require.Equal(t, c.want, w.call("POST", hub.Path(c.host, hub.PathHead), c.body, "Content-Type", "application/json").StatusCode, "%.60s", c.body)
	}
	for _, path := range []string{"/v1/heads/x", hub.Path("pve1", hub.PathHead), hub.Path("pve1", hub.PathHead) + "?gate=x"} {
		require.Equal(t, 422, w.call("GET", path, "").StatusCode, path)
	}
}

// TestTheQueue: pages and filters, and what is refused.
func TestTheQueue(t *testing.T) {
	w := newWorld(t)
	for h := range 3 {
		host := fmt.Sprintf("pve%d", h)
		w.write(web, host, "web.yaml")
		require.Equal(t, 204, w.report(host, hub.Report{Gate: statetest.GateID, Requests: []api.FleetRequest{
			statetest.Request(h, "j1.1", "guest.destroy"), statetest.Request(h+10, "j2.1", "guest.stop")}}).StatusCode)
	}
	ask := func(query string) (ids []string, next string) {
		r := w.call("GET", "/v1/queue"+query, "")
		require.Equal(t, 200, r.StatusCode, query)
		var page api.FleetQueue
		require.NoError(t, api.DecodeAnswer([]byte(bodyOf(t, r)), &page))
		for _, q := range page.Requests {
			ids = append(ids, q.Host+" "+q.Request)
		}
		return ids, page.Next
	}
	whole, next := ask("")
	require.Equal(t, []string{"pve0 j1.1", "pve1 j1.1", "pve2 j1.1", "pve0 j2.1", "pve1 j2.1", "pve2 j2.1"}, whole)
	require.Empty(t, next)
	first, next := ask("?limit=4")
	rest, last := ask("?limit=4&after=" + next)
	require.Equal(t, whole, append(first, rest...))
	require.Empty(t, last)
	ids, _ := ask("?host=pve1&op=guest.stop")
	require.Equal(t, []string{"pve1 j2.1"}, ids)
	for _, query := range []string{"?host=%zz", "?host=pve1;op=guest.stop", "?limit=0", "?limit=1001", "?limit=x", "?after=x", "?who=me", "?host=a&host=b"} {
		require.Equal(t, 422, w.call("GET", "/v1/queue"+query, "").StatusCode, query)
	}
}

// TestThePlaceOfALongRequest: each page of the queue has a next one, whatever a report calls its requests. Otherwise a program
// with one host's token would hide what waits behind its own rows.
func TestThePlaceOfALongRequest(t *testing.T) {
	w := newWorld(t)
	host := strings.Repeat("h", 253)
	w.write(web, host, "web.yaml")
	asked := 0
	for _, n := range []int{64, 65, 1024} {
		requests := []api.FleetRequest{statetest.Request(1, strings.Repeat("j", n), "guest.destroy"), statetest.Request(2, "j1.1", "guest.destroy")}
		if w.report(host, hub.Report{Gate: statetest.GateID, Seq: int64(n), Requests: requests}).StatusCode != 204 {
			continue
		}
		asked++
		r := w.call("GET", "/v1/queue?limit=1", "")
		var page api.FleetQueue
		require.NoError(t, api.DecodeAnswer([]byte(bodyOf(t, r)), &page))
		require.Equal(t, 200, w.call("GET", "/v1/queue?after="+page.Next, "").StatusCode, "%d bytes", n)
	}
	require.Equal(t, 1, asked, "longer ids are no gate's")
}

// TestReaders: their token reads what people look at. It is no gate's.
func TestReaders(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		return path
	}
	const gates, readers = "0123456789abcdef", "reader-reader-reader"
	c := Config{Dir: w.dir, Listen: "127.0.0.1:0", TokenFile: file("token", gates), ReaderFile: file("readers", readers), Now: w.now, Logger: w.hub.Logger}
	h := must.Get(New(c))(t)
	defer h.root.Close()
	for path, want := range map[string]int{"/": 200, "/v1/queue": 200, "/v1/heads/" + string(statetest.GateID): 404, hub.Path("pve1", hub.PathDesired): 403,
		hub.Path("pve1", hub.PathOperations): 403, hub.Path("pve1", hub.PathReport): 403, hub.Path("pve1", hub.PathHead): 403} {
		require.Equal(t, want, do(h, "GET", path, "", "Authorization", "Bearer "+readers).StatusCode, path)
		require.NotEqual(t, 403, do(h, "GET", path, "", "Authorization", "Bearer "+gates).StatusCode, path)
	}
	for _, what := range []string{hub.PathReport, hub.PathHead} {
		require.Equal(t, 403, do(h, "POST", hub.Path("pve1", what), `{"host":"pve1"}`, "Authorization", "Bearer "+readers, "Content-Type", "application/json").StatusCode)
	}
	for _, path := range []string{"/v1/heads/../hosts/pve1/desired", "/v1/heads/%2e%2e/hosts/pve1/desired", "/v1/queue/../hosts/pve1/desired"} {
		require.Contains(t, []int{403, 404}, do(h, "GET", path, "", "Authorization", "Bearer "+readers).StatusCode, path)
	}
	require.Equal(t, 401, do(h, "GET", "/", "", "Authorization", "Bearer "+readers+"x").StatusCode)
	c.ReaderFile = c.TokenFile
	must.Err(New(c))(t, "one token for both")
	c.ReaderFile, c.TokenFile = file("readers", readers), ""
	must.Err(New(c))(t, "readers alone")
}

// TestHostTokens: the token of one host is for the calls of that host alone.
func TestHostTokens(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(strings.ReplaceAll(web, "pve1", "pve2"), "pve2", "web.yaml")
	file := filepath.Join(t.TempDir(), "token")
	const gates = "0123456789abcdef"
	require.NoError(t, os.WriteFile(file, []byte(gates+"\n"), 0o600))
	h := must.Get(New(Config{Dir: w.dir, Listen: "127.0.0.1:0", TokenFile: file, Now: w.now, Logger: w.hub.Logger}))(t)
	defer h.root.Close()
	own := HostToken(gates, "pve1")
	require.NoError(t, os.WriteFile(file, []byte(own+"\n"), 0o600))
	require.Equal(t, own, must.Get(ownfile.ReadToken(file))(t), "a gate can read it")
	ask := func(token, method, path string) int {
		return do(h, method, path, `{"host":"pve1"}`, "Authorization", "Bearer "+token, "Content-Type", "application/json").StatusCode
	}
	require.Equal(t, 204, ask(own, "POST", hub.Path("pve1", hub.PathReport)))
	for _, host := range []string{"pve1", "pve2"} {
		require.Equal(t, 200, ask(gates, "GET", hub.Path(host, hub.PathDesired)), "a fleet with one token for all goes on after an upgrade")
	}
	for _, what := range []string{hub.PathDesired, hub.PathOperations, hub.PathReport} {
		require.Equal(t, 200, ask(own, "GET", hub.Path("pve1", what)), what)
		require.Equal(t, 401, ask(own, "GET", hub.Path("pve2", what)), what)
	}
	for _, what := range []string{hub.PathReport, hub.PathHead} {
		require.Equal(t, 401, ask(own, "POST", hub.Path("pve2", what)), what)
	}
	for _, path := range []string{"/", "/v1/queue", "/v1/heads/" + string(statetest.GateID), "/v1/hosts/pve1", "/v1/hosts/pve1/../pve2/desired",
		"/v1/hosts/pve1%2f..%2fpve2/desired", "/v1/hosts/pve1/x/desired", "//v1/hosts/pve1/desired"} {
		require.Equal(t, 401, ask(own, "GET", path), path)
	}
	require.Equal(t, 401, ask(HostToken(own, "pve1"), "GET", hub.Path("pve1", hub.PathDesired)), "no token makes others but the gates'")
	require.Equal(t, 401, ask(HostToken(gates, ""), "GET", "/v1/hosts//desired"))
	require.Equal(t, "OYMHo22DeQ-FP4LZswmPu4kVCkkFBgEU6KnQVEx-QkI", own, "as gates out there have it")
}

// TestCallsThatDoNotEnd: a host that holds its calls open takes no other host's place, and has its own back afterwards.
func TestCallsThatDoNotEnd(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"pve1", "pve2"} {
		w.write(strings.ReplaceAll(web, "pve1", host), host, "web.yaml")
	}
	handler := w.hub.Handler()
	var running sync.WaitGroup
	var bodies []*io.PipeWriter
	for range maxHostCalls {
		read, write := io.Pipe()
		r := httptest.NewRequest("POST", hub.Path("pve1", hub.PathReport), read)
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		running.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), r) })
		must.Get(write.Write([]byte("{")))(t) // it is read, so the call has its place
		bodies = append(bodies, write)
	}
	require.Equal(t, 503, w.call("GET", hub.Path("pve1", hub.PathDesired), "").StatusCode)
	require.Equal(t, 200, w.call("GET", hub.Path("pve2", hub.PathDesired), "").StatusCode)
	require.Equal(t, 204, w.report("pve2", hub.Report{Revision: strings.Repeat("r", 1000), Guests: make([]hub.GuestReport, 500), Operations: make([]hub.OperationReport, 500)}).StatusCode,
		"a large body of another host has its turn")
	require.Equal(t, 200, w.call("GET", "/v1/queue", "").StatusCode)
	for _, body := range bodies {
		require.NoError(t, body.Close())
	}
	running.Wait()
	require.Equal(t, 200, w.call("GET", hub.Path("pve1", hub.PathDesired), "").StatusCode)
	require.Empty(t, w.hub.of)
}

// TestThePageBeginsWithWhatWaits, of every host and the oldest first; a host where a request waits is not green.
func TestThePageBeginsWithWhatWaits(t *testing.T) {
	w := newWorld(t)
	page := func() string { return bodyOf(t, w.call("GET", "/", "")) }
	done := []hub.SetReport{{Name: "web", Guests: 1, Converged: 1}}
	for _, host := range []string{"pve1", "pve2"} {
		w.write(web, host, "web.yaml")
		w.report(host, hub.Report{Revision: w.desired(host).Revision, Sets: done})
	}
	require.Equal(t, 2, strings.Count(page(), `class="ok">converged`))
	require.NotContains(t, page(), "waits for signatures")
	young, old := statetest.Request(2, "j2.1", "guest.destroy"), statetest.Request(1, "j7.1", "guest.wipe")
	old.Reason, young.CreatedAt, old.CreatedAt = "<script>", w.hub.Now().Add(-59*time.Minute), w.hub.Now().Add(-26*time.Hour)
	w.report("pve1", hub.Report{Seq: 1, Revision: w.desired("pve1").Revision, Sets: done, Requests: []api.FleetRequest{young}, RequestsLeftOut: 6})
	w.report("pve2", hub.Report{Seq: 1, Revision: w.desired("pve2").Revision, Sets: done, Requests: []api.FleetRequest{old}})
	text := page()
	places := []int{strings.Index(text, "waits for signatures"), strings.Index(text, "<td>26h</td><td>pve2</td><td>j7.1</td><td>guest.wipe</td>"),
		strings.Index(text, "<td>59m</td><td>pve1</td><td>j2.1</td><td>guest.destroy</td>"), strings.Index(text, "and 6 more"), strings.Index(text, "<th>served</th>")}
	require.True(t, slices.IsSorted(places) && places[0] > 0, "%v", places)
	require.NotContains(t, text, "<script>")
	require.NotContains(t, text, `class="ok">converged`)
	require.Contains(t, text, `class="wait">converged; requests that wait: 7`)
	require.Contains(t, text, `class="wait">converged; requests that wait: 1`)

	w.hub.Store = noQueue{w.hub.Store}
	text = page()
	require.Contains(t, text, "&lt;the queue&gt;")
	require.Contains(t, text, "<td>pve1</td>", "the hosts are shown all the same")
}

// noQueue is a store in which somebody changed a row of the queue.
type noQueue struct{ hubstate.Store }

func (noQueue) Queue(context.Context, hubstate.Query) (api.FleetQueue, error) {
	return api.FleetQueue{}, refusal.New(refusal.Internal, "<the queue>")
}

// TestManyHostsOnSeveralPages: the page goes on after its last host.
func TestManyHostsOnSeveralPages(t *testing.T) {
	w := newWorld(t)
	for h := range pageHosts + 1 {
		w.write(web, fmt.Sprintf("pve%03d", h), "web.yaml")
	}
	page := bodyOf(t, w.call("GET", "/", ""))
	require.Contains(t, page, `<a href="/?after=pve199">more hosts</a>`)
	require.NotContains(t, page, "pve200")
	page = bodyOf(t, w.call("GET", "/?after=pve199", ""))
	require.Contains(t, page, "pve200")
	require.NotContains(t, page, "more hosts")
}

// TestPublish: what a directory has goes into a database as a hub over it would serve it. A host that cannot be read is told.
func TestPublish(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	w.write(web, "twice", "a.yaml")
	w.write(web, "twice", "a.yml")
	got := map[string]string{}
	require.NoError(t, Publish(t.Context(), w.dir, func() time.Time { return time.Now().Add(time.Minute) }, func(_ context.Context, host string, desired, operations hubstate.Document) (bool, error) {
		got[host] = string(desired.Body) + string(operations.Body)
		return true, nil
	}, func(host string, changed bool, err error) error {
		require.Equal(t, host == "pve1", changed)
		require.Equal(t, host == "twice", err != nil)
		return nil
	}))
	require.Equal(t, map[string]string{"pve1": bodyOf(t, w.call("GET", hub.Path("pve1", hub.PathDesired), "")) +
		bodyOf(t, w.call("GET", hub.Path("pve1", hub.PathOperations), ""))}, got)
	must.Err(0, Publish(t.Context(), filepath.Join(w.dir, "nowhere"), time.Now, nil, nil))(t)
}
