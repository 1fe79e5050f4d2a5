package strictyaml

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one value of the file on its walk. The zero Value is an absent one:
// it reads as the zero value of any type and is never wrong.
type Value struct {
	d    *doc
	name string
	node *yaml.Node
}

// Named returns the value under another name in errors.
func (v Value) Named(name string) Value { v.name = name; return v }

// Present reports whether the file has the value.
func (v Value) Present() bool { return v.node != nil }

// Fail reports the value as wrong, at its place in the file.
func (v Value) Fail(format string, args ...any) {
	if v.node != nil {
		v.d.failAt(v.node, fmt.Sprintf(format, args...))
	}
}

// At returns the line and column of the value, from 1.
func (v Value) At() (line, column int) {
	if v.node == nil {
		return 0, 0
	}
	return v.node.Line, v.node.Column
}

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.node != nil && v.node.Kind == yaml.SequenceNode }

// IsInt reports whether YAML takes the value for a whole number, in whatever
// spelling.
func (v Value) IsInt() bool { return v.node != nil && v.node.Tag == "!!int" }

// String returns a text. What YAML takes for a number, a time or (in its older
// version) a truth value is text only in quotes.
func (v Value) String() string {
	if !v.is(yaml.ScalarNode, "text") {
		return ""
	}
	n := v.node
	switch {
	case n.Tag != "!!str":
		v.Fail("%s is not text to YAML but %s; put it in quotes: %q", v.name, tagNames[n.Tag], n.Value)
	case n.Style == 0 && oldBool(n.Value):
		v.Fail("%s is a truth value to older readers of YAML; put it in quotes: %q", v.name, n.Value)
	default:
		return n.Value
	}
	return ""
}

// Int returns a whole decimal number between lowest and highest, both
// inclusive.
func (v Value) Int(lowest, highest int64) int64 {
	if !v.is(yaml.ScalarNode, "a whole number") {
		return 0
	}
	n, err := strconv.ParseInt(v.node.Value, 10, 64)
	// Only the one decimal spelling: 010, 0x10, +1 and 1_000 are numbers to
	// YAML too, and not the same one to everybody.
	if v.node.Tag != "!!int" || v.node.Style != 0 || err != nil || strconv.FormatInt(n, 10) != v.node.Value {
		v.Fail("%s is not a whole number", v.name)
		return 0
	}
	if n < lowest || n > highest {
		v.Fail("%s is %d, outside %d to %d", v.name, n, lowest, highest)
		return 0
	}
	return n
}

// Bool returns a truth value, spelt true or false and nothing else.
func (v Value) Bool() bool {
	if !v.is(yaml.ScalarNode, "true or false") {
		return false
	}
	if v.node.Style != 0 || v.node.Value != "true" && v.node.Value != "false" {
		v.Fail("%s is neither true nor false", v.name)
		return false
	}
	return v.node.Value == "true"
}

// Map returns a map; of an absent value an absent one.
func (v Value) Map() *Map {
	if !v.is(yaml.MappingNode, "a map") {
		return &Map{}
	}
	return v.d.newMap(v.name, v.node)
}

// List returns the values of a list.
func (v Value) List() []Value {
	if !v.is(yaml.SequenceNode, "a list") {
		return nil
	}
	out := make([]Value, len(v.node.Content))
	for i, n := range v.node.Content {
		out[i] = Value{d: v.d, name: v.name, node: n}
	}
	return out
}

func (v Value) is(kind yaml.Kind, what string) bool {
	if v.node == nil {
		return false
	}
	if v.node.Kind != kind {
		v.Fail("%s is not %s", v.name, what)
		return false
	}
	return true
}

var tagNames = map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "a truth value",
	"!!timestamp": "a time", "!!binary": "binary data"}

// oldBool reports the words that YAML 1.1 takes for truth values.
func oldBool(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off":
		return true
	}
	return false
}
