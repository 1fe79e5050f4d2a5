package hubserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// maxRows bounds how many guests, and how many operations, of one host the page lists.
const maxRows = 100

const style = `body{font-family:sans-serif;margin:2em}table{border-collapse:collapse;margin:0 0 1.5em}
th,td{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}
.ok{background:#dfd}.bad{background:#fdd}.wait{background:#ffd}code{font-size:90%}`

var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Gates write reports, and every program with the token can pose as a gate. So everything goes through the template,
// which escapes it.
// pages is parsed at its first use, because each start of the program would pay for it.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{"moment": moment, "age": op.Age, "shown": op.Shown}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>gated hub</title>
<style>` + style + `</style></head><body><h1>gated hub</h1><p>{{moment .Now}}</p>
{{with .Waits}}<h2>waits for signatures</h2>{{with .Error}}<p class="bad">{{shown .}}</p>{{end}}
{{if .Requests}}<table><tr><th>age</th><th>host</th><th>request</th><th>operation</th><th>target</th><th>asked by</th><th>reason</th></tr>
{{range .Requests}}<tr class="wait"><td>{{age $.Now .CreatedAt}}</td><td>{{shown .Host}}</td><td>{{shown .Request}}</td><td>{{shown .Op}}</td><td>{{shown .Target}}</td><td>{{shown .RequestedBy}}</td><td>{{shown .Reason}}</td></tr>
{{end}}</table>{{end}}{{with .More}}<p class="wait">and {{.}} more: <code>opsign list --hub URL</code></p>{{end}}{{end}}
<table><tr><th>host</th><th>served</th><th>read</th><th>state</th><th>since</th><th>last report</th></tr>
{{range .Hosts}}<tr><td>{{shown .Name}}</td><td>{{if .ServeError}}<span class="bad">{{shown .ServeError}}</span>{{else}}<code>{{.Served}}</code>{{end}}</td>
<td><code>{{shown .Read}}</code></td><td class="{{.Class}}">{{.State}}</td><td>{{moment .Since}}</td><td>{{moment .ReportedAt}}</td></tr>
{{end}}</table>{{with .Next}}<p><a href="{{.}}">more hosts</a></p>{{end}}
{{if .Odd}}<h2>audit logs that do not go on</h2><table><tr><th>gate</th><th>host</th><th>seen</th><th>why</th><th>head</th></tr>
{{range .Odd}}<tr class="bad"><td>{{shown .Gate}}</td><td>{{shown .Host}}</td><td>{{moment .Seen}}</td><td>{{.Why}}</td><td>{{.Words}}</td></tr>
{{end}}</table>{{if .MoreOdd}}<p class="bad">and more hosts</p>{{end}}{{end}}
{{range .Hosts}}{{if or .Sets .Guests .Operations .Error}}<h2>{{shown .Name}}</h2>
{{with .Error}}<p class="bad">{{shown .}}</p>{{end}}
{{if .Sets}}<table><tr><th>set</th><th>guests</th><th>converged</th><th>waiting</th><th>working</th><th>stopped</th><th>unknown</th><th>conflicting</th></tr>
{{range .Sets}}<tr><td>{{shown .Name}}</td><td>{{.Guests}}</td><td>{{.Converged}}</td><td>{{.Waiting}}</td><td>{{.Working}}</td><td>{{.Stopped}}</td><td>{{.Unknown}}</td><td>{{.Conflicting}}</td></tr>
{{end}}</table>{{end}}
{{if .Guests}}<table><tr><th>guest</th><th>set</th><th>state</th><th>request</th><th>waits since</th><th>why</th></tr>
{{range .Guests}}<tr><td>{{shown .Name}}</td><td>{{shown .Set}}</td><td>{{shown .State}}</td><td>{{shown .Request}}</td><td>{{with .Since}}{{moment .}}{{end}}</td><td>{{shown .Why}}</td></tr>
{{end}}</table>{{end}}
{{if .Operations}}<table><tr><th>relayed operation</th><th>target</th><th>request</th><th>state</th><th>refused</th><th>detail</th><th>payload</th></tr>
{{range .Operations}}<tr><td>{{shown .Op}}</td><td>{{shown .Target}}</td><td>{{shown .Request}}</td><td>{{shown (print .State)}}</td><td>{{shown (print .Code)}}</td><td>{{shown .Detail}}</td><td><code>{{shown .Payload}}</code></td></tr>
{{end}}</table>{{end}}
{{with .LeftOut}}<p>{{.}} more rows are not shown.</p>{{end}}{{end}}{{end}}</body></html>
`))
})

// hostRow is what the page shows of one host.
type hostRow struct {
	Name, Served, ServeError, Read string
	Class, State, Error            string
	Since, ReportedAt              time.Time
	Sets                           []hub.SetReport
	Guests                         []hub.GuestReport
	Operations                     []hub.OperationReport
	LeftOut                        int
}

// moment shows a time in UTC, nothing for none.
func moment(v any) string {
	at, ok := v.(time.Time)
	if p, isPointer := v.(*time.Time); isPointer && p != nil {
		at, ok = *p, true
	}
	if !ok || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Bounds of what one page shows.
const (
	pageHosts = 200
	pageOdd   = 20
)

// page shows which hosts are as their revision wishes, and heads that contradict others. after is the host before the
// first one.
func (h *Hub) page(w http.ResponseWriter, r *http.Request) error {
	names, err := h.Documents.Hosts(r.Context(), r.URL.Query().Get("after"), pageHosts+1)
	if err != nil {
		return err
	}
	data := struct {
		Now     time.Time
		Hosts   []hostRow
		Waits   *waits   // nil for nothing
		Odd     []oddRow // the newest of each host
		MoreOdd bool
		Next    string
	}{Now: h.Now()}
	if len(names) > pageHosts {
		names = names[:pageHosts]
		data.Next = "/?after=" + url.QueryEscape(names[pageHosts-1])
	}
	if data.Waits, err = h.waits(r.Context()); err != nil {
		return err
	}
	for _, name := range names {
		row, err := h.row(r.Context(), name)
		if err != nil {
			return err
		}
		data.Hosts = append(data.Hosts, row)
	}
	odd, err := h.Store.Contradictions(r.Context(), pageOdd+1)
	if err != nil {
		return err
	}
	data.MoreOdd = len(odd) > pageOdd
	for _, o := range odd[:min(len(odd), pageOdd)] {
		data.Odd = append(data.Odd, oddRow{string(o.Gate), o.Host, o.Seen, o.Why.String(), headWords(o)})
	}
	var out bytes.Buffer
	if err := pages().Execute(&out, data); err != nil {
		return err
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	write(w, "text/html; charset=utf-8", out.Bytes())
	return nil
}

// waits is what the page shows of the requests that wait at all gates, the oldest first.
type waits struct {
	Requests []api.FleetRow
	More     int64
	Error    string
}

// waits returns nil if nothing waits. A queue that was changed where it is kept hides nothing else.
func (h *Hub) waits(ctx context.Context) (*waits, error) {
	page, err := h.Store.Queue(ctx, hubstate.Query{Limit: maxRows})
	switch more := page.Waiting + page.LeftOut - int64(len(page.Requests)); {
	case errors.Is(err, refusal.Internal):
		return &waits{Error: refusal.As(err).Detail}, nil
	case err != nil || len(page.Requests) == 0 && more <= 0:
		return nil, err
	default:
		return &waits{Requests: page.Requests, More: more}, nil
	}
}

// oddRow is what the page shows of a head that contradicts the kept one.
type oddRow struct {
	Gate, Host string
	Seen       time.Time
	Why, Words string
}

func (h *Hub) row(ctx context.Context, name string) (hostRow, error) {
	row := hostRow{Name: name, State: "no report yet", Class: "wait"}
	if s, err := h.Documents.Document(ctx, name, hub.PathDesired, ""); err != nil {
		row.ServeError = refusal.As(err).Detail
	} else {
		row.Served = s.Revision
	}
	t, err := h.Store.Report(ctx, name)
	if errors.Is(err, refusal.Internal) { // it was changed where it is kept; the other hosts are shown all the same
		row.State, row.Class, row.Error = "its report cannot be read", "bad", refusal.As(err).Detail
		return row, nil
	}
	if t == nil || err != nil {
		return row, err
	}
	r := t.Report
	row.Read, row.Since, row.ReportedAt = r.Revision, t.Since, t.At
	waiting := len(r.Requests) + r.RequestsLeftOut
	switch {
	case r.Error != nil:
		row.State, row.Class, row.Error = "does not take it", "bad", r.Error.Detail
	case r.Revision != row.Served:
		row.State, row.Class = "has another revision", "wait"
	case !hubstate.Converged(r):
		row.State, row.Class = "not converged", "wait"
	case waiting > 0:
		row.State, row.Class = fmt.Sprintf("converged; requests that wait: %d", waiting), "wait"
	default:
		row.State, row.Class = "converged", "ok"
	}
	row.Sets, row.LeftOut = cut(r.Sets, 0)
	row.Guests, row.LeftOut = cut(r.Guests, row.LeftOut+r.GuestsLeftOut)
	row.Operations, row.LeftOut = cut(r.Operations, row.LeftOut+r.OpsLeftOut)
	return row, nil
}

func cut[T any](list []T, left int) ([]T, int) {
	if len(list) > maxRows {
		return slices.Clone(list[:maxRows]), left + len(list) - maxRows // a part of the list would keep all of it in memory
	}
	return list, left
}
