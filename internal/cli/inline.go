package cli

import (
	"strconv"
	"strings"
	"unicode"

	"gated/internal/op"
)

// maxMarks is how many combining marks one letter may carry and still be shown
// as it is. Vietnamese needs two; stacks of them reach into the lines around.
const maxMarks = 2

// Inline returns text of others' as it may stand inside a line of ours. It is
// stricter than op.Shown: what could pass for the layout of a screen is quoted
// too, with everything escaped that is not plain ASCII. That is two spaces in a
// row, a space at either end, any character that leaves a blank, and marks that
// stack or have no letter of their own.
func Inline(s string) string {
	if op.Shown(s) == s && inline(s) {
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

func inline(s string) bool {
	before, marks := ' ', 0
	for _, r := range s {
		switch {
		case r == ' ':
			if before == ' ' {
				return false
			}
			marks = 0
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks || before == ' ' {
				return false
			}
			if blank(r) {
				return false
			}
			continue // it belongs to the letter before
		case blank(r):
			return false
		default:
			marks = 0
		}
		before = r
	}
	return before != ' ' || s == ""
}

// blank reports whether a character leaves nothing to see, or nothing that is
// known: the space characters but the usual one, letters and symbols that are
// blank, and what Unicode has not assigned.
func blank(r rune) bool {
	return r == '\u2800' || !unicode.IsPrint(r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
