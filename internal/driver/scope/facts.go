package scope

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
)

// These bounds limit what people see of one scope. The fingerprint covers all of it, so a
// signature binds all of it.
const (
	maxShown    = 100 // reservations
	maxPatterns = 400 // bytes of patterns of one reservation
	maxReason   = 200 // bytes of a reason
)

// facts are what operators should see before they take reservations away.
func facts(v reserve.View, s sight) []op.Fact {
	out := []op.Fact{
		{Name: "path", Text: op.Shown(v.Scope.Place.String())},
		{Name: "directory", Text: directory(v.Scope, s)},
		{Name: "reservations", Text: strconv.Itoa(len(v.Reservations))},
	}
	for i, r := range v.Reservations {
		if i == maxShown {
			return append(out, op.Fact{Name: "and", Text: fmt.Sprintf("%d more: gated reservation list shows them", len(v.Reservations)-i)})
		}
		out = append(out, op.Fact{Name: r.ID.String(), Text: reservation(r)})
	}
	return out
}

// factsOfOne are what operators should see before they transfer one reservation. The scope's
// other reservations change often, and the signature does not cover them.
func factsOfOne(v reserve.View, s sight, r reserve.Reservation, to reserve.Holder) []op.Fact {
	return []op.Fact{
		{Name: r.ID.String(), Text: reservation(r)},
		{Name: "goes to", Text: fmt.Sprintf("%s (uid %v, registration %d)", op.Shown(to.Name), to.Account(), to.Registration)},
		{Name: "path", Text: op.Shown(v.Scope.Place.String())},
		{Name: "directory", Text: directory(v.Scope, s)},
	}
}

func directory(of reserve.Scope, s sight) string {
	if s.hidden != "" {
		return fmt.Sprintf("not seen (%s); that of device %d, inode %d was registered at %s", s.hidden, of.Device, of.Inode, moment(of.At))
	}
	return fmt.Sprintf("seen, and as it was registered (device %d, inode %d)", of.Device, of.Inode)
}

// reservation says who holds what, since when and until when. The reason is the holder's text.
// It is always in quotation marks, so that a reader does not take it for the gate's own text.
func reservation(r reserve.Reservation) string {
	text := fmt.Sprintf("%s %s by %s (uid %v, %s), since %s, until %s", r.Mode, patterns(r.Patterns), op.Shown(r.Holder.String()), r.Holder.Account(),
		r.Life(), moment(r.CreatedAt), moment(r.ExpiresAt))
	if r.Keep {
		text += ", kept beyond the process"
	}
	if r.Reason == "" {
		return text + ", no reason given"
	}
	return text + ", in the holder's words: " + quoted(r.Reason, maxReason)
}

// patterns lists as many patterns as fit. It cuts a very long one.
func patterns(list []string) string {
	var out []string
	size := 0
	for i, p := range list {
		text := quoted(p, maxPatterns)
		if size += len(text); i > 0 && size > maxPatterns {
			return strings.Join(out, " ") + fmt.Sprintf(" and %d more", len(list)-i)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// quoted returns at most n bytes of another's text in quotation marks. If it cuts the text, it
// says how long the text is.
func quoted(s string, n int) string {
	whole := len(s)
	if whole > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	text := strconv.Quote(s)
	if op.CheckText("", s) != nil || op.CheckText("", text) != nil {
		text = strconv.QuoteToASCII(s)
	}
	if len(s) < whole {
		text += fmt.Sprintf("… (%d bytes in all)", whole)
	}
	return text
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
