package page

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/wire/cli"
)

// logList is a page of a gate's audit log, the newest entry first.
type logList struct {
	Gate         string
	Entries      []entry
	Head         int64
	Older, Newer string
}

type entry struct {
	Seq                    int64
	Time                   time.Time
	Kind, By, About, Class string
	Job                    string // to link to; empty for none
	Text                   string
	Beside                 []string // who signed, keys, and what a reservation is of
}

func (c Config) logPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	head, err := at.client.AuditHead(ctx)
	if err != nil {
		return err
	}
	to := head.Seq
	if n := int64(number(r, "to")); n > 0 && n < to {
		to = n
	}
	above := max(to-pageOf, 0)
	list, err := at.client.AuditPage(ctx, above, pageOf)
	if err != nil {
		return err
	}
	p := logList{Gate: at.gate.Name, Head: head.Seq}
	for _, e := range slices.Backward(list.Entries) {
		if e.Seq <= to {
			p.Entries = append(p.Entries, entryOf(e, list.Users))
		}
	}
	here := "/g/" + at.gate.Name + "/log?to="
	if above > 0 {
		p.Older = here + strconv.FormatInt(above, 10)
	}
	if to < head.Seq {
		p.Newer = here + strconv.FormatInt(to+pageOf, 10)
	}
	c.render(w, r, at.tab("log", "Log"), "log", p)
	return nil
}

// entryOf puts an entry into words, as gated audit does.
func entryOf(e api.Entry, users api.Users) entry {
	out := entry{Seq: e.Seq, Time: e.Time, Kind: cli.Inline(e.Kind), By: cli.Requester(e.By, users), Class: cli.Inline(string(e.Class))}
	var about []string
	for _, part := range []string{e.Step, e.Op, e.Target} {
		if part != "" {
			about = append(about, cli.Inline(part))
		}
	}
	if e.Step == "" && e.Job != "" {
		about = append([]string{cli.Inline(e.Job)}, about...)
	}
	if e.Job != "" {
		out.Job = e.Job
	}
	out.About, out.Text = strings.Join(about, " "), cli.Inline(e.Detail)
	if e.Code != "" {
		out.Text = cli.Inline(string(e.Code) + ": " + e.Detail)
	}
	if e.Count > 1 {
		out.Text += " (" + strconv.Itoa(e.Count) + " times)"
	}
	for _, who := range e.Signers {
		out.Beside = append(out.Beside, "signed by "+cli.Person(who))
	}
	for _, key := range e.Keys {
		out.Beside = append(out.Beside, "key "+cli.Inline(key))
	}
	if e.Reservation != "" {
		out.Beside = append(out.Beside, "reservation "+cli.Inline(e.Reservation)+" of "+cli.Requester(e.Holder, users)+": "+cut(joined(e.Patterns), 400))
	}
	return out
}
