package authz

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const blanks = " \t"

func badLine(format string, args ...any) error {
	return refusal.New(refusal.Malformed, format, args...)
}

// parseLine parses one line without its newline; ok is false for a blank line or a
// comment. It never reads a line differently from ssh-keygen: it refuses what the
// two could read in different ways.
func parseLine(s string) (e entry, ok bool, err error) {
	if strings.Contains(s, "\r") {
		return entry{}, false, badLine("a carriage return; lines end with a newline alone")
	}
	// Tabs are blanks here. CheckText refuses NUL and a byte-order mark, and text
	// that would show a comment as a key line or the reverse.
	if err := op.CheckText("the line", strings.ReplaceAll(s, "\t", " ")); err != nil {
		return entry{}, false, err
	}
	s = strings.TrimLeft(s, blanks)
	if s == "" || s[0] == '#' {
		return entry{}, false, nil
	}
	e.Principal, s, err = cutPrincipal(s)
	if err != nil {
		return entry{}, false, err
	}
	s, err = e.cutOptions(s)
	if err != nil {
		return entry{}, false, err
	}
	if err := e.checkPrincipal(); err != nil {
		return entry{}, false, err
	}
	e.public, err = parseKeyFields(s)
	if err != nil {
		return entry{}, false, err
	}
	e.Key = ssh.FingerprintSHA256(e.public)
	e.KeyType = e.public.Type()
	_, touch := e.public.(securityKey)
	k, browser := e.public.(passkey)
	if browser && e.CA {
		return entry{}, false, badLine("a passkey certifies no keys")
	}
	e.Passkey = k.party
	e.Software = e.CA || !touch && !browser
	return e, true, nil
}

// cutPrincipal takes the first field, which may be in quotes, and the blanks after
// it.
func cutPrincipal(s string) (principal, rest string, err error) {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		principal, rest, ok = strings.Cut(quoted, `"`)
		if !ok {
			return "", "", badLine("the principal's quote is not closed")
		}
	} else {
		end := fieldEnd(s)
		principal, rest = s[:end], s[end:]
	}
	switch after := strings.TrimLeft(rest, blanks); {
	case after == "":
		return "", "", badLine("there is nothing after the principal")
	case len(after) == len(rest):
		return "", "", badLine("there is no space after the principal's quote")
	default:
		return principal, after, nil
	}
}

func (e *entry) checkPrincipal() error {
	if e.CA {
		return checkPatterns(e.Principal)
	}
	return checkPrincipal(e.Principal)
}

// cutOptions takes the options field and the blanks after it.
func (e *entry) cutOptions(s string) (rest string, err error) {
	if isKeyType(s[:fieldEnd(s)]) {
		return "", missingNamespaces()
	}
	var seen []string
	for {
		name, value, after, err := cutOption(s)
		if err != nil {
			return "", err
		}
		if slices.Contains(seen, name) {
			return "", badLine("the option %s is there twice", name)
		}
		seen = append(seen, name)
		if err := e.set(name, value); err != nil {
			return "", err
		}
		if next, ok := strings.CutPrefix(after, ","); ok {
			s = next
			continue
		}
		rest = strings.TrimLeft(after, blanks)
		if len(rest) == len(after) || rest == "" {
			return "", badLine("no key follows the options")
		}
		break
	}
	switch {
	case !slices.Contains(seen, "namespaces"):
		return "", missingNamespaces()
	case !e.ValidAfter.IsZero() && !e.ValidBefore.IsZero() && !e.ValidBefore.After(e.ValidAfter):
		return "", badLine("valid-before is not after valid-after")
	default:
		return rest, nil
	}
}

