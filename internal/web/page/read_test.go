package page

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// hostile is text that wants to be more than text.
const hostile = "</p><script>alert(1)</script> javascript:alert(2) \" onmouseover=\"alert(3) \u202egnp\nneeds nobody  x"

// plain checks that a page has no markup but its own: two scripts at most, both files of these pages, links to these pages
// alone, and no character that would not show as it is.
func plain(t *testing.T, page string) {
	t.Helper()
	for _, tag := range regexp.MustCompile(`(?i)<script[^>]*>`).FindAllString(page, -1) {
		require.Contains(t, []string{`<script type="module" src="/page.js">`, `<script type="module" src="/launch.js">`}, tag)
	}
	for _, link := range regexp.MustCompile(`(?i)\s(?:href|src|action)=("[^"]*"|\S*)`).FindAllStringSubmatch(page, -1) {
		require.Regexp(t, `^"(/|#main")`, link[1])
	}
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, `""`)
	for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(bare, -1) {
		require.NotRegexp(t, `(?i)\s(on[a-z]+|style)\s*=`, tag)
	}
	require.NotContains(t, page, "\u202e")
	require.NotContains(t, page, "needs nobody\n")
	require.NotRegexp(t, `(?m)^needs nobody`, page, "a line of its own")
}

func (p *person) page(status int, path string) string {
	p.c.t.Helper()
	got, b := p.get(path)
	require.Equal(p.c.t, status, got, "%s: %s", path, b)
	plain(p.c.t, string(b))
	return string(b)
}

// hostileRequest says of a request everything in words that want to be more.
func hostileRequest(_ *op.Payload, r *api.Request) {
	r.RequestedBy, r.Why, r.Detail = []string{hostile}, hostile, hostile
	r.Users = api.Users{hostile: hostile, "uid:1000": hostile}
	r.Reasons = []api.Reason{{By: hostile, Text: hostile}, {By: "uid:1000", Text: "no longer needed"}}
	r.Facts = []op.Fact{{Name: hostile, Text: hostile}, {Name: "files", Text: "3\n<b>4</b>"}}
	r.Labels = map[string]string{hostile: hostile}
	r.Signatures = []api.Signature{{Principal: hostile, Role: op.Role(hostile), Fingerprint: hostile, Origin: hostile}}
	r.Demands = append(r.Demands, api.Demand{Rule: hostile, Roles: []op.Role{op.Role(hostile)}, Threshold: 1, Could: []string{hostile}})
	r.TimesRejected, r.Rejections = 1, []api.Rejection{{Request: hostile, By: []string{hostile}, RequestedBy: []string{hostile}, Words: hostile}}
	r.Owed = []string{hostile}
}

// Nothing that a gate, a caller or an agent says is markup, on any page.
func TestNoTextIsMarkup(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.wait(t, "j1.1", hostileRequest)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	job := api.Job{ID: "j1", State: op.State(hostile), RequestedBy: []string{hostile}, Reason: hostile, Error: &api.Error{Code: "x", Detail: hostile, Hint: hostile},
		Steps: []api.Step{{ID: hostile, Op: hostile, Target: hostile, Params: op.Params{"a": "<script>alert(1)</script>"}, Why: hostile, Detail: hostile, Output: hostile,
			Error: &api.Error{Detail: hostile}}}}
	guest := api.Guest{Name: hostile, State: hostile, Labels: map[string]string{hostile: hostile}, Facts: []op.Fact{{Name: hostile, Text: hostile}},
		Snapshots: []string{hostile}, Backups: []string{hostile}, Disks: []api.Disk{{Name: hostile}}, Backend: hostile, Error: &api.Error{Detail: hostile},
		Trash: []api.Trashed{{Incarnation: hostile, Until: at}}, Destroy: &api.Verdict{Why: hostile}, Provenance: &api.Provenance{Creator: hostile, Agent: hostile}}
	c.gate.change(func() {
		c.gate.also = map[string]any{
			"/v1/health":   api.HealthReport{Checks: []api.HealthCheck{{Name: hostile, State: hostile, Detail: hostile}}},
			"/v1/backends": api.BackendList{Backends: []api.Backend{{Name: hostile, State: hostile, Detail: hostile, Findings: []api.Finding{{What: hostile}}}}},
			"/v1/jobs":     api.JobList{Jobs: []api.Job{}},
			"/v1/jobs/j1":  job,
			"/v1/guests":   api.GuestList{Guests: []api.Guest{guest}}, "/v1/guests/web-1": guest,
			"/v1/agents": api.AgentList{Agents: []api.Agent{{Name: hostile, ID: hostile, Bound: hostile, User: hostile}}},
			"/v1/reservations": api.ReservationList{Reservations: []api.Reservation{{ID: hostile, Scope: hostile, Patterns: []string{hostile}, Mode: hostile,
				Agent: hostile, User: hostile, Reason: hostile}}},
		}
		c.gate.log = []api.Entry{logged(t, 1, hostile)}
	})
	c.caught()
	for _, path := range []string{"/", "/?gate=%22%3E%3Cscript%3E&op=%3Cb%3E&page=x", "/gates", "/g/pve1/", "/g/pve1/r/j1.1", "/g/pve1/jobs", "/g/pve1/jobs/j1",
		"/g/pve1/guests", "/g/pve1/guests/web-1", "/g/pve1/agents", "/g/pve1/log"} {
		page := alice.page(http.StatusOK, path)
		require.Contains(t, page, `<html lang="en">`)
		require.Equal(t, 1, strings.Count(page, "<h1"), path)
	}
	require.Contains(t, alice.page(http.StatusOK, "/g/pve1/r/j1.1"), `&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;`)
	alice.page(http.StatusNotFound, "/%3Cscript%3Ealert(1)%3C/script%3E")
	alice.page(http.StatusNotFound, "/g/%3Cscript%3E/")
}

