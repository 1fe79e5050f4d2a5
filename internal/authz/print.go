package authz

import (
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Print returns the file in its canonical form. It has no comments or blank lines,
// one blank between fields, and quotes only around a principal that needs them. The
// options are in the order cert-authority, namespaces, valid-after, valid-before,
// and times are as short as possible. If it is loaded again, it has the same
// Signers, except for their line numbers, and prints the same.
func (t *Trust) Print() []byte {
	if t == nil {
		return nil
	}
	var b strings.Builder
	for _, e := range t.entries {
		b.WriteString(e.print())
	}
	return []byte(b.String())
}

func (e entry) print() string {
	principal := e.Principal
	if strings.ContainsAny(principal, blanks) || principal[0] == '#' {
		principal = `"` + principal + `"`
	}
	var options []string
	if e.CA {
		options = append(options, "cert-authority")
	}
	options = append(options, `namespaces="`+strings.Join(e.namespaces, ",")+`"`)
	if !e.ValidAfter.IsZero() {
		options = append(options, `valid-after="`+printTime(e.ValidAfter)+`"`)
	}
	if !e.ValidBefore.IsZero() {
		options = append(options, `valid-before="`+printTime(e.ValidBefore)+`"`)
	}
	return principal + " " + strings.Join(options, ",") + " " + string(ssh.MarshalAuthorizedKey(e.public))
}

// printTime writes the shortest of the three forms, so that printing never makes a
// file longer.
func printTime(at time.Time) string {
	switch h, m, s := at.Clock(); {
	case s != 0:
		return at.Format("20060102150405Z")
	case h != 0 || m != 0:
		return at.Format("200601021504Z")
	default:
		return at.Format("20060102Z")
	}
}
