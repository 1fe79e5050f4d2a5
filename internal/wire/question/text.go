package question

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// Text shows a request for people: what the bytes to sign would do and whether
// that can be undone, what would be lost, who asks and why, and what is missing.
// What the details have is counted where they are not shown.
func (q Question) Text(v View) string {
	s := q.Shown(v)
	text := s.Headline + "\n" + fmt.Sprintf("  request %s: %s, %s\n", s.ID, s.Op, cli.Inline(string(s.State)))
	if s.Params != "" {
		text += cli.Columns("    " + cli.Row("params", string(q.Payload.Params.Canonical())))
	}
	text += RotationText(q.Payload, q.Request.Facts) + q.LostText(v) + q.askedText(v, s)
	if s.Detail != "" {
		text += fmt.Sprintf("  outcome: %s\n", s.Detail)
	}
	for _, line := range slices.Concat(s.Signed, s.Needed, s.Delays) {
		text += "  " + line + "\n"
	}
	if s.Left != "" {
		text += "  " + s.Left + "\n"
	}
	return text + q.detailsText(v, s)
}

// LostText says what would be lost, whole, and when the gate saw it so, without what
// is about other operations.
func (q Question) LostText(v View) string {
	own, _ := q.ownFacts()
	return lostText(own, v.Now)
}

// OtherFacts counts, in words, the facts that are about other operations. It is empty if there are none.
func (q Question) OtherFacts() string {
	_, others := q.ownFacts()
	if len(others) == 0 {
		return ""
	}
	return moreFacts(len(others))
}

// askedText says who asks, since when, and why, and how often operators rejected the
// same. The reasons are the requesters' own words and stand in quotes.
func (q Question) askedText(v View, s Shown) string {
	text := "  asked by " + s.AskedBy
	if s.Since != "" {
		text += " since " + s.Since
	}
	text += "\n" + cli.Reasons("  ", q.Payload.Reason, q.Request.Reasons, q.Request.Users)
	if s.Why != "" {
		text += fmt.Sprintf("  why it waits: %s\n", s.Why)
	}
	return text + cli.Rejections("  ", q.Request, v.Details)
}

// left says how long a signature counts. It is empty of a request that has
// ended.
func left(r api.Request, now time.Time) string {
	left := r.ExpiresAt.Sub(now)
	switch {
	case !r.State.Open() || r.ExpiresAt.IsZero():
		return ""
	case left > 0:
		return fmt.Sprintf("a signature now counts for %s more", cli.Span(left))
	}
	return "its payload is over, and the gate will issue it anew"
}

// detailsText shows every member of the payload whole, and the facts about other
// operations; or how many of them are not shown yet, which, and how to see them.
func (q Question) detailsText(v View, s Shown) string {
	if v.Details {
		text := Binds + PayloadText(q.Payload)
		if len(s.Others) > 0 {
			text += "  of other operations on this target:\n" + cli.Facts("    ", s.Others)
		}
		if s.Batch != "" {
			text += "  " + s.Batch + "\n"
		}
		return text
	}
	var names []string
	for _, f := range slices.Concat(q.behind(), s.Others) {
		names = append(names, cli.Inline(f.Name))
	}
	more := v.More
	if more == "" {
		more = "opsign show " + s.ID + " --details"
	}
	return fmt.Sprintf("  %s: %s (%s)\n", more, moreFacts(len(names)), strings.Join(names, "; "))
}

// takesBatch says in which roles a batch counts for a request that waits. An older gate says nothing, and takes none.
func takesBatch(r api.Request) string {
	switch {
	case r.State != op.StatePending:
		return ""
	case len(r.Batch) == 0:
		return "no batch counts: each signature is over this request alone"
	default:
		return fmt.Sprintf("a batch counts as %s, by keys that may sign one", cli.Inline(Roles(r.Batch)))
	}
}

func moreFacts(n int) string {
	if n == 1 {
		return "1 more fact"
	}
	return fmt.Sprintf("%d more facts", n)
}

// behind are the members of a payload that are shown as details alone.
func (q Question) behind() (out []op.Fact) {
	for _, f := range payloadFacts(q.Payload) {
		switch f.Name {
		case "op", "target", "host", "reason":
			continue
		case "params":
			if len(q.Payload.Params) > 0 && q.Payload.Op != op.Rotate {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

// Binds is the line that stands above PayloadText.
const Binds = "  what the signature binds:\n"

// PayloadText shows every member of a payload whole.
func PayloadText(p op.Payload) string {
	var rows []string
	for _, f := range payloadFacts(p) {
		rows = append(rows, "    "+cli.Row(f.Name, f.Text))
	}
	return cli.Columns(rows...)
}

// payloadFacts are the members of a payload, each with its name.
func payloadFacts(p op.Payload) []op.Fact {
	return []op.Fact{
		{Name: "op", Text: p.Op},
		{Name: "target", Text: p.Target.String()},
		{Name: "params", Text: string(p.Params.Canonical())},
		{Name: "host", Text: p.Host},
		{Name: "reason", Text: p.Reason},
		{Name: "gate", Text: string(p.Gate)},
		{Name: "incarnation", Text: string(p.Incarnation)},
		{Name: "state", Text: string(p.State)},
		{Name: "valid", Text: cli.Moment(p.IssuedAt) + " to " + cli.Moment(p.ExpiresAt)},
		{Name: "nonce", Text: p.Nonce},
	}
}

// Roles joins roles for a line.
func Roles(rs []op.Role) string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, string(r))
	}
	return cli.Inline(strings.Join(out, ", "))
}
