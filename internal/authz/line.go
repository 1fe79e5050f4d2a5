package authz

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// maxPattern bounds principals and namespaces. ssh-keygen never matches a
// pattern of 1,023 bytes or more.
const maxPattern = 255

const blanks = " \t"

func badLine(format string, args ...any) error { return op.Refuse(op.Malformed, format, args...) }

// parseLine parses one line without its newline; ok is false for a blank line
// or a comment. It never reads a line in another way than ssh-keygen does: what
// the two could see differently is refused.
func parseLine(s string) (e entry, ok bool, err error) {
	if strings.Contains(s, "\r") {
		return entry{}, false, badLine("a carriage return; lines end with a newline alone")
	}
	// Tabs are blanks here. NUL and a byte-order mark end up in CheckText,
	// and so does what would show a comment as a key line or the reverse.
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
	e.public, err = parseKeyFields(s)
	if err != nil {
		return entry{}, false, err
	}
	e.Key = ssh.FingerprintSHA256(e.public)
	e.KeyType = e.public.Type()
	e.Software = true // the types that need a touch are refused above
	return e, true, nil
}

// cutPrincipal takes the first field, which may stand in quotes, and the blanks
// after it.
func cutPrincipal(s string) (principal, rest string, err error) {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		principal, rest, ok = strings.Cut(quoted, `"`)
		if !ok {
			return "", "", badLine("the principal's quote is not closed")
		}
	} else {
		end := strings.IndexAny(s, blanks)
		if end < 0 {
			return "", "", badLine("there is nothing after the principal")
		}
		principal, rest = s[:end], s[end:]
	}
	switch after := strings.TrimLeft(rest, blanks); {
	case principal == "":
		return "", "", badLine("the principal is empty")
	case strings.ContainsAny(principal, ",*?!"):
		return "", "", badLine("a key line names one principal, without , * ? and !")
	case strings.Contains(principal, `"`):
		return "", "", badLine("a quote inside the principal")
	case len(principal) > maxPattern:
		return "", "", badLine("the principal has more than %d bytes", maxPattern)
	case after == "":
		return "", "", badLine("there is nothing after the principal")
	case len(after) == len(rest):
		return "", "", badLine("there is no space after the principal's quote")
	default:
		return principal, after, nil
	}
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

// cutOption takes one name="value".
func cutOption(s string) (name, value, rest string, err error) {
	end := 0
	for end < len(s) && (s[end] >= 'a' && s[end] <= 'z' || s[end] == '-') {
		end++
	}
	name = s[:end]
	switch name {
	case "namespaces", "valid-after", "valid-before":
	case "cert-authority":
		return "", "", "", badLine("cert-authority lines are not supported yet")
	default:
		// The name is not shown: what stands here by mistake may be a key.
		return "", "", "", op.Refuse(op.Malformed, "an unknown option").
			WithHint("the options are namespaces, valid-after and valid-before, in lower case")
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
	case "namespaces":
		e.Roles, err = parseNamespaces(value)
	case "valid-after":
		e.ValidAfter, err = parseTime(name, value)
	case "valid-before":
		e.ValidBefore, err = parseTime(name, value)
	}
	return err
}

// parseNamespaces returns the roles among literal namespaces; others, such as
// git, are none of our business.
func parseNamespaces(value string) ([]op.Role, error) {
	list := strings.Split(value, ",")
	for _, ns := range list {
		switch {
		case ns == "":
			return nil, badLine("an empty namespace")
		case strings.ContainsAny(ns, "*?!"):
			return nil, badLine("a namespace with a wildcard or !")
		case len(ns) > maxPattern:
			return nil, badLine("a namespace has more than %d bytes", maxPattern)
		}
	}
	var roles []op.Role
	for _, r := range op.Roles {
		if slices.Contains(list, r.Namespace()) {
			roles = append(roles, r)
		}
	}
	return roles, nil
}

// parseTime reads YYYYMMDD[HHMM[SS]]Z. Without the Z ssh-keygen would use the
// time zone of whoever runs it; the epoch itself it takes for no time at all.
func parseTime(name, value string) (time.Time, error) {
	for _, layout := range []string{"20060102Z", "200601021504Z", "20060102150405Z"} {
		if len(value) != len(layout) {
			continue
		}
		if t, err := time.Parse(layout, value); err == nil && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, op.Refuse(op.Malformed, "the value of %s is not a time", name).
		WithHint("write YYYYMMDDZ, YYYYMMDDHHMMZ or YYYYMMDDHHMMSSZ; the Z is required")
}

// parseKeyFields reads a key's type and base64; what follows is a comment.
func parseKeyFields(s string) (ssh.PublicKey, error) {
	typ := s[:fieldEnd(s)]
	s = strings.TrimLeft(s[len(typ):], blanks)
	text := s[:fieldEnd(s)]
	if text == "" {
		return nil, badLine("the key is missing or cut short")
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(blob) != text {
		return nil, badLine("the key is not base64")
	}
	if keyType(blob) != typ {
		return nil, badLine("the key's type is not the one that the line names")
	}
	return parseKey(blob)
}

func fieldEnd(s string) int {
	if i := strings.IndexAny(s, blanks); i >= 0 {
		return i
	}
	return len(s)
}

// isKeyType recognises a key that stands where the options should.
func isKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-sha2-") || strings.HasPrefix(s, "sk-")
}

func missingNamespaces() error {
	return op.Refuse(op.Malformed, "the option namespaces is missing").
		WithHint(`say what the key may sign, as in: alice@example.com namespaces="operational@gated" ssh-ed25519 …`)
}
