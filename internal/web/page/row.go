package page

import (
	"fmt"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// row is one request in a list. Its texts are safe to print, and cut.
type row struct {
	Gate, ID      string
	Verb, Target  string
	Host, Params  string
	End           string
	Irreversible  bool
	Lost          string // the first facts
	By, Reason    string // a reason in quotes
	Signed        string // by whom
	Needs         string // what it waits for, as the end of a sentence
	Since         time.Time
	Waits         string
	TimesRejected int
	key           string // of its group
	kind          kind   // of that with which it can be decided together
}

// The lengths to which a row cuts the words of others, in characters.
const (
	maxReason = 90
	maxFact   = 60
	maxFacts  = 3
	maxNames  = 100
	maxWhy    = 200 // of why a gate is away
)

// maxRow bounds the text of a row, in bytes of HTML: a page of pageOf rows stays small whatever a gate says. A row that is
// longer has maxPart of each of its parts.
const (
	maxRow  = 1300
	maxPart = 110
)

// fill puts a request into words.
func (x *row) fill(r api.Request, now time.Time) {
	q, err := question.Listed(r)
	s := q.Shown(question.View{Now: now})
	x.Verb, x.Target, x.Host, x.Params = cut(s.Verb, maxFact), s.Target, cut(s.Host, maxNames), cut(s.Params, maxReason)
	x.End, x.Irreversible = cut(s.End, maxNames), s.Irreversible
	if err != nil {
		x.Target = cut(cli.Inline(r.Target), maxNames) // it goes to a page that says why
	}
	var lost []string
	for _, f := range s.Lost[:min(len(s.Lost), maxFacts)] {
		lost = append(lost, cut(cli.Inline(f.Name+" "+f.Text), maxFact))
	}
	if more := len(s.Lost) - maxFacts; more > 0 {
		lost = append(lost, fmt.Sprintf("%d more", more)+ellipsis)
	}
	x.Lost = strings.Join(lost, " · ")
	x.By = cut(s.AskedBy, maxNames)
	x.Reason = reasonOf(r.Reason, r.Reasons, r.Users)
	var signed []string
	for _, one := range r.Signatures {
		signed = append(signed, one.Principal)
	}
	x.Signed = cut(cli.People(signed), maxNames)
	if x.Needs = cut(cli.Inline(cli.Waiting(r, now)), maxNames); x.Needs != "" && r.State == op.StatePending {
		x.Needs = "needs " + x.Needs
	}
	x.Waits = cli.Span(now.Sub(r.CreatedAt).Truncate(time.Minute))
	x.TimesRejected = r.TimesRejected
	x.fit()
}

// fit cuts each part of a row that would be too long as HTML.
func (x *row) fit() {
	parts := []*string{&x.Verb, &x.Target, &x.Host, &x.Params, &x.End, &x.Lost, &x.By, &x.Reason, &x.Signed, &x.Needs}
	all := 0
	for _, part := range parts {
		all += htmlSize(*part)
	}
	if all <= maxRow {
		return
	}
	for _, part := range parts {
		*part = cutHTML(*part, maxPart)
	}
}

// htmlSize is how many bytes a text has as HTML.
func htmlSize(text string) (n int) {
	for i := range len(text) {
		n += htmlSizeOf(text[i])
	}
	return n
}

func htmlSizeOf(c byte) int {
	if strings.IndexByte(`<>&"'+`, c) >= 0 { // which html/template writes as a reference: &#34;
		return 5
	}
	return 1
}

// cutHTML cuts a text to so many bytes of HTML.
func cutHTML(text string, most int) string {
	n := 0
	for i, r := range text {
		if n += htmlSize(string(r)); n > most {
			return text[:i] + ellipsis
		}
	}
	return text
}

// reasonOf shows requesters' own words in a list: in quotes, and cut.
func reasonOf(first string, all []api.Reason, users api.Users) string {
	if len(all) > 1 {
		return cut(cli.Inline(cli.ReasonsInLine(first, all, users)), maxReason)
	}
	return cut(cli.Quoted(first), maxReason)
}

// ellipsis ends what was cut.
const ellipsis = "…"

// cut cuts a text to so many characters.
func cut(text string, most int) string {
	runes := 0
	for i := range text {
		if runes++; runes > most {
			return text[:i] + ellipsis
		}
	}
	return text
}
