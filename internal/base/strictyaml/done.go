package strictyaml

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"gated/internal/base/spelling"
)

// walked is a map that the walk came to.
type walked struct {
	name   string   // the program's name for it
	missed []string // the keys that the program asked for and the file does not have, each once
}

// lack is what must be in a map and is not: a key, or one of several if key is empty.
type lack struct {
	node *yaml.Node
	key  string
	msg  string
}

// Lacks reports that a map has too little, such as none of several keys. A key of the map that is spelt almost like one
// that the program asked for is reported in its place.
func (v Value) Lacks(format string, args ...any) {
	if v.node != nil {
		v.d.lacks = append(v.d.lacks, lack{v.node, "", fmt.Sprintf(format, args...)})
	}
}

// Done ends the walk of the file that v is from. It returns the error nearest to the beginning of the file, an *Error.
// A key that the walk did not ask for is an error too. If its spelling is near to one that the walk asked for in the same
// map, the error says so, and not that the other one is missing.
func (v Value) Done() error {
	d := v.d
	for _, l := range d.lacks {
		if !d.misspelt(l) {
			d.failAt(l.node, "%s", l.msg)
		}
	}
	d.lacks = nil
	var first, at *yaml.Node
	var in *walked
	for n, m := range d.maps {
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if !d.asked[k] && (first == nil || k.Line < first.Line || k.Line == first.Line && k.Column < first.Column) {
				first, at, in = k, n, m
			}
		}
	}
	if first != nil {
		d.unknown(first, at, in)
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

// misspelt reports whether the map has an unknown key that is spelt almost like one that it lacks.
func (d *doc) misspelt(l lack) bool {
	lacking := []string{l.key}
	if m := d.maps[l.node]; l.key == "" && m != nil {
		lacking = m.missed
	}
	for i := 0; i+1 < len(l.node.Content); i += 2 {
		k := l.node.Content[i]
		if _, ok := spelling.Nearest(k.Value, lacking); ok && !d.asked[k] {
			return true
		}
	}
	return false
}

// unknown refuses a key of a map that the walk did not ask for.
func (d *doc) unknown(k, at *yaml.Node, in *walked) {
	text := "unknown key " + k.Value
	if in.name != "" {
		text += " in " + in.name
	}
	known := slices.Clone(in.missed)
	for i := 0; i < len(at.Content); i += 2 {
		if d.asked[at.Content[i]] {
			known = append(known, at.Content[i].Value)
		}
	}
	switch meant, ok := spelling.Nearest(k.Value, known); {
	case ok && slices.Contains(in.missed, meant):
		text += fmt.Sprintf("; is %q meant?", meant)
	case ok:
		text += fmt.Sprintf("; %q is there already", meant)
	}
	e := d.failAt(k, "%s", text)
	e.Key, e.In = k.Value, in.name
}
