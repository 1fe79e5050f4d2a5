package hook

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxCall is the largest tool call that is read, in bytes. It is read as a stream that keeps at most its longest string
// in memory.
const maxCall = 32 << 20

// Call is a tool call that an agent wants to make.
type Call struct {
	By     Dialect // whose call it is: that of the product that made it, whatever the hook's entry says
	Tool   string
	Paths  []string // the files that it would change, absolute but not resolved; none for a tool that writes none
	Unread error    // why Paths may not be all of them: Malformed, OverLimit or Oversized; nil if they are
	Runs   bool     // its tool runs a shell
	Line   string   // what a shell would run; empty for another tool
	Unsure error    // why a shell may run another line than Line: Malformed; nil if it runs this one
	Dir    string   // where the shell would run it, absolute; empty if the call does not say
}

// ParseCall reads a tool call to its end, as an agent's product writes it on a hook's standard input. The product is d,
// unless the call tells another one.
//
// What the hook does not need decides nothing: unknown members, a byte order mark, a member that stands twice, half a
// character in the text of an edit. If a path or a shell's line is not sure, the call has an error beside what can be
// read: Malformed if a member stands twice with two texts, has half a character or another type, or if the call is no
// JSON object to its end. Oversized is more than 32 MiB. An event that no hook can stop and an edit without a file are
// Malformed, and return the product alone. Other errors are those of in.
func ParseCall(d Dialect, in io.Reader) (Call, error) {
	b := bufio.NewReader(&atMost{in: in, left: maxCall})
	if mark, _ := b.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = b.Discard(len(byteOrderMark)) // it was peeked at
	}
	h, broken := readCall(lenient(b))
	by := speaker(h, d)
	f := by.form().along(d.form())
	broken = unreadable(broken, f)
	c := h.as(f)
	if err := f.check(c, by); err != nil {
		return Call{By: by}, cmp.Or(broken, err)
	}
	out := Call{By: by, Tool: c.tools[len(c.tools)-1]}
	out.Paths, out.Unread = f.paths(c)
	out.Unread = cmp.Or(broken, out.Unread)
	for _, tool := range c.tools {
		out.Runs = out.Runs || slices.Contains(f.runs, tool)
	}
	if lines := c.input[shellMember]; out.Runs && len(lines) > 0 {
		out.Line, out.Dir = lines[len(lines)-1], f.shellDir(c)
		out.Unsure = cmp.Or(broken, f.doubt(c, out.Line+out.Dir, f.name, dirMember, shellMember))
	}
	if out.Unread != nil && len(out.Paths) == 0 && out.Line == "" {
		return Call{By: by}, out.Unread
	}
	return out, nil
}

// byteOrderMark begins the calls of some products.
const byteOrderMark = "\uFEFF"

// rawCall has the members of a call that matter to one product, as that product names them.
type rawCall struct {
	events, tools, dirs, roots []string
	input                      map[string][]string // the text members of its input
	texts                      []string            // an input that is text itself
	blurred                    bool
	unread                     error // why the input is not read to its end
}

// as returns what a call says to a product.
func (h heard) as(f form) rawCall {
	c := rawCall{events: h.texts[eventMember], tools: h.texts[f.name], dirs: h.texts[dirMember], blurred: h.blurred,
		input: map[string][]string{}, texts: h.inputs[f.input].whole}
	c.dirs = slices.DeleteFunc(slices.Clone(c.dirs), func(s string) bool { return s == "" })
	if f.roots {
		c.roots = h.roots
	}
	for name, texts := range h.inputs[f.input].members {
		c.input[name] = texts
	}
	c.inner(f)
	return c
}

// doubt says why a text of a call, which was made of some of its members, is not sure: one of these stands twice with two
// texts, or the text has what stands for half a character. Nil if it is sure.
func (f form) doubt(c rawCall, text string, members ...string) error {
	for _, name := range members {
		texts := c.input[name]
		switch name {
		case dirMember:
			texts = c.dirs
		case f.name:
			texts = c.tools
		}
		if len(texts) > 1 {
			return refusal.New(refusal.Malformed, "the call has the member %s twice, and they differ", name)
		}
	}
	if c.blurred && strings.ContainsRune(text, utf8.RuneError) {
		return refusal.New(refusal.Malformed, "%s of the call has half a character", op.Shown(bounded(text, maxQuoted)))
	}
	return nil
}

// maxQuoted bounds a text of a call in an error, in characters.
const maxQuoted = 200

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
		return refusal.New(refusal.Malformed, "the call is not one JSON object with %s", f.name)
	default:
		return err
	}
}
