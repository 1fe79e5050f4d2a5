// Package strictyaml reads the small part of YAML that means the same to every program and person: maps, lists, text in
// UTF-8, whole decimal numbers, true and false. It refuses anchors, aliases, merges, tags, nulls, duplicate and unknown
// keys, a second document and control characters. It also refuses a value of another type than the program asks for.
// Each refusal has its place.
//
// go.yaml.in/yaml/v3 parses the file into a tree, which is then walked by type:
//
//	root, err := strictyaml.Parse("gated.yaml", b)
//	if err != nil { … }
//	host := root.Get("host").Text()
//	workers := root.Get("limits").Get("workers").Int(1, 1024)
//	err = root.Done() // the first thing wrong, or a key that the program did not ask for
//
// The walk never stops half-way: an absent or wrong value reads as the zero value, and Done says what was wrong.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of a file. They are checked before a tree is built or walked.
const (
	// MaxBytes is the size of the largest file, in bytes.
	MaxBytes = 16 << 20
	// MaxMarks bounds the line ends, commas, colons, dashes and brackets that begin a value. This bounds the tree: a
	// value takes some 200 bytes, so 64 MiB. It suffices for 50,000 guests of two fields, or 10,000 with all fields.
	MaxMarks = 1 << 18
	// MaxDepth is the deepest nesting of maps and lists, the file itself being 1.
	MaxDepth = 16
)

// doc is one file during its walk. It keeps the error nearest to the beginning.
type doc struct {
	file  string
	src   []byte
	lines [][]byte
	err   *Error

	maps  map[*yaml.Node]*walked // the maps that the walk came to
	asked map[*yaml.Node]bool    // the keys that the walk asked for
	lacks []lack                 // the keys that must be there and are not

	number int    // of the line that runes has
	runes  []rune // the library counts columns in characters
}

// Parse reads b and returns its map. Errors call the file by the name file. Every error is an *Error.
func Parse(file string, b []byte) (Value, error) {
	d := &doc{file: file, src: b, maps: map[*yaml.Node]*walked{}, asked: map[*yaml.Node]bool{}}
	d.checkSource()
	var root *yaml.Node
	if d.err == nil {
		root = d.tree()
	}
	if d.err == nil && root.Kind != yaml.MappingNode {
		d.failAt(root, "the file is not a map of keys and values")
	}
	if d.err == nil {
		d.check(root, 1)
	}
	if d.err != nil {
		return Value{}, d.err
	}
	d.maps[root] = &walked{}
	return Value{d: d, node: root}, nil
}

// checkSource refuses, before anything is parsed, a file that would be slow to parse or would look different on a
// screen.
func (d *doc) checkSource() {
	marks := bytes.Count(d.src, []byte{'\n'})
	if len(d.src) > MaxBytes {
		d.fail(1, 1, "the file has %d bytes, more than %d", len(d.src), MaxBytes).TooLarge = true
		return
	}
	if marks <= MaxMarks {
		d.lines = bytes.Split(d.src, []byte{'\n'})
	}
	for i, b := range d.lines {
		line, column := string(b), 0
		for at, r := range line {
			column++
			switch {
			case r == ',' || r == '[' || r == '{' || (r == ':' || r == '-' || r == '?') && (at+1 == len(line) || line[at+1] == ' '):
				marks++
			case r == utf8.RuneError && !utf8.ValidString(line[at:min(at+3, len(line))]):
				d.fail(i+1, column, "this is not UTF-8")
			case r == '\t':
				d.fail(i+1, column, "a tab: use spaces")
			case r == '\r':
				d.fail(i+1, column, "a carriage return: end lines with a line feed alone")
			case unprintable(r):
				d.fail(i+1, column, "the character %U does not show as it is", r)
			}
		}
	}
	if marks > MaxMarks && d.err == nil {
		d.fail(1, 1, "the file has more than %d values", MaxMarks).TooLarge = true
	}
}

// unprintable reports the Unicode classes Cc, Cf, Zl and Zp: controls,
// zero-width and bidirectional marks, line separators.
func unprintable(r rune) bool {
	return (r < ' ' || r >= 0x7f) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// tree parses exactly one document. The library recovers its own panics; any other panic must not stop the daemon
// because of a file.
func (d *doc) tree() (n *yaml.Node) {
	defer func() {
		if recover() != nil {
			d.fail(1, 1, "the file cannot be read as YAML")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(d.src))
	var first, second yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		d.fail(1, 1, "the file is empty")
		return nil
	} else if err != nil {
		d.syntax(err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		d.failAt(&second, "a second document begins here; a file holds one")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	return first.Content[0]
}

// check refuses everything that could make a text mean another value than it shows.
func (d *doc) check(n *yaml.Node, depth int) {
	switch {
	case depth > MaxDepth:
		d.failAt(n, "maps and lists are nested deeper than %d", MaxDepth).TooLarge = true
		return
	case n.Kind == yaml.AliasNode:
		d.failAt(n, "an alias: write the value out")
	case n.Anchor != "":
		d.failAt(n, "an anchor: write the value out where it is meant")
	case n.Style&yaml.TaggedStyle != 0 || d.isAt(n, "!"): // the library drops the tag "!"
		d.failAt(n, "a tag: write the value alone")
	case n.Tag == "!!null":
		d.failAt(n, "an empty value")
	case n.Kind == yaml.MappingNode:
		d.checkKeys(n)
	case n.Kind == yaml.ScalarNode:
		d.checkText(n)
	}
	for _, c := range n.Content {
		d.check(c, depth+1)
	}
}

func (d *doc) checkKeys(n *yaml.Node) {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind == yaml.MappingNode || k.Kind == yaml.SequenceNode:
			d.failAt(k, "a key that is a map or a list")
		case k.Kind == yaml.AliasNode || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0: // check refuses it
		case k.Tag == "!!merge":
			d.failAt(k, "a merge: write the keys out")
		case k.Tag == "!!null":
			d.failAt(k, "an empty key")
		case k.Tag != "!!str":
			d.failAt(k, "the key %s is not text; put it in quotes", k.Value)
		case seen[k.Value]:
			d.failAt(k, "the key %s is in the file twice", k.Value)
		case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
			d.failAt(k, "%s has no value; leave the key out", k.Value)
		}
		seen[k.Value] = true
	}
}

func (d *doc) checkText(n *yaml.Node) {
	if i := strings.IndexFunc(n.Value, unprintable); i >= 0 { // from an escape in quotes
		r, _ := utf8.DecodeRuneInString(n.Value[i:])
		if r == '\n' {
			d.failAt(n, "a text of several lines")
		}
		d.failAt(n, "the character %U does not show as it is", r)
	}
	if n.Style == 0 && strings.Contains(n.Value, " ") && !d.isAt(n, n.Value) {
		// If the file were cut after the first line, it would be valid with another value. In quotes it would not be
		// valid.
		d.failAt(n, "a text that goes on in the next line; put it in quotes")
	}
}

// isAt reports whether the source at the place of n begins with s.
func (d *doc) isAt(n *yaml.Node, s string) bool {
	if d.number != n.Line && n.Line <= len(d.lines) {
		d.number, d.runes = n.Line, []rune(string(d.lines[n.Line-1]))
	}
	from := min(n.Column-1, len(d.runes))
	return strings.HasPrefix(string(d.runes[from:min(from+len(s), len(d.runes))]), s)
}
