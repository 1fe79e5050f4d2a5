package policy

import "strings"

// maxPattern bounds a pattern, in characters: twice the longest name.
const maxPattern = 256

// match reports whether the whole of s fits the pattern, in which * stands for
// any text and ? for any one character. An empty pattern fits everything.
func match(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	want, text := []rune(pattern), []rune(s)
	star, mark := -1, 0 // the last * and what it stands for so far ends at mark
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
	// fits[j] says of the x[i:] of its row whether it and y[j:] overlap; the rows
	// are made from the last one on.
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
