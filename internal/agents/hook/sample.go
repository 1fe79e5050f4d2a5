package hook

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
)

// SampleCall returns the call of a product that would change a file with one of its tools, as the product writes it.
// path is absolute, and the call is made in dir.
func SampleCall(d Dialect, tool, dir, path string) ([]byte, error) {
	f := d.form()
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, err
	}
	patch := fmt.Sprintf("%s\n*** Add File: %s\n+x\n*** End Patch\n", beginPatch, rel)
	input := map[string]any{"content": "", "old_string": "", "new_string": "", "new_source": ""}
	e := f.tools[tool]
	switch {
	case slices.Contains(f.shells, tool):
		input = map[string]any{shellMember: "apply_patch <<'EOF'\n" + patch + "EOF\n"}
	case e.patch != "":
		input = map[string]any{e.patch: patch}
	default:
		input[e.members[0]] = path
	}
	return sampleOf(d, tool, dir, input)
}

// SampleShell returns the call of a product that would run a line in a shell, as the product writes it.
func SampleShell(d Dialect, tool, dir, line string) ([]byte, error) {
	return sampleOf(d, tool, dir, map[string]any{shellMember: line})
}

// sampleOf returns a call with a tool's input.
func sampleOf(d Dialect, tool, dir string, input map[string]any) ([]byte, error) {
	f := d.form()
	call := map[string]any{"cwd": dir, f.name: tool, f.input: input}
	var mark string
	switch d.(type) {
	case Cursor:
		delete(call, "cwd")
		call["cursor_version"], call["workspace_roots"], mark = "0", []string{dir}, byteOrderMark
	case Copilot:
		text, err := json.Marshal(input, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		call[f.input] = string(text)
	}
	if _, ok := d.(Copilot); !ok {
		call["hook_event_name"] = f.event
	}
	b, err := json.Marshal(call, json.Deterministic(true))
	return append([]byte(mark), b...), err
}
