package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestRecordedCalls: calls of products that are not run here, from their
// documentation (testdata/calls/README.md).
func TestRecordedCalls(t *testing.T) {
	want := map[string]Call{
		"claude-write.json":          {Tool: "Write", Paths: []string{"/w/src/a.go"}},
		"claude-edit.json":           {Tool: "Edit", Paths: []string{"/w/src/a.go"}},
		"claude-bash.json":           {Tool: "Bash", Line: "npm test", Dir: "/w"},
		"cursor-write.json":          {Tool: "Write", Paths: []string{"/w/src/a.go"}},
		"cursor-delete.json":         {Tool: "Delete", Paths: []string{"/w/src/a.go"}},
		"cursor-shell.json":          {Tool: "Shell", Line: "npm install", Dir: "/w"},
		"copilot-edit.json":          {Tool: "edit", Paths: []string{"/w/src/a.go"}},
		"copilot-create-object.json": {Tool: "create", Paths: []string{"/w/src/a.go"}},
		"copilot-edit-patch.json":    {Tool: "edit", Paths: []string{"/w/src/a.go"}},
		"copilot-bash.json":          {Tool: "bash", Line: "rm -rf dist", Dir: "/w"},
	}
	files := must.Get(filepath.Glob("testdata/calls/*.json"))(t)
	require.Len(t, files, len(want))
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), "-")
		text := string(must.Get(os.ReadFile(file))(t))
		d := must.Get(DialectOf(name))(t)
		call := want[filepath.Base(file)]
		call.By, call.Runs = d, call.Line != ""
		require.Equal(t, call, must.Get(ParseCall(d, strings.NewReader(text)))(t, file), file)
	}
}

// TestCallsInOddForms: each as one of the products may write it.
func TestCallsInOddForms(t *testing.T) {
	for _, c := range []struct {
		as    Dialect
		text  string
		paths []string
	}{
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"a"},"workspace_roots":["/w","/v"]}`, []string{"/w/a", "/v/a"}},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"path":"a"},"cwd":"file:///w%20x","workspace_roots":["/v"]}`, []string{"/w x/a"}},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"file:///w/a%2fb"}}`, []string{"/w/a/b"}},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"/a"},"workspace_roots":{}}`, []string{"/a"}},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"a"},"workspace_roots":[7,"/w",{"x":1,"x":2}]}`, []string{"/w/a"}},
		{Cursor{}, `{"tool_name":"Write","tool_input":"{\"file_path\":\"/a\",\"path\":\"/b\"}"}`, []string{"/a", "/b"}},
		{Copilot{}, "\uFEFF" + `{"toolName":"create","toolArgs":"{\"path\":\"file://localhost/w/a\"}"}`, []string{"/w/a"}},
		{Codex{}, `{"tool_name":"apply_patch","cwd":"/w","tool_input":"*** Begin Patch\n*** Add File: file:/a\n"}`, []string{"/w/file:/a"}},
		{Gemini{}, `{"hook_event_name":"BeforeTool","tool_name":"replace","cwd":"/w","tool_input":{"file_path":"a"}}`, []string{"/w/a"}},
		{OpenCode{}, `{"tool":"bash","cwd":"/w","args":{"workdir":"sub","command":"apply_patch <<'E'\n*** Begin Patch\n*** Add File: a\nE"}}`, []string{"/w/a", "/w/sub/a"}},
	} {
		require.Equal(t, c.paths, must.Get(ParseCall(c.as, strings.NewReader(c.text)))(t, c.text).Paths, c.text)
	}
	for _, c := range []struct {
		as   Dialect
		text string
	}{
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"a"}}`},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"a"},"workspace_roots":[]}`},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"file://elsewhere/a"}}`},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"file:///a%00b"}}`},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"file:///a%zz"}}`},
		{Cursor{}, `{"tool_name":"Write","tool_input":{"file_path":"file:///a?x"}}`},
		{Copilot{}, `{"toolName":"edit","toolArgs":"/a"}`},
		{Copilot{}, `{"toolName":"edit","toolArgs":["/a"]}`},
		{Copilot{}, "\uFEFF\uFEFF" + `{"toolName":"edit","toolArgs":{"path":"/a"}}`},
		{Codex{}, `{"tool_name":"apply_patch","tool_input":{"command":["*** Begin Patch"]}}`},
		{Claude{}, `{"tool_name":"Edit","hook_event_name":"PreToolUse","tool_input":"*** Begin Patch\n*** Add File: /a\n"}`},
	} {
		must.Fail(ParseCall(c.as, strings.NewReader(c.text)))(t, refusal.Malformed, c.text)
	}
}
