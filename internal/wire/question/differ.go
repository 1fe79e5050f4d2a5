package question

import (
	"bytes"
	"regexp"
	"slices"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// Changed is the refusal to sign a request that is not as it was shown.
type Changed struct {
	error
	Now  Question
	What string // what differs, for people; a line for each part, with its end
}

// Unwrap returns the refusal.
func (c *Changed) Unwrap() error { return c.error }

// Unchanged refuses to sign what was shown if a second look, right before the signature, finds it otherwise: as StaleTarget,
// with *Changed, if its bytes or facts are not those that were shown, and if it is decided, as the gate would.
func Unchanged(shown, now Question) error {
	if err := Answered(now.Request); err != nil {
		return err
	}
	if what := now.Since(shown); what != "" {
		return &Changed{changedRefusal(shown.Request.ID), now, what}
	}
	return nil
}

// Since says how a look differs from what was shown before, and notes whether that
// is in counters alone.
func (q *Question) Since(shown Question) string {
	what := differs(shown, *q)
	q.Moving = shown.Moving
	if what != "" {
		q.Moving = moves(shown, *q)
	}
	return what
}

// diskMoves are the parts of a fact about a disk that change while a guest writes.
var diskMoves = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\([0-9.]+ [KMGTPE]?i?B allocated\)|last write [0-9TZ:-]+`)
})

// counters reports whether two facts differ in nothing but what a guest that writes
// changes all the time: how much data it has, and when it wrote last.
func counters(a, b op.Fact) bool {
	switch {
	case a.Name != b.Name:
		return false
	case a.Name == "files", a.Name == "bytes", a.Name == "last write":
		return true
	}
	return diskMoves().ReplaceAllString(a.Text, "") == diskMoves().ReplaceAllString(b.Text, "")
}

// moves reports whether two looks differ in nothing but counters.
func moves(was, now Question) bool {
	was.Moving = true
	return differs(was, now) == ""
}

const wordsIs = "now "

// differs says what of a request is not as it was shown: what the signature would
// bind, the facts, the target's labels, and why it waits. It is empty if all of it
// is the same, but for counters of which the operator knows that they move.
func differs(was, now Question) string {
	tolerant := was.Moving && bytes.Equal(was.Bytes, now.Bytes)
	gone, come := unlike(was.facts(), now.facts(), func(a, b op.Fact) bool {
		return sameFact(a, was.Request.FactsAt, b, now.Request.FactsAt) || tolerant && counters(a, b)
	})
	if len(gone) == 0 && len(come) == 0 {
		// The parts of a payload are all that its bytes say (op.DecodePayload).
		return ""
	}
	var rows []op.Fact
	row := func(mark string, f op.Fact) { rows = append(rows, op.Fact{Name: mark + f.Name, Text: f.Text}) }
	for _, f := range gone {
		row("was ", f)
		for i := 0; i < len(come); i++ {
			if come[i].Name == f.Name {
				row(wordsIs, come[i])
				come = slices.Delete(come, i, i+1)
				i--
			}
		}
	}
	for _, f := range come {
		row(wordsIs, f)
	}
	return cli.Facts("  ", rows)
}

const wordsLabels = "labels of the target"

// facts are all parts of a question that people are shown before they sign, but
// for limits, which lose nothing.
func (q Question) facts() []op.Fact {
	out := slices.Concat(payloadFacts(q.Payload), slices.DeleteFunc(slices.Clone(q.Request.Facts), op.Fact.OnLimits))
	if text := labelsText(q.Request.Labels); text != "" {
		out = append(out, op.Fact{Name: wordsLabels, Text: text})
	}
	return append(out, op.Fact{Name: "why it waits", Text: q.Request.Why})
}

// unlike returns what only the first list has, and what only the second has.
func unlike(a, b []op.Fact, same func(x, y op.Fact) bool) (gone, come []op.Fact) {
	come = slices.Clone(b)
	for _, x := range a {
		i := slices.IndexFunc(come, func(y op.Fact) bool { return same(x, y) })
		if i < 0 {
			gone = append(gone, x)
			continue
		}
		come = slices.Delete(come, i, i+1)
	}
	return gone, come
}

func changedRefusal(id string) error {
	return refusal.New(refusal.StaleTarget, "%s changed after it was shown, and was not signed", id).
		WithHint("read it again: opsign review, or opsign approve %s", id)
}

// stampPattern finds the times in a fact.
var stampPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
})

// driftOfStamps is how far a time that lies ahead may have moved on more or less
// than the time of the look did and still say the same.
const driftOfStamps = time.Minute

// sameFact reports whether two looks at a target, each at its time, saw the same.
// Until when something could be undone moves on from look to look, and is no
// change.
func sameFact(x op.Fact, seen time.Time, y op.Fact, seenLater time.Time) bool {
	return x == y || x.Name == y.Name && stampPattern().ReplaceAllString(x.Text,
		"") == stampPattern().ReplaceAllString(y.Text, "") &&
		slices.EqualFunc(stampPattern().FindAllString(x.Text, -1), stampPattern().FindAllString(y.Text, -1), func(s,
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
