package strictyaml

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Map is a map of the file on its walk. The zero Map is an absent one: it has
// no keys.
type Map struct {
	d     *doc
	name  string
	node  *yaml.Node
	index map[string]int // key → where its value is in node.Content
	read  map[string]bool
}

func (d *doc) newMap(name string, n *yaml.Node) *Map {
	m := &Map{d: d, name: name, node: n, index: make(map[string]int, len(n.Content)/2), read: map[string]bool{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		m.index[n.Content[i].Value] = i + 1
	}
	d.maps = append(d.maps, m)
	return m
}

// Has reports whether the map has the key. It does not count as asking for it.
func (m *Map) Has(key string) bool { _, ok := m.index[key]; return ok }

// Keys returns every key in the order of the file, and counts as asking for
// each: for maps whose keys are names that people choose.
func (m *Map) Keys() []string {
	if m.node == nil {
		return nil
	}
	keys := make([]string, 0, len(m.index))
	for i := 0; i+1 < len(m.node.Content); i += 2 {
		key := m.node.Content[i].Value
		m.read[key] = true
		keys = append(keys, key)
	}
	return keys
}

// Get returns the value of a key; of an absent one the zero Value.
func (m *Map) Get(key string) Value {
	i, ok := m.index[key]
	if !ok {
		return Value{name: key}
	}
	m.read[key] = true
	return Value{d: m.d, name: key, node: m.node.Content[i]}
}

// Need is Get for a key that must be there.
func (m *Map) Need(key string) Value {
	if m.node != nil && !m.Has(key) {
		m.Fail("%s is missing", key)
	}
	return m.Get(key)
}

// String returns the text of a key, or "".
func (m *Map) String(key string) string { return m.Get(key).String() }

// Int returns the whole number of a key, which must be between lowest and
// highest, both inclusive; or 0.
func (m *Map) Int(key string, lowest, highest int64) int64 { return m.Get(key).Int(lowest, highest) }

// Bool returns the truth value of a key, or false.
func (m *Map) Bool(key string) bool { return m.Get(key).Bool() }

// Map returns the map of a key, or an absent one.
func (m *Map) Map(key string) *Map { return m.Get(key).Map() }

// List returns the values of the list of a key, or none.
func (m *Map) List(key string) []Value { return m.Get(key).List() }

// Fail reports the map as wrong, at its beginning.
func (m *Map) Fail(format string, args ...any) {
	if m.node != nil {
		m.d.failAt(m.node, fmt.Sprintf(format, args...))
	}
}

// At returns the line and column at which the map begins, from 1.
func (m *Map) At() (line, column int) {
	if m.node == nil {
		return 0, 0
	}
	return m.node.Line, m.node.Column
}

// Sound reports whether nothing was found wrong so far, anywhere in the file.
// What was read until then is what the file says, and can be compared.
func (m *Map) Sound() bool { return m.d == nil || m.d.err == nil }

// Done ends the walk of the file that m is the root of. It returns the error
// nearest to the beginning of the file, an *Error, where a key of any map that
// nobody asked for is one too.
func (m *Map) Done() error {
	if m.d == nil {
		return errors.New("strictyaml: Done of an absent map")
	}
	for _, sub := range m.d.maps {
		sub.refuseUnread()
	}
	if m.d.err != nil {
		return m.d.err
	}
	return nil
}

func (m *Map) refuseUnread() {
	if len(m.read) == len(m.index) {
		return
	}
	for i := 0; i+1 < len(m.node.Content); i += 2 {
		k := m.node.Content[i]
		if m.read[k.Value] {
			continue
		}
		msg := fmt.Sprintf("unknown key %s", k.Value)
		if m.name != "" {
			msg += " in " + m.name
		}
		e := m.d.failAt(k, msg)
		e.Key, e.In = k.Value, m.name
		return
	}
}
