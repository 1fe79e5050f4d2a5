// Package strictyaml reads the small part of YAML in which a file means the
// same to every reader, and to the person who wrote it: maps, lists, text in
// UTF-8, whole decimal numbers, true and false. Anchors, aliases, merges, tags,
// nulls, duplicate and unknown keys, a second document, control characters and
// a value of another type than was asked for are refused with their place.
//
// A file is parsed into a tree by go.yaml.in/yaml/v3 and then walked by type:
//
//	root, err := strictyaml.Parse("gated.yaml", b)
//	if err != nil { … }
//	host := root.String("host")
//	workers := root.Map("limits").Int("workers", 1, 1024)
//	err = root.Done() // the first thing wrong, or a key that nobody asked for
//
// The walk never stops half-way: what is absent or wrong reads as the zero
// value, and Done says what was wrong.
package strictyaml

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// Limits of a file. They hold before a tree is built or walked.
const (
	// MaxBytes is the size of the largest file, in bytes.
	MaxBytes = 16 << 20
	// MaxMarks bounds the line ends, commas, colons, dashes and brackets that
	// begin a value, and with them the size of the tree (some 200 bytes each, so
	// 64 MiB): room for 50,000 guests of two fields, or 10,000 with all of them.
	MaxMarks = 1 << 18
	// MaxDepth is the deepest nesting of maps and lists, the file itself being 1.
	MaxDepth = 16
)

// doc is one file on its walk. It keeps the first thing found wrong, and every
// map that was handed out, so that no unknown key is missed.
type doc struct {
	file  string
	src   []byte
	lines []int // where each line begins
	maps  []*Map
	err   *Error
	cur   cursor
}

// fail keeps the error that is nearest to the beginning of the file: the walk
// goes in the order of the program, people read in the order of the file.
func (d *doc) fail(line, column int, msg string) *Error {
	e := &Error{File: d.file, Line: line, Column: column, Msg: msg}
	if d.err != nil && !e.before(d.err) {
		return e
	}
	e.Text = d.text(line)
	d.err = e
	return e
}

func (d *doc) failAt(n *yaml.Node, msg string) *Error { return d.fail(n.Line, n.Column, msg) }

// line returns the source of a line, counted from 1, without its end.
func (d *doc) line(n int) []byte {
	if n < 1 || n > len(d.lines) {
		return nil
	}
	b := d.src[d.lines[n-1]:]
	if n < len(d.lines) {
		return b[:d.lines[n]-d.lines[n-1]-1]
	}
	b, _, _ = bytes.Cut(b, []byte{'\n'}) // while the lines are still being found
	return b
}