// logged is an entry of an audit log that says the same in all of its words.
func logged(t *testing.T, seq int, words string) api.Entry {
	raw := must.Get(json.Marshal(map[string]any{"seq": seq, "time": "2026-01-02T03:04:05Z", "kind": words, "by": words, "job": "j1", "step": words,
		"op": words, "target": words, "class": words, "code": words, "detail": words, "signers": []string{words}, "keys": []string{words},
		"reservation": words, "holder": words, "patterns": []string{words}, "count": 2}))(t)
	return must.Get(api.ParseEntry(raw))(t)
}

// The log is shown from its end, a page of a hundred entries after the other.
func TestTheLogsPages(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.change(func() {
		c.gate.seq = 250
		for i := range 251 {
			c.gate.log = append(c.gate.log, logged(t, i+1, "rotated"))
		}
	})
	c.caught()
	var seen []string
	for path := "/g/pve1/log"; path != ""; {
		page := alice.page(http.StatusOK, path)
		for _, m := range regexp.MustCompile(`<th scope="row">(\d+)</th>`).FindAllStringSubmatch(page, -1) {
			seen = append(seen, m[1])
		}
		path = ""
		if next := regexp.MustCompile(`<a href="([^"]*)" rel="next">`).FindStringSubmatch(page); next != nil {
			path = next[1]
		}
	}
	require.Len(t, seen, 251)
	require.Equal(t, []string{"251", "250", "1"}, []string{seen[0], seen[1], seen[250]})
	require.Contains(t, alice.page(http.StatusOK, "/g/pve1/log?to=51"), `<a href="/g/pve1/log?to=151" rel="prev">Newer</a>`)
}

