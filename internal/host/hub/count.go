package hub

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// limits are the most members or elements at a place: "/a" is the value of member a, "/a/*" all objects of the list
// there together. A value at any other place is skipped.
type limits map[string]int

// maxMembers bounds the members of the outermost object. Every known document has fewer.
const maxMembers = 64

var (
	desiredLimits    = limits{"": maxMembers, "/sets": MaxSets}
	operationsLimits = limits{"": maxMembers, "/operations": MaxOperations, "/operations/*": 8 * MaxOperations,
		"/operations/*/signatures": op.MaxSignatures * MaxOperations}
	reportLimits = limits{"": maxMembers, "/sets": MaxSets, "/guests": maxGuests, "/operations": maxReported}
)

// check counts before a document is decoded, and refuses too many members or elements as Oversized: an element takes
// two bytes of JSON, but a hundred of memory. It leaves a broken document to the decoder. The decoder stops at the
// break at the latest, so the document needs no count beyond it.
func (l limits) check(b []byte) error {
	c := counter{limits: l, seen: make(map[string]int, len(l)),
		tokens: jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	c.value("")
	if !c.over {
		return nil
	}
	what := c.at[strings.LastIndexByte(c.at, '/')+1:]
	if what == "" || what == "*" {
		what = "members"
	}
	return refusal.New(refusal.Oversized, "there are more than %d %s", l[c.at], what)
}

type counter struct {
	limits
	tokens *jsontext.Decoder
	seen   map[string]int
	over   bool
	at     string // the place with too much
}

// value counts the next value, and reports whether there is more to count.
func (c *counter) value(at string) bool {
	kind := c.tokens.PeekKind()
	if _, counts := c.limits[at]; !counts || kind != '{' && kind != '[' {
		return c.tokens.SkipValue() == nil
	}
	if _, err := c.tokens.ReadToken(); err != nil {
		return false
	}
	in := at + "/*"
	for next := c.tokens.PeekKind(); next != '}' && next != ']'; next = c.tokens.PeekKind() {
		if c.seen[at]++; c.seen[at] > c.limits[at] {
			c.over, c.at = true, at
			return false
		}
		if kind == '{' {
			name, err := c.tokens.ReadToken()
			if err != nil {
				return false
			}
			in = c.below(at, name.String())
		}
		if !c.value(in) {
			return false
		}
	}
	_, err := c.tokens.ReadToken()
	return err == nil
}

// below returns the place of a member: none if nothing is counted there.
func (c *counter) below(at, name string) string {
	if to := at + "/" + name; len(name) <= 32 {
		if _, counts := c.limits[to]; counts {
			return to
		}
	}
	return "skipped"
}
