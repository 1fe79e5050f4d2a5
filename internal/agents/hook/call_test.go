package hook

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestParseCall(t *testing.T) {
	for text, want := range map[string]Call{
		`{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"/w/a.go","old_string":"x","new_string":"y"}}`: {Tool: "Edit", Paths: []string{"/w/a.go"}},
		`{"tool_name":"Write","tool_input":{"file_path":"a/../b.go","content":""},"cwd":"/w"}`:                                                                   {Tool: "Write", Paths: []string{"/w/a/../b.go"}},
		`{"tool_name":"MultiEdit","tool_input":{"file_path":"/a","edits":[{"old_string":"","new_string":""}]}}`:                                                  {Tool: "MultiEdit", Paths: []string{"/a"}},
		`{"tool_name":"NotebookEdit","tool_input":{"notebook_path":"/n.ipynb","file_path":"/other"}}`:                                                            {Tool: "NotebookEdit", Paths: []string{"/n.ipynb"}},
		// Members that a harness adds, and null in those that do not matter.
		` {"tool_use_id":"t","permission_mode":"plan","effort":{"level":1},"x":null,"tool_name":"Edit","tool_input":{"file_path":"/a","new":[1]}} `: {Tool: "Edit", Paths: []string{"/a"}},
		// Other tools, whatever their input.
		`{"tool_name":"Bash","tool_input":{"command":"echo > a.go","file_path":7}}`: {Tool: "Bash", Line: "echo > a.go"},
		`{"tool_name":"Read","tool_input":{"file_path":"/w/a.go"}}`:                 {Tool: "Read"},
		`{"tool_name":"edit","tool_input":null}`:                                    {Tool: "edit"},
	} {
		got := must.Get(ParseCall(Claude{}, strings.NewReader(text)))(t, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseCallRefuses(t *testing.T) {
	for _, text := range []string{
		`{`, `[]`, `null`, `"Edit"`, `{"tool_name":"Edit"}{}`, `{"tool_name":"Edit"} x`, `{}`, `{"tool_name":""}`, `{"tool_name":7}`,
		`{"tool_name":"Edit"}`, `{"tool_name":"Edit","tool_input":null}`, `{"tool_name":"Edit","tool_input":[]}`, `{"tool_name":"Edit","tool_input":{}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":""}}`, `{"tool_name":"Edit","tool_input":{"file_path":null}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":["/a"]}}`, `{"tool_name":"Edit","tool_input":{"File_Path":"/a"}}`,
		`{"tool_name":"Edit","tool_input":{"notebook_path":"/a"}}`, `{"tool_name":"NotebookEdit","tool_input":{"file_path":"/a"}}`,
		// Two readers could take it for two calls.
		`{"tool_name":"Bash","tool_name":"Edit","tool_input":{"file_path":"/a"}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":"/a","file_path":"/b"}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":"/a` + "\xff" + `"}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":"/a\ud800"}}`, `{"tool_name":"Edit","tool_input":{"file_path":"/a\u0000b"}}`,
		// Where would it be?
		`{"tool_name":"Edit","tool_input":{"file_path":"a"}}`, `{"tool_name":"Edit","cwd":"w","tool_input":{"file_path":"a"}}`,
		// It is too late.
		`{"tool_name":"Edit","hook_event_name":"PostToolUse","tool_input":{"file_path":"/a"}}`,
	} {
		must.Fail(ParseCall(Claude{}, strings.NewReader(text)))(t, refusal.Malformed, text)
	}
	for _, text := range []string{"", " \n\t"} {
		must.Fail(ParseCall(Claude{}, strings.NewReader(text)))(t, errEmptyCall)
	}
	must.Fail(ParseCall(Claude{}, strings.NewReader(strings.Repeat(`{"tool_input":`, 20000))))(t, refusal.Malformed)
}

// FuzzParseCall: no input ends the hook, and a call that is read names a file
// if its tool is one that writes.
func FuzzParseCall(f *testing.F) {
	for _, text := range []string{
		`{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"a.go"}}`,
		`{"tool_name":"NotebookEdit","tool_input":{"notebook_path":"/n.ipynb"}}`, `{"tool_name":"Bash","tool_input":{}}`, `{}`, ``, `[`,
		`{"tool_name":"Edit","tool_input":{"file_path":"\u0000"}}`,
	} {
		f.Add([]byte(text), byte(0))
	}
	for i, d := range Dialects() {
		for _, tool := range ToolsOf(d) {
			call, err := SampleCall(d, tool, "/w", "/w/a.go")
			require.NoError(f, err)
			f.Add(call, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, which byte) {
		d := Dialects()[int(which)%len(Dialects())]
		c, err := ParseCall(d, bytes.NewReader(b))
		if err != nil {
			require.Empty(t, c)
			return
		}
		_, ours := d.form().tools[c.Tool]
		require.True(t, !ours || len(c.Paths) > 0)
		require.True(t, ours || len(c.Paths) == 0 || slices.Contains(d.form().shells, c.Tool))
		for _, path := range c.Paths {
			require.NotContains(t, path, "\x00")
			require.Equal(t, byte('/'), path[0])
		}
		var again map[string]any
		require.NoError(t, json.Unmarshal(bytes.TrimPrefix(b, []byte(byteOrderMark)), &again))
		require.Equal(t, again[d.form().name], c.Tool)
	})
}
