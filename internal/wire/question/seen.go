package question

import (
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
)

// Seen is a digest of what people are shown of a request before they sign: the bytes, the facts, the labels, and why it
// waits. It is SHA-256 in lower-case hex. A page that keeps nothing gives it back with a decision, so that a second look can tell whether
// the request is as it was shown. How much data a guest has, and until when a step can be undone, move on by themselves and are no part of it.
func (q Question) Seen() string {
	lines := []string{op.SHA256(q.Bytes)}
	for _, f := range q.facts() {
		text := stampPattern().ReplaceAllStringFunc(diskMoves().ReplaceAllString(f.Text, ""), q.past)
		if counters(f, op.Fact{Name: f.Name}) {
			text = ""
		}
		lines = append(lines, op.ShownQuoted(f.Name)+" "+op.ShownQuoted(text))
	}
	slices.Sort(lines[1:])
	return op.SHA256([]byte(strings.Join(lines, "\n")))
}

// past returns a time that does not lie ahead of the look, and nothing for another one.
func (q Question) past(stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err == nil && at.After(q.Request.FactsAt) {
		return ""
	}
	return stamp
}
