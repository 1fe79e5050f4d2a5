package hook

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/op"
)

// maxCall is the largest tool call that is read, in bytes.
const maxCall = 1 << 20

// preToolUse is the one event that a hook can still stop.
const preToolUse = "PreToolUse"

// Tools says which member of its input names the file that a tool changes. Of
// other tools a hook has no opinion.
var Tools = map[string]string{
	"Edit":         "file_path",
	"MultiEdit":    "file_path",
	"Write":        "file_path",
	"NotebookEdit": "notebook_path",
}

// Call is a tool call that an agent wants to make.
type Call struct {
	Tool string
	Path string // the file that it would change, absolute but not resolved; empty for a tool that is none of ours
}

// ParseCall reads a tool call as the agent's harness writes it on a hook's
// standard input. Members that it does not know are the harness's own business.
// Malformed: anything but one JSON object, a member twice or of another type, a
// call that no hook can stop any more, and an edit that names no file.
func ParseCall(b []byte) (Call, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return Call{}, errEmptyCall
	}
	var in struct {
		Event string         `json:"hook_event_name"`
		Tool  string         `json:"tool_name"`
		Dir   string         `json:"cwd"`
		Input jsontext.Value `json:"tool_input"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return Call{}, unreadable(err)
	}
	switch {
	case in.Tool == "":
		return Call{}, op.Refuse(op.Malformed, "the call has no tool_name")
	case in.Event != "" && in.Event != preToolUse:
		return Call{}, op.Refuse(op.Malformed, "the call comes with the event %s, and only %s can be stopped", op.Shown(in.Event), preToolUse)
	}
	member, ours := Tools[in.Tool]
	if !ours {
		return Call{Tool: in.Tool}, nil
	}
	path, err := pathOf(in.Input, member)
	if err != nil {
		return Call{}, err
	}
	if !strings.HasPrefix(path, "/") {
		if !strings.HasPrefix(in.Dir, "/") {
			return Call{}, op.Refuse(op.Malformed, "the call names a relative path and no cwd")
		}
		path = in.Dir + "/" + path // not Join, which takes ".." back before links are known
	}
	return Call{Tool: in.Tool, Path: path}, nil
}

// pathOf finds the file in a tool's input.
func pathOf(input jsontext.Value, member string) (string, error) {
	var members map[string]jsontext.Value
	if len(input) == 0 {
		return "", op.Refuse(op.Malformed, "the call has no tool_input")
	}
	if err := json.Unmarshal(input, &members); err != nil {
		return "", unreadable(err)
	}
	var path string
	value, ok := members[member]
	if !ok || value.Kind() != '"' || json.Unmarshal(value, &path) != nil || path == "" {
		return "", op.Refuse(op.Malformed, "the call's tool_input has no %s", member)
	}
	if strings.ContainsRune(path, 0) {
		return "", op.Refuse(op.Malformed, "the call's %s has a NUL, which no path can have", member)
	}
	return path, nil
}

// unreadable words a decoder's error without what was in the call.
func unreadable(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return op.Refuse(op.Malformed, "the call is not JSON after byte %d", syntax.ByteOffset)
	}
	return op.Refuse(op.Malformed, "the call is not a JSON object with text in tool_name, cwd and hook_event_name")
}
