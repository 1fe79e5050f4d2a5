package op

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// plainMembers reads an object that is canonical (RFC 8785) at sight: exactly the named members in the order of names,
// no space, each value a string of printable ASCII without an escape, and params in canonical form. It returns nil for
// any other text. The parser then decides, so plainMembers may only save its work, never accept more. Names are sorted
// (RFC 8785, 3.2.3). The values are parts of b.
func plainMembers(b []byte, names []string) map[string]jsontext.Value {
	members := make(map[string]jsontext.Value, len(names))
	rest, before := b, byte('{')
	for _, name := range names {
		key := len(name) + 4 // the byte before it, two quotes and a colon
		if len(rest) < key || rest[0] != before || rest[1] != '"' || string(rest[2:key-2]) != name ||
			rest[key-2] != '"' || rest[key-1] != ':' {
			return nil
		}
		rest, before = rest[key:], ','
		length := plainString(rest)
		if name == "params" {
			length = canonicalObject(rest)
		}
		if length == 0 {
			return nil
		}
		members[name], rest = rest[:length:length], rest[length:]
	}
	if string(rest) != "}" {
		return nil
	}
	return members
}

// plainString returns the length in bytes of the string at the beginning of b with its quotes, 0 if it is not plain.
func plainString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i, c := range b[1:] {
		switch {
		case c == '"':
			return i + 2
		case c < 0x20, c > 0x7e, c == '\\':
			return 0
		}
	}
	return 0
}

// canonicalObject returns the length in bytes of the object at the beginning of b, 0 if it is not in canonical form.
func canonicalObject(b []byte) int {
	if bytes.HasPrefix(b, []byte("{}")) {
		return 2
	}
	if len(b) == 0 || b[0] != '{' {
		return 0
	}
	v, err := jsontext.NewDecoder(bytes.NewReader(b)).ReadValue()
	if err != nil {
		return 0
	}
	canonical := v.Clone()
	if canonical.Canonicalize() != nil || !bytes.HasPrefix(b, canonical) {
		return 0
	}
	return len(canonical)
}
