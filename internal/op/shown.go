package op

import "strconv"

// Shown returns text that came from elsewhere as it may be printed on a
// terminal: as it is if CheckText has nothing against it, else quoted, with
// everything escaped that is not plain ASCII.
func Shown(s string) string {
	if CheckText("", s) == nil {
		return s
	}
	return strconv.QuoteToASCII(s)
}
