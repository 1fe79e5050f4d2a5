package hook

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
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

// Outcome is the end of a hook's process: its output and its exit code.
type Outcome struct {
	Stdout, Stderr string
	Code           int
}

// exitDenied is the exit code that tells a harness, even one that reads no answer, that a call is refused. The reason
// is on standard error.
const exitDenied = 2

// ToolHook judges tool calls before they happen.
type ToolHook struct {
	Guard
	ExitCode bool // answer with an exit code instead of JSON
}

// answer is the hook's answer to a harness. A call that is not refused gets no decision: "allow" would skip the user's
// own permissions.
type answer struct {
	Specific *decision `json:"hookSpecificOutput,omitempty"`
	Message  string    `json:"systemMessage,omitempty"` // for the user
}

type decision struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"` // for the agent
}

// Run reads one tool call and judges it. It returns within twice the deadline,
// whatever its input and the daemon do.
func (h ToolHook) Run(ctx context.Context, in io.Reader) Outcome {
	w, err := within(ctx, h.Deadline, func(context.Context) (wish, error) { return h.read(in) })
	if err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = &Failure{Kind: KindInput, Err: err} // it came too late
		}
		return h.unjudged(h.Failed(f.Kind, f.Err))
	}
	if w.path == "" {
		return Outcome{}
	}
	found, err := h.Ask(ctx, w.check)
	switch {
	case err != nil:
		return h.unjudged(err)
	case len(found.Conflicts) == 0 && !found.More:
		return Outcome{}
	default:
		return h.deny(denied(w.path, w.check.Patterns[0], found))
	}
}

// wish is the change that a call would make.
type wish struct {
	path  string // in the call's words
	check api.Check
}

// read finds out which path a call would change. Its errors are *Failure.
func (ToolHook) read(in io.Reader) (wish, error) {
	call, err := ParseCall(in)
	if err != nil {
		return wish{}, &Failure{Kind: KindInput, Err: err}
	}
	if call.Path == "" {
		return wish{}, nil
	}
	place, rel, err := checkout.File(call.Path)
	if err != nil {
		return wish{}, &Failure{Kind: KindPath, Err: err}
	}
	if !utf8.ValidString(place.Path) { // on its way to the daemon it would become another path
		return wish{}, &Failure{Kind: KindPath, Err: refusal.New(refusal.Malformed, "the path %s is not valid UTF-8",
			op.Shown(place.Path))}
	}
	pattern := change{path: rel}.pattern(glob.Options{Scope: place.Path, FoldCase: place.Fold})
	return wish{path: call.Path, check: api.Check{Scope: place, Patterns: []string{pattern}}}, nil
}

// unjudged returns the outcome of a call that could not be judged.
func (h ToolHook) unjudged(err error) Outcome {
	text := whyUnchecked(err)
	because, refused := h.refuses(err)
	switch {
	case refused:
		return h.deny(text + because)
	case h.ExitCode:
		return Outcome{Stderr: text + wordsGoesOn + "\n"}
	default:
		return written(answer{Message: text + wordsGoesOn})
	}
}

// deny refuses a call.
func (h ToolHook) deny(reason string) Outcome {
	if h.ExitCode {
		return Outcome{Stderr: reason, Code: exitDenied}
	}
	return written(answer{Specific: &decision{Event: preToolUse, Decision: "deny", Reason: reason}})
}

// written returns an answer as JSON. If that fails, the exit code says it.
func written(a answer) Outcome {
	b, err := json.Marshal(a)
	if err != nil {
		if a.Specific == nil {
			return Outcome{Stderr: a.Message}
		}
		return Outcome{Stderr: a.Specific.Reason, Code: exitDenied}
	}
	return Outcome{Stdout: string(b) + "\n"}
}