// A request's page begins with what it does and whether that can be undone, and says whose words are whose.
func TestARequestsPage(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.wait(t, "j1.1", func(_ *op.Payload, r *api.Request) { r.Facts = []op.Fact{{Name: "files", Text: "1204"}} })
	c.gate.wait(t, "j2.1", func(_ *op.Payload, r *api.Request) {
		r.Facts = []op.Fact{{Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"}}
	})
	c.caught()
	page := alice.page(http.StatusOK, "/g/pve1/r/j1.1")
	at := -1
	for _, part := range []string{"<h1><b>DESTROY</b> guest/web-1 <span>on pve1</span></h1>", `<strong class="lost">CANNOT BE UNDONE</strong>`,
		"What would be lost, as the gate saw it", "1204", "The requester&#39;s own words", "no longer needed", "<h2 id=\"sign-title\">", "data-decide",
		"opsign --socket ", " show j1.1", "The exact bytes", "SHA-256 <code", op.SHA256(c.gate.payloads["j1.1"])} {
		part = strings.ReplaceAll(part, "&#39;", "'")
		next := strings.Index(page[at+1:], part)
		require.GreaterOrEqual(t, next, 0, part)
		at += next
	}
	require.Contains(t, page, `data-live="pve1"`)
	require.Contains(t, page, `data-typed="web-1"`)
	page = alice.page(http.StatusOK, "/g/pve1/r/j2.1")
	require.NotContains(t, page, `class="lost"`)
	require.Contains(t, page, "can be undone until 2026-01-06T03:04:05Z")
	require.Contains(t, page, `data-typed=""`, "nobody types a name for what can be undone")
}

// A gate that shows one request and has another signed is refused, and there is no form to sign with.
func TestARequestAndItsBytesAreOne(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.wait(t, "j1.1", nil)
	c.gate.change(func() { c.gate.requests["j1.1"].Reason = "harmless" })
	c.caught()
	page := alice.page(http.StatusConflict, "/g/pve1/r/j1.1")
	require.Contains(t, page, "differ in reason")
	require.Contains(t, page, "sign nothing of this gate")
	require.NotContains(t, page, "data-decide")
}

// A thousand requests are ten pages of at most 200 KB, each request is on one of them, and the oldest come first.
func TestAThousandRequests(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	for i := range 1000 {
		c.gate.wait(t, fmt.Sprintf("j%d.1", i+1), func(p *op.Payload, r *api.Request) {
			p.Target.Name, p.Reason = fmt.Sprintf("web-%d", i), strings.Repeat(`<&">`, op.MaxReason/4)
			r.CreatedAt = r.CreatedAt.Add(time.Duration(i-2000) * time.Second)
			r.RequestedBy = []string{"agent:" + strings.Repeat("<", 200)}
			r.Facts = []op.Fact{{Name: "files", Text: strings.Repeat("&", 400)}, {Name: "bytes", Text: "38 GiB"}, {Name: "a", Text: "b"}, {Name: "c", Text: "d"}}
			r.Demands[0].Could = []string{"alice@example.com", "bob@example.com"}
		})
	}
	c.caught()
	seen := 0
	for path := "/"; path != ""; {
		page := alice.page(http.StatusOK, path)
		require.LessOrEqual(t, len(page), 200_000)
		for _, m := range regexp.MustCompile(`href="/g/pve1/r/j(\d+)\.1"`).FindAllStringSubmatch(page, -1) {
			seen++
			require.Equal(t, fmt.Sprint(seen), m[1])
		}
		path = ""
		if next := regexp.MustCompile(`<a href="([^"]*)" rel="next">`).FindStringSubmatch(page); next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	require.Equal(t, 1000, seen)
	require.Contains(t, alice.page(http.StatusOK, "/?page=99999999999"), "1000 of 1000")
	require.Contains(t, alice.page(http.StatusOK, "/?op=guest.wipe"), "Nothing waits that fits")
}

// The same operation with the same parameters is one group, at the place of its oldest request.
func TestGroups(t *testing.T) {
	of := func(gate, id, key string, at int64) row {
		return row{Gate: gate, ID: id, key: key, Since: time.Unix(at, 0)}
	}
	groups := grouped([]row{of("a", "j9.1", "restart", 5), of("a", "j1.1", "wipe", 1), of("a", "j2.1", "wipe", 3), of("b", "j1.1", "restart", 2),
		of("b", "j2.1", "stop", 4)})
	var out []string
	for _, g := range groups {
		text := fmt.Sprintf("%d/%d", g.Of, g.Hosts)
		for _, x := range g.Rows {
			text += " " + x.Gate + "/" + x.ID
		}
		out = append(out, text)
	}
	require.Equal(t, []string{"2/1 a/j1.1 a/j2.1", "2/2 b/j1.1 a/j9.1", "1/1 b/j2.1"}, out)
}

// A group says once what is the same in all of its rows, and each row how it differs. What was cut may differ.
func TestWhatAGroupShares(t *testing.T) {
	long := cut(strings.Repeat("x", 200), maxReason)
	g := group{Of: 2, Rows: []row{{Verb: "STOP", End: "loses no data", Lost: "files 1", Reason: long, By: "uid:1000"},
		{Verb: "STOP", End: "loses no data", Lost: "files 2", Reason: long, By: "uid:1000"}}}
	g.share()
	require.Equal(t, row{End: "loses no data", By: "uid:1000"}, g.Same)
	require.Equal(t, []row{{Lost: "files 1", Reason: long}, {Lost: "files 2", Reason: long}}, g.Rows)
}

// What a session may not read looks as if it were not there: a key that a rotation adds opens that request, and nothing else.
func TestWhatMayNotBeRead(t *testing.T) {
	c := newConsole(t)
	eve := c.person(c.device())
	c.gate.wait(t, "j1.1", nil)
	c.gate.wait(t, "j2.1", func(p *op.Payload, r *api.Request) {
		p.Op, p.Target = op.Rotate, op.Signers
		p.Params = op.Params{"add": []any{line(eve.device, "eve@example.com", op.Operational)}, "remove": []any{}, "epoch": int64(2)}
	})
	c.caught()
	eve.signIn()
	page := eve.page(http.StatusOK, "/")
	require.Contains(t, page, "/g/pve1/r/j2.1")
	require.NotContains(t, page, "j1.1")
	require.NotContains(t, page, "pve1</option>")
	require.NotContains(t, eve.page(http.StatusOK, "/gates"), "pve1")
	require.Contains(t, eve.page(http.StatusOK, "/g/pve1/r/j2.1"), "Adds eve@example.com operational")
	for _, path := range []string{"", "jobs", "jobs/j1", "guests", "guests/web-1", "log", "agents", "r/j1.1"} {
		there, missing := eve.page(http.StatusNotFound, "/g/pve1/"+path), eve.page(http.StatusNotFound, "/g/pve9/"+path)
		require.Equal(t, missing, strings.ReplaceAll(there, "pve1", "pve9"), path)
	}
}

// A gate that is away is said with why, on each page that would be about it, and the others go on.
func TestAGateThatIsAway(t *testing.T) {
	c := newConsoleOf(t, []client.KnownGate{{Address: client.UnixAddress("/nowhere/gated.sock"), Host: "pve2", Gate: gateID}},
		func(c *Config) { c.Local = true })
	operator := c.person(nil)
	status, _ := operator.post("/launch", map[string]string{"token": c.config.Wall.NewToken()})
	require.Equal(t, http.StatusOK, status)
	c.gate.wait(t, "j1.1", nil)
	c.caught()
	page := operator.page(http.StatusOK, "/")
	require.Contains(t, page, "1 gate away")
	require.Contains(t, page, "It has not answered yet.")
	require.Contains(t, page, "/g/pve1/r/j1.1")
	require.Contains(t, operator.page(http.StatusOK, "/gates"), `data-state="away"`)
	require.Contains(t, operator.page(http.StatusOK, "/g/pve2/"), "<strong>Away.</strong>")
	for _, path := range []string{"jobs", "guests", "guests/web-1", "log", "agents", "r/j1.1"} {
		page := operator.page(http.StatusServiceUnavailable, "/g/pve2/"+path)
		require.Contains(t, page, "The gate does not answer")
		require.Contains(t, page, "/nowhere/gated.sock")
	}
	require.Contains(t, operator.page(http.StatusNotFound, "/g/pve1/jobs/nonsense"), "is no job")
	require.Contains(t, operator.page(http.StatusNotFound, "/g/pve1/guests/a..b%2F"), "is no name of a guest")

	// What is known of a request stays, without anything to sign, and the page comes back with its gate.
	c.stop()
	page = operator.page(http.StatusOK, "/g/pve1/r/j1.1")
	require.Contains(t, page, "<strong>The gate is away.</strong>")
	require.Contains(t, page, gateAway)
	require.Contains(t, page, `data-live="pve1"`)
	for _, part := range []string{"data-decide", "SHA-256", "terminal-approve"} {
		require.NotContains(t, page, part)
	}
	require.Contains(t, operator.page(http.StatusServiceUnavailable, "/g/pve1/jobs"), `data-live="pve1"`)
}

// A sentence begins with a capital letter, and an id or a command stays as it is.
func TestUpper(t *testing.T) {
	for text, want := range map[string]string{"": "", "needs 1 more": "Needs 1 more", "signed: a": "Signed: a", "j1.1 is superseded": "j1.1 is superseded",
		"opsign list": "opsign list", "gated status says": "gated status says", `"no request "`: `"no request "`} {
		require.Equal(t, want, upper(text))
	}
}

// The newest job is found whatever numbers are missing, in few calls.
func TestTheNewestJob(t *testing.T) {
	c := newConsole(t)
	cl, _ := c.set.Client(gateName)
	for _, jobs := range [][]int{nil, {1}, {7}, {1, 2, 3, 4, 5, 6}, {3, 900, 901, 40_000}} {
		calls := 0
		c.gate.change(func() { c.gate.jobs = func(after int) api.JobList { calls++; return jobsAfter(jobs, after) } })
		want := op.JobID(0)
		if len(jobs) > 0 {
			want = op.JobID(jobs[len(jobs)-1])
		}
		require.Equal(t, want, must.Get(newestJob(t.Context(), reached{client: cl}))(t), "%v", jobs)
		require.Less(t, calls, 60, "%v", jobs)
	}
	c.gate.change(func() { c.gate.jobs = func(int) api.JobList { return jobsAfter([]int{1}, 0) } })
	_, err := newestJob(t.Context(), reached{client: cl})
	require.ErrorContains(t, err, "no order", "a gate that always has the same one")
}

func jobsAfter(ids []int, after int) api.JobList {
	out := api.JobList{Jobs: []api.Job{}}
	for _, id := range ids {
		if id > after {
			out.Jobs = append(out.Jobs, api.Job{ID: fmt.Sprintf("j%d", id)})
		}
	}
	return out
}

// A link of a message names the gate by its id, and leads only those further who may read there.
func TestALinkByTheGatesID(t *testing.T) {
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	link := "/g/" + string(gateID) + "/r/j1.1"
	alice, stranger := c.listed("alice@example.com", op.Operational), c.person(nil)
	_, answer := stranger.get(link)
	require.Contains(t, string(answer), "Sign in with a passkey")
	require.Contains(t, alice.page(http.StatusOK, link), "DESTROY guest/web-1")
	alice.page(http.StatusNotFound, "/g/0123456789abcdef0123456789abcdee/r/j1.1")
	c.gate.change(func() { c.gate.signers = nil })
	c.caught()
	alice.page(http.StatusNotFound, link)
}
