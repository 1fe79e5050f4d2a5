package strictyaml

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one value of the file during the walk. The zero Value is an absent one: it reads as the zero value of any
// type and is never wrong.
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
		v.d.failAt(v.node, format, args...)
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

// IsInt reports whether YAML reads the value as a whole number, in any spelling.
func (v Value) IsInt() bool { return v.node != nil && v.node.Tag == "!!int" }

// Each iterates over the keys and values of a map, in the order of the file. It counts as asking for each key. It is
// for maps whose keys are names that people choose.
func (v Value) Each() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		pairs := v.pairs()
		for i := 0; i+1 < len(pairs); i += 2 {
			k := pairs[i]
			v.d.asked[k] = true
			if !yield(k.Value, Value{v.d, k.Value, pairs[i+1]}) {
				return
			}
		}
	}
}

// Get returns the value of a key of a map; the zero Value if the map is absent.
func (v Value) Get(key string) Value {
	pairs := v.pairs()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Value == key {
			v.d.asked[pairs[i]] = true
			return Value{v.d, key, pairs[i+1]}
		}
	}
	if v.node != nil {
		if m := v.d.maps[v.node]; m != nil && !slices.Contains(m.missed, key) {
			m.missed = append(m.missed, key)
		}
	}
	return Value{name: key}
}

// Need is Get for a key that must be there.
func (v Value) Need(key string) Value {
	e := v.Get(key)
	if !e.Present() && v.node != nil {
		v.d.lacks = append(v.d.lacks, lack{v.node, key, key + " is missing"})
	}
	return e
}

// pairs returns the keys and values of a map, and marks the map as walked.
func (v Value) pairs() []*yaml.Node {
	if !v.is(yaml.MappingNode, "a map") {
		return nil
	}
	if m := v.d.maps[v.node]; m != nil {
		m.name = v.name
	} else {
		v.d.maps[v.node] = &walked{name: v.name}
	}
	return v.node.Content
}

// List returns the values of a list.
func (v Value) List() []Value {
	if !v.is(yaml.SequenceNode, "a list") {
		return nil
	}
	out := make([]Value, len(v.node.Content))
	for i, n := range v.node.Content {
		out[i] = Value{v.d, "a value of " + v.name, n}
	}
	return out
}

// Text returns a text. A value that YAML reads as a number or a time, or YAML 1.1 as a truth value, is a text only in
// quotes.
func (v Value) Text() string {
	if !v.is(yaml.ScalarNode, "text") {
		return ""
	}
	n := v.node
	switch {
	case n.Tag != "!!str":
		v.Fail("%s is not text to YAML but %s; put it in quotes: %q", v.name, tagNames[n.Tag], n.Value)
	case n.Style == 0 && oldBool[strings.ToLower(n.Value)]:
		v.Fail("%s is a truth value to older readers of YAML; put it in quotes: %q", v.name, n.Value)
	default:
		return n.Value
	}
	return ""
}

// Int returns a whole number between lowest and highest, both inclusive, in its one decimal spelling. 010, 0x10, +1 and
// 1_000 are numbers to YAML too, but not the same number to every program.
func (v Value) Int(lowest, highest int64) int64 {
	if !v.is(yaml.ScalarNode, "a whole number") {
		return 0
	}
	n, err := strconv.ParseInt(v.node.Value, 10, 64)
	switch {
	case v.node.Tag != "!!int" || v.node.Style != 0 || err != nil || strconv.FormatInt(n, 10) != v.node.Value:
		v.Fail("%s is not a whole number", v.name)
	case n < lowest || n > highest:
		v.Fail("%s is %d, outside %d to %d", v.name, n, lowest, highest)
	default:
		return n
	}
	return 0
}

// Bool returns a truth value, which is spelt true or false.
func (v Value) Bool() bool {
	if !v.is(yaml.ScalarNode, "true or false") {
		return false
	}
	if v.node.Style != 0 || v.node.Value != "true" && v.node.Value != "false" {
		v.Fail("%s is neither true nor false", v.name)
	}
	return v.node.Style == 0 && v.node.Value == "true"
}

func (v Value) is(kind yaml.Kind, what string) bool {
	if v.node != nil && v.node.Kind != kind {
		v.Fail("%s is not %s", v.name, what)
	}
	return v.node != nil && v.node.Kind == kind
}

var tagNames = map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "a truth value",
	"!!timestamp": "a time", "!!binary": "binary data"}

// oldBool has the words that YAML 1.1 reads as truth values.
var oldBool = map[string]bool{"yes": true, "no": true, "on": true, "off": true}

// Sound reports whether nothing was wrong so far, anywhere in the file. Then the values read until now are those of the
// file, and can be compared.
func (v Value) Sound() bool { return v.d == nil || v.d.err == nil && len(v.d.lacks) == 0 }
