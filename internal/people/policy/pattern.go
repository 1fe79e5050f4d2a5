package policy

import "strings"

// maxPattern bounds a pattern, in characters: twice the longest name.
const maxPattern = 256

// match reports whether all of s fits the pattern. In the pattern * means any text,
// and ? any one character. An empty pattern fits everything.
func match(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	want, text := []rune(pattern), []rune(s)
	star, mark := -1, 0 // the last *; the text that it matches so far ends at mark
	p, i := 0, 0
	for i < len(text) {
		switch {
		case p < len(want) && want[p] == '*':
			star, mark = p, i
			p++
		case p < len(want) && (want[p] == '?' || want[p] == text[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(string(want[p:]), "*") == ""
}

// overlap reports whether some text fits both patterns.
func overlap(a, b string) bool {
	if a == "" || b == "" {
		return true
	}
	x, y := []rune(a), []rune(b)
	// fits[j] says whether x[i:] and y[j:] overlap, for the i of its row. The last
	// row is computed first.
	var below []bool
	for i := len(x); i >= 0; i-- {
		fits := make([]bool, len(y)+1)
		for j := len(y); j >= 0; j-- {
			switch {
			case i == len(x) && j == len(y):
				fits[j] = true
			case i < len(x) && x[i] == '*':
				fits[j] = below[j] || j < len(y) && fits[j+1]
			case j < len(y) && y[j] == '*':
				fits[j] = fits[j+1] || i < len(x) && below[j]
			case i < len(x) && j < len(y):
				fits[j] = (x[i] == '?' || y[j] == '?' || x[i] == y[j]) && below[j+1]
			}
		}
		below = fits
	}
	return below[0]
}
