package hook

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient reads JSON as agents' products do: a member may stand twice, and a text may have half a character, which
// becomes U+FFFD.
func lenient(in io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// heard is a call whose product is not known yet. A member that stands several times has each of its texts: readers differ
// in which one counts.
type heard struct {
	there   map[string]bool     // the members that tell a product
	texts   map[string][]string // the texts of members, each once, in the call's order
	inputs  map[string]rawInput // by the name of the member
	roots   []string
	blurred bool // one of the texts had half a character, or bytes that are no UTF-8
}

// rawInput is a tool's input.
type rawInput struct {
	members map[string][]string // its members that are text, if it is an object
	whole   []string            // what it is, if it is text
}

// errNotText says that a call is not what it should be.
var errNotText = errors.New("not text")

// readCall reads one object, and nothing may follow it. It returns also what it read of a call that it cannot read to its
// end.
func readCall(d *jsontext.Decoder) (heard, error) {
	h := heard{there: map[string]bool{}, texts: map[string][]string{}, inputs: map[string]rawInput{}}
	if d.PeekKind() == 0 {
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return h, errEmptyCall
		}
	}
	return h, alone(d, func(name string) error { return h.readMember(d, name) })
}

// alone reads one object, and nothing may follow it.
func alone(d *jsontext.Decoder, read func(name string) error) error {
	isObject, err := eachMember(d, read)
	switch {
	case err != nil:
		return err
	case !isObject:
		return errNotText
	}
	if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = errNotText
	}
	return err
}

// readMember reads one member of a call.
func (h *heard) readMember(d *jsontext.Decoder, name string) error {
	h.there[name] = h.there[name] || tells(name)
	switch name {
	case eventMember, dirMember, toolName, "toolName", "tool":
		return h.readText(d, func(text string) { h.texts[name] = with(h.texts[name], text) })
	case "tool_input", "toolArgs", "args":
		return h.readInput(d, name)
	case "workspace_roots":
		return h.readRoots(d)
	}
	return d.SkipValue()
}

// readInput reads a tool's input: an object, or text.
func (h *heard) readInput(d *jsontext.Decoder, name string) error {
	in := h.inputs[name]
	if in.members == nil {
		in.members = map[string][]string{}
	}
	defer func() { h.inputs[name] = in }()
	if d.PeekKind() == '"' {
		return h.readText(d, func(text string) { in.whole = with(in.whole, text) })
	}
	_, err := eachMember(d, func(name string) error {
		if !wanted(name) {
			return d.SkipValue()
		}
		return h.readText(d, func(text string) { in.members[name] = with(in.members[name], text) })
	})
	return err
}

// readRoots reads the texts of an array. It skips everything else.
func (h *heard) readRoots(d *jsontext.Decoder) error {
	if d.PeekKind() != '[' {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := h.readText(d, func(text string) { h.roots = append(h.roots, text) }); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// readText reads a value. It hands on the value's text, and skips a value that is none.
func (h *heard) readText(d *jsontext.Decoder, take func(text string)) error {
	if d.PeekKind() != '"' {
		return d.SkipValue()
	}
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	text, err := jsontext.AppendUnquote(nil, v)
	h.blurred = h.blurred || err != nil // the decoder read it, so nothing else can be wrong with it
	take(string(text))
	return nil
}

// eachMember reads a value. If it is an object, it calls read for each member, which reads the member's value. It skips
// any other value.
func eachMember(d *jsontext.Decoder, read func(name string) error) (isObject bool, err error) {
	if d.PeekKind() != '{' {
		return false, d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return true, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return true, err
		}
		if err := read(name.String()); err != nil {
			return true, err
		}
	}
	_, err = d.ReadToken() // its end, or what is wrong
	return true, err
}
