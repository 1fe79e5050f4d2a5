package hook

import (
	"bufio"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// maxCall is the largest tool call that is read, in bytes. It is read as a stream that keeps at most its longest string
// in memory.
const maxCall = 32 << 20

// Call is a tool call that an agent wants to make.
type Call struct {
	Tool   string
	Paths  []string // the files that it would change, absolute but not resolved; none for a tool that writes none
	Unread error    // why Paths has not all of them: Malformed or OverLimit; nil if it has
	Line   string   // what a shell would run; empty for another tool
	Dir    string   // where the shell would run it, absolute; empty if the call does not say
}

// ParseCall reads a tool call to its end, as the agent's product writes it on a hook's standard input. It ignores
// unknown members and a byte order mark. Malformed is anything but one JSON object, a repeated member or one of another
// type. An event that no hook can stop, an edit without a file, and another product's call are Malformed too.
// Oversized: more than 32 MiB. Other errors are those of in.
func ParseCall(d Dialect, in io.Reader) (Call, error) {
	f := d.form()
	b := bufio.NewReader(&atMost{in: in, left: maxCall})
	if mark, _ := b.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = b.Discard(len(byteOrderMark)) // it was peeked at
	}
	c, err := readCall(jsontext.NewDecoder(b), f)
	if err != nil {
		return Call{}, unreadable(err, f)
	}
	if err := f.check(c, d); err != nil {
		return Call{}, err
	}
	paths, err := f.paths(c)
	runs := slices.Contains(f.runs, c.tool)
	if err != nil && len(paths) == 0 && (!runs || c.input[shellMember] == "") {
		return Call{}, err
	}
	out := Call{Tool: c.tool, Paths: paths, Unread: err}
	if runs {
		out.Line, out.Dir = c.input[shellMember], f.shellDir(c)
	}
	return out, nil
}

// byteOrderMark begins the calls of some products.
const byteOrderMark = "\uFEFF"

// rawCall has the members of a call that matter.
type rawCall struct {
	event, tool, dir string
	alien            string // a tool_name, for a product that has another member
	roots            []string
	input            map[string]string // the text members of its input
	text             string            // an input that is text itself
	by               Dialect           // whose member the call has; nil if no such member is there
}

// errNotText says that a member must be text.
var errNotText = errors.New("not text")

// readCall reads one object, and nothing may follow it. The decoder refuses a repeated member, at any depth, and text
// that is not UTF-8.
func readCall(d *jsontext.Decoder, f form) (rawCall, error) {
	c := rawCall{input: map[string]string{}}
	if d.PeekKind() == 0 {
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return c, errEmptyCall
		}
	}
	return c, alone(d, func(name string) error { return c.readMember(d, name, f) })
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
func (c *rawCall) readMember(d *jsontext.Decoder, name string, f form) error {
	if by, ok := signs[name]; ok {
		c.by = by
	}
	switch name {
	case "hook_event_name":
		return readText(d, &c.event)
	case "cwd":
		return readText(d, &c.dir)
	case f.name:
		return readText(d, &c.tool)
	case f.input:
		return c.readInput(d, f)
	case toolName:
		return readText(d, &c.alien)
	case "workspace_roots":
		if f.roots {
			return readTexts(d, &c.roots)
		}
	}
	return d.SkipValue()
}

// readInput reads a tool's input: an object, or text.
func (c *rawCall) readInput(d *jsontext.Decoder, f form) error {
	if d.PeekKind() == '"' {
		if err := readText(d, &c.text); err != nil {
			return err
		}
		return c.inner(f)
	}
	_, err := eachMember(d, func(name string) error { return c.readWord(d, name, f) })
	return err
}

// readWord reads a member of a tool's input.
func (c *rawCall) readWord(d *jsontext.Decoder, name string, f form) error {
	if !f.wants(name) || d.PeekKind() != '"' {
		return d.SkipValue()
	}
	var text string
	err := readText(d, &text)
	c.input[name] = text
	return err
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

// readText reads a member that is text, or null for none.
func readText(d *jsontext.Decoder, into *string) error {
	if kind := d.PeekKind(); kind != '"' && kind != 'n' {
		if err := d.SkipValue(); err != nil {
			return err
		}
		return errNotText
	}
	t, err := d.ReadToken()
	if err == nil && t.Kind() == '"' {
		*into = t.String()
	}
	return err
}

// readTexts reads a member that is an array of texts, or null for none.
func readTexts(d *jsontext.Decoder, into *[]string) error {
	if d.PeekKind() != '[' {
		var none string
		if err := readText(d, &none); err != nil || none == "" {
			return err
		}
		return errNotText
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		var text string
		if err := readText(d, &text); err != nil {
			return err
		}
		*into = append(*into, text)
	}
	end, err := d.ReadToken()
	if err == nil && end.Kind() != ']' {
		err = errNotText
	}
	return err
}

// atMost reads so many bytes. It fails if there are more.
type atMost struct {
	in   io.Reader
	left int64
}

// Read returns Oversized if there are more bytes than allowed.
func (r *atMost) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if r.left -= int64(n); r.left < 0 {
		return 0, refusal.New(refusal.Oversized, "the call has more than %d bytes", maxCall)
	}
	return n, err
}

// unreadable words a decoder's error without the call's content.
func unreadable(err error, f form) error {
	var syntax *jsontext.SyntacticError
	var tooLarge *refusal.Refusal
	switch {
	case errors.As(err, &tooLarge):
		return tooLarge // without the decoder's words around it
	case errors.As(err, &syntax):
		return refusal.New(refusal.Malformed, "the call is not JSON after byte %d", syntax.ByteOffset)
	case errors.Is(err, errNotText):
		return refusal.New(refusal.Malformed, "the call is not a JSON object with text in %s, cwd and hook_event_name", f.name)
	default:
		return err
	}
}
