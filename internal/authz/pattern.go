package authz

import (
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxPattern bounds principals, namespaces and patterns in bytes. maxPatterns bounds
// the number of patterns in a CA's line. ssh-keygen never matches a pattern of 1,023
// bytes or more.
const (
	maxPattern  = 255
	maxPatterns = 4096
)

// checkPrincipal checks the name of one person. It may have blanks.
func checkPrincipal(name string) error {
	switch {
	case name == "":
		return badLine("the principal is empty")
	case strings.ContainsAny(name, ",*?!"):
		return badLine("a key line names one principal, without , * ? and !")
	case strings.Contains(name, `"`):
		return badLine("a quote inside the principal")
	case len(name) > maxPattern:
		return badLine("the principal has more than %d bytes", maxPattern)
	default:
		return nil
	}
}

// CheckNewPrincipal refuses, as BadParams, a new principal or new patterns that are
// not printable ASCII. Many letters of other scripts look like Latin ones, and
// people sign for a name that they read. A file that already lists such names still
// loads.
func CheckNewPrincipal(name string) error {
	if op.ShownName(name) == name || !strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil
	}
	return refusal.New(refusal.BadParams, "the principal %s is not in ASCII alone, and could look like another",
		op.ShownName(name)).
		WithHint("write the name in ASCII")
}

// checkPatterns checks the pattern list of a CA's line. It refuses a list that can
// match no name, because its author expected a match.
func checkPatterns(list string) error {
	if len(list) > maxPatterns {
		return badLine("the principal patterns have more than %d bytes", maxPatterns)
	}
	grants := false
	for p := range strings.SplitSeq(list, ",") {
		p, negated := strings.CutPrefix(p, "!")
		switch {
		case p == "":
			return badLine("an empty principal pattern")
		case strings.Contains(p, "!"):
			return badLine("a ! inside a principal pattern; it negates only at the start of one")
		case strings.Contains(p, `"`):
			return badLine("a quote inside the principal patterns")
		case len(p) > maxPattern:
			return badLine("a principal pattern has more than %d bytes", maxPattern)
		}
		grants = grants || !negated
	}
	if !grants {
		return badLine("all principal patterns are negated, so that the line matches nobody")
	}
	return nil
}

// matchList reports whether a pattern of the list matches name and no negated
// pattern does (ssh_config(5), PATTERNS).
func matchList(name, list string) bool {
	found := false
	for p := range strings.SplitSeq(list, ",") {
		p, negated := strings.CutPrefix(p, "!")
		if !matchPattern(name, p) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// matchPattern matches * with any bytes and ? with one byte. It only goes back to
// the last *, so its time is bounded by the product of the lengths.
func matchPattern(name, pattern string) bool {
	i, j := 0, 0
	star, from := -1, 0 // the last *, and the place in name where the text after it was last tried
	for i < len(name) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, from = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == name[i]):
			i++
			j++
		case star >= 0:
			from++
			i, j = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}
