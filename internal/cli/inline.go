package cli

import (
	"strconv"
	"strings"

	"gated/internal/op"
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
