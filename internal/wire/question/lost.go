package question

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// lostText says what would be lost, whole, and when the gate saw it so. now is
// this machine's clock.
func lostText(r api.Request, now time.Time) string {
	if len(r.Facts) == 0 {
		return ""
	}
	text := "  " + lostTitle(r, now) + ":\n" + cli.Facts("    ", r.Facts)
	if labels := labelsText(r.Labels); labels != "" {
		text += "    " + wordsLabels + ": " + labels + "\n"
	}
	return text
}

// lostTitle says what the facts of a request are, and when the gate saw them so. It is empty if there are none.
func lostTitle(r api.Request, now time.Time) string {
	if len(r.Facts) == 0 {
		return ""
	}
	words := "what would be lost, as the gate saw it"
	switch {
	case r.Op == op.Run:
		words = "what would run, and what its probe says, as the gate saw it"
	case r.Op == op.Rotate:
		words = "who comes and who goes, and who is listed now, as the gate saw it"
	case r.Op == op.Drill:
		words = "what is rehearsed, and nothing is lost, as the gate saw it"
	case r.Op == op.Review:
		words = "what was done by break-glass, as the gate saw it"
	case harmless(r):
		words = "what the target holds, as the gate saw it"
	case slices.ContainsFunc(r.Facts, op.Fact.IsChange):
		words = "what would change, and what the target holds, as the gate saw it"
	}
	return words + seenAt(r.FactsAt, now)
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
		return fmt.Sprintf(" %d days ago", int(age/(24*time.Hour)))
	case age >= time.Hour:
		return fmt.Sprintf(" %s ago", cli.Span(age.Truncate(time.Minute)))
	}
	return fmt.Sprintf(" at %s", at.UTC().Format("15:04:05Z"))
}

// ownFacts parts the facts of a request in those that are about its operation,
// and those that are about others alone.
func (q Question) ownFacts() (own api.Request, others []op.Fact) {
	own = q.Request
	own.Facts = nil
	for _, f := range q.Request.Facts {
		switch {
		case q.aboutOthers(f):
			others = append(others, f)
		case len(operations(f)) == 0 || f.Text != q.Undo(): // which the headline says
			own.Facts = append(own.Facts, f)
		}
	}
	return own, others
}
