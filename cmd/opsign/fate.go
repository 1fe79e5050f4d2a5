package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// fates are the facts of a request, by what becomes of what they are about.
type fates map[op.Fate][]op.Fact

// behind are the facts that the details show.
const behind op.Fate = -1

// fates parts the facts of a request as the row of its operation says. If the step takes nothing, what stays and what is not
// there is behind. Facts on undoing other operations are, too, and those on limits, if the step changes none.
func (q question) fates() fates {
	p, out := q.payload, fates{}
	spec, _ := op.Lookup(p.Op)
	level, undo := q.undo()
	for _, f := range q.request.Facts {
		is := spec.Fate(p.Params, f)
		switch on := f.OnUndo(); {
		case len(on) > 0 && !slices.Contains(on, p.Op), f.OnLimits() && spec.Changes == nil:
			is = behind
		case (len(on) > 0 || f.Name == "undo") && q.request.State.Open() && strings.EqualFold(f.Text, undo):
			continue // the headline says it
		}
		out[is] = append(out[is], f)
	}
	known := len(out[op.Goes]) > 0 || len(out[op.AtRisk]) > 0 && !p.Params.Has("memory") // an older gate does not say what a limit ends
	if !known && hard[level] != "" && spec.Fates != nil && spec.Takes != "" && q.request.Rule != op.SignedByRule {
		out[op.Goes] = []op.Fact{{Name: "at most", Text: spec.Takes}}
	}
	if len(out[op.Goes])+len(out[op.AtRisk]) == 0 {
		out[behind] = slices.Concat(out[op.Stays], out[op.Unsure], out[op.Absent], out[behind])
		out[op.Stays], out[op.Unsure], out[op.Absent] = nil, nil, nil
	}
	return out
}

// headings are the words above the facts.
var headings = map[op.Fate]string{op.Altered: "changes", op.Goes: "goes", op.AtRisk: "at risk from the next start", op.Beside: "also seen",
	op.Stays: "stays", op.Unsure: "none known"}

// besides are the words of operations that say more.
var besides = map[string]map[op.Fate]string{op.Run: {op.Beside: "what would run, and what its probe says"},
	op.Rotate: {op.Beside: "who comes and who goes, and who is listed now"}}

// losesText says what a step changes and takes, what else is known, and when the gate saw it so. now is this machine's clock.
func (q question) losesText(f fates, now time.Time) string {
	text := f.text(q.payload.Op, seenAt(q.request.FactsAt, now), op.Altered, op.Goes, op.AtRisk, op.Beside)
	if labels := labelsText(q.request.Labels); labels != "" {
		text += "  " + wordsLabels + ": " + labels + "\n"
	}
	return text
}

// text lists the facts with these fates of an operation, each below its heading. The first heading says when they were seen.
func (f fates) text(name, seen string, of ...op.Fate) (text string) {
	for _, fate := range of {
		facts := slices.Clone(f[fate])
		for i, c := range facts {
			facts[i].Name, _ = c.Changes()
		}
		if len(facts) > 0 {
			text += "  " + cmp.Or(besides[name][fate], headings[fate]) + seen + ":\n" + cli.Facts("    ", facts)
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
