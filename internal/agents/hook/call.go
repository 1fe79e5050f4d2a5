package hook

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxCall is the largest tool call that is read, in bytes. It is read as a stream that keeps at most its longest string
// in memory.
const maxCall = 32 << 20

// preToolUse is the only event that a hook can still stop.
const preToolUse = "PreToolUse"

// Tools names, for each tool that changes a file, the member of its input with the file. A hook ignores other tools.
var Tools = map[string]string{
	"Edit":         "file_path",
	"MultiEdit":    "file_path",
	"Write":        "file_path",
	"NotebookEdit": "notebook_path",
}

// Call is a tool call that an agent wants to make.
type Call struct {
	Tool string
	Path string // the file that it would change, absolute but not resolved; empty for a tool that is not in Tools
}

// ParseCall reads a tool call to its end, as the agent's harness writes it on a hook's standard input. It ignores
// unknown members. Malformed is anything but one JSON object, a repeated member or one of another type. An event that
// no hook can stop, and an edit without a file, are Malformed too. Oversized: more than 32 MiB. Other errors are those
// of in.
func ParseCall(in io.Reader) (Call, error) {
	c, err := readCall(jsontext.NewDecoder(&atMost{in: in, left: maxCall}))
	if err != nil {
		return Call{}, unreadable(err)
	}
	switch {
	case c.tool == "":
		return Call{}, refusal.New(refusal.Malformed, "the call has no tool_name")
	case c.event != "" && c.event != preToolUse:
		return Call{}, refusal.New(refusal.Malformed, "the call comes with the event %s, and only %s can be stopped",
			op.Shown(c.event), preToolUse)
	}
	member, ours := Tools[c.tool]
	if !ours {
		return Call{Tool: c.tool}, nil
	}
	path := c.paths[member]
	switch {
	case path == "":
		return Call{}, refusal.New(refusal.Malformed, "the call's tool_input has no %s", member)
	case strings.ContainsRune(path, 0):
		return Call{}, refusal.New(refusal.Malformed, "the call's %s has a NUL, which no path can have", member)
	case !strings.HasPrefix(path, "/"):
		if !strings.HasPrefix(c.dir, "/") {
			return Call{}, refusal.New(refusal.Malformed, "the call names a relative path and no cwd")
		}
		path = c.dir + "/" + path // not Join, which removes ".." before links are resolved
	}
	return Call{Tool: c.tool, Path: path}, nil
}

// rawCall has the members of a call that matter.
type rawCall struct {
	event, tool, dir string
	paths            map[string]string // the text members of its input that may name a file
}

// errNotText says that a member must be text.
var errNotText = errors.New("not text")

// readCall reads one object, and nothing may follow it. The decoder refuses a repeated member, at any depth, and text
// that is not UTF-8.
func readCall(d *jsontext.Decoder) (rawCall, error) {
	c := rawCall{paths: map[string]string{}}
	if d.PeekKind() == 0 {
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return c, errEmptyCall
		}
	}
	texts := map[string]*string{"hook_event_name": &c.event, "tool_name": &c.tool, "cwd": &c.dir}
	isObject, err := eachMember(d, func(name string) error {
		if into, ok := texts[name]; ok {
			return readText(d, into)
		}
		if name == "tool_input" {
			_, err := eachMember(d, func(name string) error { return c.readPath(d, name) })
			return err
		}
		return d.SkipValue()
	})
	switch {
	case err != nil:
		return c, err
	case !isObject:
		return c, errNotText
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errNotText
		}
		return c, err
	}
	return c, nil
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

// readPath reads a member of a tool's input.
func (c *rawCall) readPath(d *jsontext.Decoder, name string) error {
	for _, member := range Tools {
		if name == member && d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err == nil {
				c.paths[name] = t.String()
			}
			return err
		}
	}
	return d.SkipValue()
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
func unreadable(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax):
		return refusal.New(refusal.Malformed, "the call is not JSON after byte %d", syntax.ByteOffset)
	case errors.Is(err, errNotText):
		return refusal.New(refusal.Malformed, "the call is not a JSON object with text in tool_name, cwd and hook_event_name")
	default:
		return err
	}
}