// cutOption takes one name="value", or cert-authority.
func cutOption(s string) (name, value, rest string, err error) {
	end := 0
	for end < len(s) && (s[end] >= 'a' && s[end] <= 'z' || s[end] == '-') {
		end++
	}
	name = s[:end]
	switch name {
	case "namespaces", "valid-after", "valid-before":
	case "cert-authority":
		if strings.HasPrefix(s[end:], "=") {
			return "", "", "", badLine("cert-authority takes no value")
		}
		return name, "", s[end:], nil
	default:
		// The name is not shown, because it may be a key in the wrong place.
		return "", "", "", refusal.New(refusal.Malformed, "an unknown option").
			WithHint("the options are cert-authority, namespaces, valid-after and valid-before, in lower case")
	}
	quoted, ok := strings.CutPrefix(s[end:], `="`)
	if !ok {
		return "", "", "", badLine(`%s is not followed by ="`, name)
	}
	value, rest, ok = strings.Cut(quoted, `"`)
	switch {
	case !ok:
		return "", "", "", badLine("the quote of %s is not closed", name)
	case strings.ContainsAny(value, blanks+`\`):
		return "", "", "", badLine("the value of %s has a blank or a backslash in it", name)
	default:
		return name, value, rest, nil
	}
}

func (e *entry) set(name, value string) (err error) {
	switch name {
	case "cert-authority":
		e.CA = true
	case "namespaces":
		e.namespaces, err = parseNamespaces(value)
		e.Roles = rolesOf(e.namespaces)
		e.Batches = batchesOf(e.Roles, e.namespaces)
	case "valid-after":
		e.ValidAfter, err = parseTime(name, value)
	case "valid-before":
		e.ValidBefore, err = parseTime(name, value)
	}
	return err
}

// parseNamespaces returns literal namespaces, all different.
func parseNamespaces(value string) ([]string, error) {
	var out []string
	for ns := range strings.SplitSeq(value, ",") {
		switch {
		case ns == "":
			return nil, badLine("an empty namespace")
		case strings.ContainsAny(ns, "*?!"):
			return nil, badLine("a namespace with a wildcard or !")
		case len(ns) > maxPattern:
			return nil, badLine("a namespace has more than %d bytes", maxPattern)
		}
		if !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	return out, nil
}

// rolesOf returns the roles of namespaces: first those of every gate in op.Roles'
// order, then others by name. It ignores other namespaces, such as git.
func rolesOf(namespaces []string) []op.Role {
	var out []op.Role
	for _, ns := range namespaces {
		if role, ok := op.RoleOfNamespace(ns); ok {
			out = append(out, role)
		}
	}
	slices.SortFunc(out, func(a, b op.Role) int {
		i, j := slices.Index(op.Roles, a), slices.Index(op.Roles, b)
		if i < 0 && j < 0 {
			return strings.Compare(string(a), string(b))
		}
		return cmp.Compare(uint(i), uint(j)) // as uint, -1 is the greatest
	})
	return out
}

// batchesOf returns the roles of a line in which it may sign batches too: those with both
// namespaces.
func batchesOf(roles []op.Role, namespaces []string) []op.Role {
	return slices.DeleteFunc(slices.Clone(roles), func(r op.Role) bool {
		return !r.SignsBatches() || !slices.Contains(namespaces, r.BatchNamespace())
	})
}

// parseTime reads YYYYMMDD[HHMM[SS]]Z. Without the Z, ssh-keygen would use the local
// time zone. It reads the Unix epoch as no time, so parseTime refuses that.
func parseTime(name, value string) (time.Time, error) {
	for _, layout := range []string{"20060102Z", "200601021504Z", "20060102150405Z"} {
		if len(value) != len(layout) {
			continue
		}
		if t, err := time.Parse(layout, value); err == nil && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, refusal.New(refusal.Malformed, "the value of %s is not a time", name).
		WithHint("write YYYYMMDDZ, YYYYMMDDHHMMZ or YYYYMMDDHHMMSSZ; the Z is required")
}

// parseKeyFields reads a key's type and base64. The rest is a comment.
func parseKeyFields(s string) (ssh.PublicKey, error) {
	blob, err := keyFields(s)
	if err != nil {
		return nil, err
	}
	return parseKey(blob)
}

func keyFields(s string) (blob []byte, err error) {
	typ := s[:fieldEnd(s)]
	s = strings.TrimLeft(s[len(typ):], blanks)
	text := s[:fieldEnd(s)]
	if text == "" {
		return nil, badLine("the key is missing or cut short")
	}
	blob, err = base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(blob) != text {
		return nil, badLine("the key is not base64")
	}
	if keyType(blob) != typ {
		return nil, badLine("the key's type is not the one that the line names")
	}
	return blob, nil
}

func fieldEnd(s string) int {
	if i := strings.IndexAny(s, blanks); i >= 0 {
		return i
	}
	return len(s)
}

// isKeyType recognises a key in the place of the options.
func isKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-sha2-") || strings.HasPrefix(s, "sk-")
}

func missingNamespaces() error {
	return refusal.New(refusal.Malformed, "the option namespaces is missing").
		WithHint(`say what the key may sign, as in: alice@example.com namespaces="operational@gated" ssh-ed25519 …`)
}

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
