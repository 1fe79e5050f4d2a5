package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Parse reads b, whose name in errors is file, and returns the map that it
// holds. Every error is an *Error.
func Parse(file string, b []byte) (*Map, error) {
	d := &doc{file: file, src: b}
	if err := d.checkSource(); err != nil {
		return nil, err
	}
	root, err := d.tree()
	if err != nil {
		return nil, err
	}
	if root.Kind != yaml.MappingNode {
		return nil, d.failAt(root, "the file is not a map of keys and values")
	}
	if err := d.checkNode(root, 1); err != nil {
		return nil, err
	}
	return d.newMap("", root), nil
}

// checkSource refuses, before anything is parsed, what would be slow to parse
// or would look on a screen like something else than it is.
func (d *doc) checkSource() *Error {
	if len(d.src) > MaxBytes {
		e := d.fail(1, 1, fmt.Sprintf("the file has %d bytes, more than %d", len(d.src), MaxBytes))
		e.TooLarge = true
		return e
	}
	d.lines = append(make([]int, 0, bytes.Count(d.src, []byte{'\n'})+1), 0)
	marks, column := 0, 0
	for i := 0; i < len(d.src); {
		c := d.src[i]
		column++
		switch {
		case c == '\n':
			d.lines = append(d.lines, i+1)
			column = 0
			marks++
		case c == ',' || c == '[' || c == '{' || (c == ':' || c == '-' || c == '?') && blankAt(d.src, i+1):
			marks++
		case c < ' ' || c >= 0x7f:
			r, size := utf8.DecodeRune(d.src[i:])
			if msg := badRune(r, size); msg != "" {
				return d.fail(len(d.lines), column, msg)
			}
			i += size
			continue
		}
		i++
	}
	if marks > MaxMarks {
		e := d.fail(1, 1, fmt.Sprintf("the file has more than %d values", MaxMarks))
		e.TooLarge = true
		return e
	}
	return nil
}

func blankAt(b []byte, i int) bool { return i >= len(b) || b[i] == ' ' || b[i] == '\n' }

func badRune(r rune, size int) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return "this is not UTF-8"
	case r == '\t':
		return "a tab: use spaces"
	case r == '\r':
		return "a carriage return: end lines with a line feed alone"
	case unprintable(r):
		return fmt.Sprintf("the character %U does not show as it is", r)
	default:
		return ""
	}
}

// unprintable reports the Unicode classes Cc, Cf, Zl and Zp: controls,
// zero-width and bidirectional marks, line separators.
func unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// tree parses exactly one document. The library recovers its own panics; one
// of another kind must not take the daemon down for the sake of a file.
func (d *doc) tree() (n *yaml.Node, err *Error) {
	defer func() {
		if recover() != nil {
			n, err = nil, d.fail(1, 1, "the file cannot be read as YAML")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(d.src))
	var first, second yaml.Node
	switch e := dec.Decode(&first); {
	case errors.Is(e, io.EOF):
		return nil, d.fail(1, 1, "the file is empty")
	case e != nil:
		return nil, d.syntax(e)
	}
	switch e := dec.Decode(&second); {
	case e == nil:
		return nil, d.failAt(&second, "a second document begins here; a file holds one")
	case !errors.Is(e, io.EOF):
		return nil, d.syntax(e)
	}
	return first.Content[0], nil
}
