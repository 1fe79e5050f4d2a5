package server

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/servicetest"
	"gated/internal/wire/convert"
)

// odd are strings that mean something to a shell, a format, a template, a path,
// a database, a terminal or a JSON writer that pastes.
var odd = []string{
	`$(touch /tmp/owned)`, "`id`", `"; rm -rf / #`, `' OR 1=1; --`, `%s%n%d%!v(MISSING)`, `{{.}}`, `${jndi:x}`,
	`../../etc/passwd`, `/dev/null`, `C:\a`, `\u0000`, `</script>`, `","class":"benign","x":"`, `\`, `"`, `'`, `é漢字🔒`,
	`file:///etc/passwd`, `{"op":"guest.destroy"}`, `null`, `~root`, `a|b&c;d>e<f`,
}

// H05: odd strings stay what they are on the way in, and the answer is valid JSON that says them again.
func TestH05OddStringsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for i, s := range odd {
		params := op.Params{"p": s}
		command := op.Ask{Op: op.Run, Target: op.Target{Kind: op.KindCommand, Name: "drop-db"}, Params: params}
		body, err := api.Encode(convert.SubmitOf(s, command))
		require.NoError(t, err)
		var job api.Job
		w.do(t, "POST", "/v1/jobs", string(body)).into(t, 202, &job)
		require.Equal(t, s, job.Reason)
		require.Equal(t, params, job.Steps[0].Params)
		kept, err := w.Gate.Job(t.Context(), op.JobID(11+i))
		require.NoError(t, err)
		require.Equal(t, s, kept.Reason)
		require.Equal(t, params, kept.Steps[0].Params)

		body, err = api.Encode(convert.SubmitOf("", op.Ask{Op: s, Target: op.Target{Kind: "guest", Name: "db"},
			Params: op.Params{"p": s, s: map[string]any{s: []any{s}}}}))
		require.NoError(t, err)
		require.Equal(t, refusal.UnknownOp, w.do(t, "POST", "/v1/jobs", string(body)).problem(t).Code, s)
	}
}

// The same for what a guest's own files may put into facts and labels, which nothing checks: bytes that are no text,
// and characters that steer terminals.
func TestH05OddFactsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range append([]string{"\xff\xfe", "\x00\x1b]0;x\x07", "a\r\nid: 99\r\ndata: {}\r\n", "\u202e\u2028\ufeff"}, odd...) {
		w.Guests.Odd(s)
		for _, path := range []string{"/v1/guests/web-1", "/v1/guests"} {
			r := w.do(t, "GET", path, "")
			require.NotContains(t, string(r.body), "\n")
			require.NotContains(t, string(r.body), "\x1b")
			require.True(t, jsontext.Value(r.body).IsValid(), "%q", r.body)
		}
		var g api.Guest
		w.do(t, "GET", "/v1/guests/web-1", "").into(t, 200, &g)
		require.Equal(t, g.Labels["l"], g.Facts[0].Text)
		require.Equal(t, strings.ToValidUTF8(s, "\ufffd\ufffd"), g.Facts[0].Text)

		w.Guests.Fail(refusal.New(refusal.Conflict, "%s", s).WithHint("%s", s))
		p := w.do(t, "POST", "/v1/classify", `{"op":"guest.destroy","target":"guest/web-1"}`).problem(t)
		require.Equal(t, g.Facts[0].Text, p.Detail)
		w.Guests.Fail(nil)
	}
}

// The same for what agents write about their reservations, which others read.
func TestH05OddReservationsStayData(t *testing.T) {
	w := start(t, -1, nil)
	for _, s := range odd {
		in := api.Reserve{Scope: servicetest.Src, Patterns: []string{"o/x"}, Reason: s}
		in.Scope.Path = "/nowhere/" + strings.NewReplacer("/", "_", "..", "__").Replace(s)
		body, err := api.Encode(in)
		require.NoError(t, err)
		var r api.Reservation
		w.do(t, "POST", "/v1/reservations", string(body)).into(t, 201, &r)
		require.Equal(t, s, r.Reason)
		require.Equal(t, in.Scope.Path, r.Scope)
		p := w.do(t, "POST", "/v1/reservations", string(body), api.TokenHeader, servicetest.Token()).problem(t)
		require.Equal(t, refusal.Conflict, p.Code)
		r.Mine = false
		require.Equal(t, []api.Conflict{{Pattern: "o/x", Overlaps: "o/x", Reservation: r}}, p.Conflicts)
		var list api.ReservationList
		w.do(t, "GET", "/v1/reservations?scope="+url.QueryEscape(in.Scope.Path), "").into(t, 200, &list)
		require.Len(t, list.Reservations, 1)
	}
}

// Odd paths and queries are refused as a problem, whatever they hold.
func TestH05OddPaths(t *testing.T) {
	w := start(t, -1, nil)
	before := w.reached()
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
	require.Equal(t, before, w.reached())
}
