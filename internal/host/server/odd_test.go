package server

import (
	"net/url"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// odd are strings that mean something to a shell, a format, a template, a path,
// a database, a terminal or a JSON writer that pastes.
var odd = []string{
	`$(touch /tmp/owned)`, "`id`", `"; rm -rf / #`, `' OR 1=1; --`, `%s%n%d%!v(MISSING)`, `{{.}}`, `${jndi:x}`,
	`../../etc/passwd`, `/dev/null`, `C:\a`, `\u0000`, `</script>`, `","class":"benign","x":"`, `\`, `"`, `'`, `é漢字🔒`,
	`file:///etc/passwd`, `{"op":"guest.destroy"}`, `null`, `~root`, `a|b&c;d>e<f`,
}

// H05: odd strings stay what they are on the way in, and the answer is valid
// JSON that says them again.
func TestH05OddStringsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range odd {
		body, err := api.Encode(api.SubmitOf(s, op.Ask{Op: s, Target: web, Params: op.Params{
			"p": s, s: map[string]any{s: []any{s}}}}))
		require.NoError(t, err)
		w.job.Reason, w.job.Steps[0].Detail, w.job.Steps[0].Op = s, s, s
		w.job.Steps[0].Params = op.Params{s: s}
		w.job.Steps[0].Verdict.Why = s
		var job api.Job
		w.do(t, "POST", "/v1/jobs", string(body)).into(t, 202, &job)
		_, sub := w.last()
		require.Equal(t, s, sub.Reason)
		require.Equal(t, s, sub.Steps[0].Op)
		require.Equal(t, op.Params{"p": s, s: map[string]any{s: []any{s}}}, sub.Steps[0].Params)
		require.Equal(t, s, job.Reason)
		require.Equal(t, s, job.Steps[0].Detail)
		require.Equal(t, op.Params{s: s}, job.Steps[0].Params)
	}
}

// The same for what a guest's own files may put into facts and labels, which
// nobody checked: bytes that are no text and characters that steer terminals.
func TestH05OddFactsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range append([]string{"\xff\xfe", "\x00\x1b]0;x\x07", "a\r\nid: 99\r\ndata: {}\r\n", "\u202e\u2028\ufeff"}, odd...) {
		w.guest1 = api.Guest{Name: s, State: s, Labels: map[string]string{"l": s}, Facts: []op.Fact{{Name: s, Text: s}},
			Error: &api.Error{Code: refusal.StaleTarget, Detail: s}}
		r := w.do(t, "GET", "/v1/guests/web-1", "")
		require.NotContains(t, string(r.body), "\n")
		require.NotContains(t, string(r.body), "\x1b")
		require.True(t, jsontext.Value(r.body).IsValid(), "%q", r.body)
		var g api.Guest
		r.into(t, 200, &g)
		require.Equal(t, g.Labels["l"], g.Facts[0].Text)

		w.err = refusal.New(refusal.Conflict, "%s", s).WithHint("%s", s)
		p := w.do(t, "GET", "/v1/guests/web-1", "").problem(t)
		require.Equal(t, g.Facts[0].Text, p.Detail)
		w.err = nil
	}
}

// The same for what agents write about their reservations, which others read.
func TestH05OddReservationsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range odd {
		in := api.Reserve{Scope: api.Place{Path: "/" + s}, Patterns: []string{s}, Mode: s, Reason: s}
		body, err := api.Encode(in)
		require.NoError(t, err)
		w.err, w.conflicts = nil, []api.Conflict{{Pattern: s, Overlaps: s, Reservation: api.Reservation{Reason: s, Patterns: []string{s}}}}
		require.Equal(t, 201, w.do(t, "POST", "/v1/reservations", string(body)).status)
		require.Equal(t, in, w.claim)
		w.err = refusal.New(refusal.Conflict, "%s", s)
		p := w.do(t, "POST", "/v1/reservations", string(body)).problem(t)
		require.Equal(t, w.conflicts, p.Conflicts)
		w.err = nil
		require.Equal(t, 200, w.do(t, "GET", "/v1/reservations?scope="+url.QueryEscape("/"+s), "").status)
		require.Equal(t, "/"+s, w.asksFor.Scope)
	}
}

// Odd paths and queries are refused as a problem, whatever they hold.
func TestH05OddPaths(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range odd {
		for _, path := range []string{
			"/v1/guests/" + url.PathEscape(s), "/v1/jobs/" + url.PathEscape(s), "/v1/requests/" + url.PathEscape(s),
			"/v1/desired/" + url.PathEscape(s), "/v1/agents/" + url.PathEscape(s), "/v1/reservations?after=" + url.QueryEscape(s),
			"/v1/jobs?state=" + url.QueryEscape(s), "/v1/jobs?" + url.QueryEscape(s) + "=1",
			"/" + url.PathEscape(s),
		} {
			if s == "null" && path == "/v1/guests/null" || path == "/v1/desired/null" {
				continue // a name like any other
			}
			require.Equal(t, refusal.Malformed, w.do(t, "GET", path, "").problem(t).Code, path)
		}
	}
	require.Empty(t, w.calls())
}
