package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
)

// lostText says what would be lost, whole, and when the gate saw it so. now is
// this machine's clock.
func lostText(r api.Request, now time.Time) string {
	if len(r.Facts) == 0 {
		return ""
	}
	words := "  what would be lost, as the gate saw it%s:\n"
	switch {
	case r.Op == op.Run:
		words = "  what would run, and what its probe says, as the gate saw it%s:\n"
	case r.Op == op.Rotate:
		words = "  who comes and who goes, and who is listed now, as the gate saw it%s:\n"
	case slices.ContainsFunc(r.Facts, op.Fact.IsChange):
		words = "  what would change, and what the target holds, as the gate saw it%s:\n"
	}
	text := fmt.Sprintf(words, seenAt(r.FactsAt, now)) + cli.Facts("    ", r.Facts)
	if labels := labelsText(r.Labels); labels != "" {
		text += "    " + wordsLabels + ": " + labels + "\n"
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
		return fmt.Sprintf(" %d days ago", int(age/(24*time.Hour)))
	case age >= time.Hour:
		return fmt.Sprintf(" %s ago", cli.Span(age.Truncate(time.Minute)))
	}
	return fmt.Sprintf(" at %s", at.UTC().Format("15:04:05Z"))
}

// stampPattern finds the times in a fact.
var stampPattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// driftOfStamps is how far a time that lies ahead may have moved on more or less
// than the time of the look did and still say the same.
const driftOfStamps = time.Minute

// sameFact reports whether two looks at a target, each at its time, saw the same.
// Until when something could be undone moves on from look to look, and is no
// change.
func sameFact(x op.Fact, seen time.Time, y op.Fact, seenLater time.Time) bool {
	return x == y || x.Name == y.Name && stampPattern.ReplaceAllString(x.Text,
		"") == stampPattern.ReplaceAllString(y.Text, "") &&
		slices.EqualFunc(stampPattern.FindAllString(x.Text, -1), stampPattern.FindAllString(y.Text, -1), func(s,
			t string) bool {
			return s == t || movedOn(s, seen, t, seenLater)
		})
}

// movedOn reports whether two times each lie ahead of their look, by as much.
func movedOn(s string, seen time.Time, later string, seenLater time.Time) bool {
	from, err := time.Parse(time.RFC3339, s)
	to, err2 := time.Parse(time.RFC3339, later)
	return err == nil && err2 == nil && from.After(seen) && to.After(seenLater) &&
		(to.Sub(seenLater)-from.Sub(seen)).Abs() <= driftOfStamps
}
