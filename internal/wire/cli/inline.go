package cli

import (
	"strconv"
	"strings"

	"gated/internal/base/op"
)

// Inline returns text of others' as it may stand inside a line of ours. It is
// stricter than op.Shown: two spaces in a row, or a space at either end, could
// pass for the layout of a screen. Such text is quoted too, with everything
// escaped that is not plain ASCII. Two different texts are never shown alike.
func Inline(s string) string {
	if shown := op.Shown(s); shown == s && !strings.Contains(s, "  ") && strings.Trim(s, " ") == s {
		return s
	}
	quoted := strconv.QuoteToASCII(s)
	var b strings.Builder
	for i := range len(quoted) {
		// Spaces in a row would still move what follows them to the next line.
		if quoted[i] == ' ' && (quoted[i-1] == ' ' || quoted[i+1] == ' ') {
			b.WriteString(`\x20`)
		} else {
			b.WriteByte(quoted[i])
		}
	}
	return b.String()
}

// Quoted shows others' words as data: always between quotes, in one line. "" stays
// empty.
func Quoted(s string) string {
	if s == "" {
		return ""
	}
	if shown := Inline(s); shown != s {
		return shown
	}
	return strconv.Quote(s)
}

// Person returns the name of somebody who signs, or may, as it may stand inside
// a line of ours: only ASCII, because letters of other scripts look like it.
func Person(name string) string {
	if op.ShownName(name) != name {
		return op.ShownName(name)
	}
	return Inline(name)
}

// People joins the names of those who sign, or may.
func People(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = Person(name)
	}
	return strings.Join(out, ", ")
}

// maxAsked is how many characters of parameters stand in a line of a list.
const maxAsked = 60

// Asked names a target with what is asked of it: its parameters as they are
// signed, cut where they are long, and nothing where there are none. It is for a
// line of a list (see Inline); what is signed is shown whole elsewhere.
func Asked(target string, p op.Params) string {
	if len(p) == 0 {
		return Inline(target)
	}
	text := []rune(string(p.Canonical()))
	if len(text) > maxAsked {
		text = append(text[:maxAsked:maxAsked], []rune("...")...)
	}
	return Inline(target) + " " + Inline(string(text))
}
