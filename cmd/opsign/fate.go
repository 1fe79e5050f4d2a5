package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// fates are the facts of a request, by what becomes of what they are about.
type fates struct {
	altered, goes, risk, beside, stays, absent []op.Fact
	behind                                     []op.Fact // that the details show
}

// fates parts the facts of a request as the row of its operation says. If the step takes nothing, what stays and what is absent
// is behind. Facts on undoing other operations are, too, and those on limits, if the step changes none.
func (q question) fates() (out fates) {
	p := q.payload
	spec, _ := op.Lookup(p.Op)
	level, undo := q.undo()
	to := map[op.Fate]*[]op.Fact{op.Altered: &out.altered, op.Goes: &out.goes, op.AtRisk: &out.risk, op.Beside: &out.beside,
		op.Stays: &out.stays, op.Absent: &out.absent}
	for _, f := range q.request.Facts {
		list := to[spec.Fate(p.Params, f)]
		switch on := f.OnUndo(); {
		case len(on) > 0 && !slices.Contains(on, p.Op), f.OnLimits() && spec.Changes == nil:
			list = &out.behind
		case len(on) > 0 && f.Text == undo:
			continue // the headline says it
		}
		*list = append(*list, f)
	}
	if len(out.goes) == 0 && spec.Fates != nil && spec.Takes != "" && level == op.Gone && q.request.Rule != op.SignedByRule {
		out.goes = []op.Fact{{Name: "at most", Text: spec.Takes}}
	}
	if len(out.goes)+len(out.risk) == 0 {
		out.behind, out.stays, out.absent = slices.Concat(out.stays, out.absent, out.behind), nil, nil
	}
	return out
}

// losesText says what a step changes and takes, what else is known, and when the gate saw it so. now is this machine's clock.
func (q question) losesText(f fates, now time.Time) string {
	beside := "also seen"
	switch q.payload.Op {
	case op.Run:
		beside = "what would run, and what its probe says"
	case op.Rotate:
		beside = "who comes and who goes, and who is listed now"
	}
	altered := slices.Clone(f.altered)
	for i, c := range altered {
		altered[i].Name, _ = c.Changes()
	}
	text := parts(seenAt(q.request.FactsAt, now), part{"changes", altered}, part{"goes", f.goes}, part{"at risk from the next start", f.risk},
		part{beside, f.beside})
	if labels := labelsText(q.request.Labels); labels != "" {
		text += "  " + wordsLabels + ": " + labels + "\n"
	}
	return text
}

// staysText says what a step leaves, and what the target has none of.
func (f fates) staysText() string {
	return parts("", part{"stays", f.stays}, part{"not there", f.absent})
}

// part is a list of facts below a heading.
type part struct {
	words string
	facts []op.Fact
}

// parts lists what has facts. The first heading says when they were seen.
func parts(seen string, of ...part) (text string) {
	for _, p := range of {
		if len(p.facts) > 0 {
			text += "  " + p.words + seen + ":\n" + cli.Facts("    ", p.facts)
			seen = ""
		}
	}
	return text
}

// labelsText lists the labels of a target, each value in quotes: none of them can
// pass for another label.
func labelsText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, cli.Inline(name)+" "+op.ShownQuoted(labels[name]))
	}
	return strings.Join(out, ", ")
}

// seenAt says when something was seen: at which time of the day, and of what is
// an hour old or more, how long ago. It is empty where nothing is known.
func seenAt(at, now time.Time) string {
	age := now.Sub(at)
	switch {
	case at.IsZero():
		return ""
	case age >= 48*time.Hour:
		return fmt.Sprintf(", as the gate saw it %d days ago", int(age/(24*time.Hour)))
	case age >= time.Hour:
		return fmt.Sprintf(", as the gate saw it %s ago", cli.Span(age.Truncate(time.Minute)))
	}
	return fmt.Sprintf(", as the gate saw it at %s", at.UTC().Format("15:04:05Z"))
}
