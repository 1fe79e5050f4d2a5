package hook

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		want.By, want.Runs = Claude{}, want.Line != ""
		require.Equal(t, want, got, text)
	}
}

func TestParseCallRefuses(t *testing.T) {
	for _, text := range []string{
		`{`, `[]`, `null`, `"Edit"`, `{"tool_name":"Edit"}{}`, `{"tool_name":"Edit"} x`, `{"tool_name":"Read"} x`, `{}`, `{"tool_name":""}`, `{"tool_name":7}`,
		`{"tool_name":"Edit"}`, `{"tool_name":"Edit","tool_input":null}`, `{"tool_name":"Edit","tool_input":[]}`, `{"tool_name":"Edit","tool_input":{}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":""}}`, `{"tool_name":"Edit","tool_input":{"file_path":null}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":["/a"]}}`, `{"tool_name":"Edit","tool_input":{"File_Path":"/a"}}`,
		`{"tool_name":"Edit","tool_input":{"notebook_path":"/a"}}`, `{"tool_name":"NotebookEdit","tool_input":{"file_path":"/a"}}`,
		`{"tool_name":"Edit","tool_input":{"file_path":"/a\u0000b"}}`,
		// Where would it be?
		`{"tool_name":"Edit","tool_input":{"file_path":"a"}}`, `{"tool_name":"Edit","cwd":"w","tool_input":{"file_path":"a"}}`,
		`{"tool_name":"Edit","cwd":7,"tool_input":{"file_path":"a"}}`,
		// It is too late.
		`{"tool_name":"Edit","hook_event_name":"PostToolUse","tool_input":{"file_path":"/a"}}`,
	} {
		got, err := ParseCall(Claude{}, strings.NewReader(text))
		require.ErrorIs(t, err, refusal.Malformed, text)
		require.Equal(t, Call{By: Claude{}}, got, text)
	}
	for _, text := range []string{"", " \n\t"} {
		must.Fail(ParseCall(Claude{}, strings.NewReader(text)))(t, errEmptyCall)
	}
	must.Fail(ParseCall(Claude{}, strings.NewReader(strings.Repeat(`{"tool_input":`, 20000))))(t, refusal.Malformed)
}

// What the hook does not need decides nothing: the path of the edit is sure.
func TestWhatIsNeitherPathNorCommandDecidesNothing(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 2000) + strings.Repeat(`]}`, 2000)
	for _, more := range []string{
		`"tool_input":{"file_path":"/w/a.go","old_string":"\ud83d","new_string":"cut \udc00 off"}`,
		`"tool_input":{"file_path":"/w/a.go","content":"` + "\xf0\x9f\x98 \xff" + `"}`,
		`"tool_input":{"file_path":"/w/a.go","edits":[{"x":1,"x":2},{"x":{"y":"\ud800","y":0}}]}`,
		`"tool_input":{"file_path":"/w/a.go","new_string":"a","new_string":"b"}`,
		`"tool_input":{"file_path":"/w/a.go","n":1e999,"m":-0.` + strings.Repeat("0", 400) + `1E-4000,"o":123456789012345678901234567890}`,
		`"tool_input":{"file_path":"/w/a.go","\ud800":1,"\ud800":2}`,
		`"tool_input":{"file_path":"/w/a.go","path":7,"command":["x"],"patch":{}}`,
		`"tool_input":{"file_path":"/w/a.go","deep":` + deep + `}`,
		`"tool_input":{"file_path":"/w/a.go"},"session_id":"\ud800","session_id":7,"x":` + deep,
		`"tool_input":{"file_path":"/w/a.go","file_path":"/w/a.go"},"cwd":"/w","cwd":"/v"`,
		`"tool_input":{"file_path":"/w/a.go"},"cwd":7`, `"tool_input":{"file_path":"/w/a.go"},"cwd":"/half\ud800"`,
		`"tool_input":{"file_path":"/w/a.go"},"hook_event_name":7`, `"tool_input":{"file_path":"/w/a.go"},"tool_response":{"a":1,"a":"\ud800"}`,
		`"tool_input":{"file_path":"/w/a.go","other":"/w/\ufffd"},"prompt":"\ud83d"`,
	} {
		text := `{"tool_name":"Edit",` + more + `}`
		got := must.Get(ParseCall(Claude{}, strings.NewReader(text)))(t, text)
		require.Equal(t, Call{By: Claude{}, Tool: "Edit", Paths: []string{"/w/a.go"}}, got, text)
	}
}

// What is not sure is asked about in each reading, and is in doubt beside that.
func TestAPathThatIsNotSureIsInDoubt(t *testing.T) {
	for _, c := range []struct {
		as    Dialect
		text  string
		paths []string
	}{
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a","file_path":"/b"}}`, []string{"/a", "/b"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a"},"tool_input":{"file_path":"/b"}}`, []string{"/a", "/b"}},
		{Claude{}, `{"tool_name":"Bash","tool_name":"Edit","tool_input":{"file_path":"/a"}}`, []string{"/a"}},
		{Claude{}, `{"tool_name":"Edit","tool_name":"Read","tool_input":{"file_path":"/a"}}`, []string{"/a"}},
		{Claude{}, `{"tool_name":"Edit","cwd":"/w","cwd":"/v","tool_input":{"file_path":"a"}}`, []string{"/w/a", "/v/a"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a\ud800"}}`, []string{"/a\ufffd"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a` + "\xff" + `"}}`, []string{"/a\ufffd"}},
		{Claude{}, `{"tool_name":"Edit","cwd":"/w\udfff","tool_input":{"file_path":"a"}}`, []string{"/w\ufffd/a"}},
		{Codex{}, `{"tool_name":"apply_patch","cwd":"/w","tool_input":{"command":"*** Begin Patch\n*** Delete File: a\ud800\n+\ud83d"}}`, []string{"/w/a\ufffd"}},
		{Codex{}, `{"tool_name":"apply_patch","cwd":"/w","tool_input":{"command":"*** Begin Patch\n*** Delete File: a","command":"*** Begin Patch\n*** Delete File: b"}}`, []string{"/w/a", "/w/b"}},
		{Codex{}, `{"tool_name":"Bash","cwd":"/w","tool_input":{"command":"ls","command":"apply_patch <<'E'\n*** Begin Patch\n*** Delete File: b\nE"}}`, []string{"/w/b"}},
		{Copilot{}, `{"toolName":"edit","toolArgs":"{\"path\":\"/a\",\"path\":\"/b\"}"}`, []string{"/a", "/b"}},
		{Copilot{}, `{"toolName":"edit","toolArgs":"{\"path\":\"/a\\ud800\"}"}`, []string{"/a\ufffd"}},
		{Copilot{}, `{"toolName":"edit","toolArgs":"{\"path\":\"/a\"}{}"}`, []string{"/a"}},
		{Copilot{}, `{"toolName":"edit","toolArgs":"{\"path\":\"/a\""}`, []string{"/a"}},
		// The path was read before the text ended.
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a","new_string":"` + "\n", []string{"/a"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a","n":NaN}}`, []string{"/a"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a"}}{}`, []string{"/a"}},
		{Claude{}, `{"tool_name":"Edit","tool_input":{"file_path":"/a","x":` + strings.Repeat("[", 20000), []string{"/a"}},
	} {
		got := must.Get(ParseCall(c.as, strings.NewReader(c.text)))(t, c.text)
		require.Equal(t, c.paths, got.Paths, c.text)
		require.ErrorIs(t, got.Unread, refusal.Malformed, c.text)
	}
	// Half a character in the content of a patch is none in its paths.
	got := must.Get(ParseCall(OpenCode{}, strings.NewReader(`{"tool":"patch","cwd":"/w","args":{"patchText":"*** Begin Patch\n*** Add File: a\n+\ud83d"}}`)))(t)
	require.Equal(t, Call{By: OpenCode{}, Tool: "patch", Paths: []string{"/w/a"}}, got)
}

// A shell's line that is not sure is in doubt, for a hook that steers.
func TestALineThatIsNotSureIsInDoubt(t *testing.T) {
	for text, line := range map[string]string{
		`{"tool_name":"Bash","cwd":"/w","tool_input":{"command":"rm -rf a\ud800"}}`:           "rm -rf a\ufffd",
		`{"tool_name":"Bash","cwd":"/w","tool_input":{"command":"rm a","command":"ls"}}`:      "ls",
		`{"tool_name":"Bash","cwd":"/w","cwd":"/v","tool_input":{"command":"rm a"}}`:          "rm a",
		`{"tool_name":"Bash","tool_input":{"command":"rm a","description":"`:                  "rm a",
		`{"tool_name":"Read","tool_name":"Bash","tool_input":{"command":"rm a"}}`:             "rm a",
		`{"tool_name":"Bash","tool_input":{"command":"rm a"},"tool_input":{"command":"ls"}}{`: "ls",
	} {
		got := must.Get(ParseCall(Claude{}, strings.NewReader(text)))(t, text)
		require.Equal(t, line, got.Line, text)
		require.ErrorIs(t, got.Unsure, refusal.Malformed, text)
	}
	got := must.Get(ParseCall(Claude{}, strings.NewReader(`{"tool_name":"Bash","tool_input":{"command":"ls","description":"\ud83d","description":7}}`)))(t)
	require.Equal(t, Call{By: Claude{}, Tool: "Bash", Runs: true, Line: "ls"}, got)
}

// FuzzParseCall: no input ends the hook, and a call that is read names a file
// if its tool is one that writes.
func FuzzParseCall(f *testing.F) {
	for _, text := range []string{
		`{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"a.go"}}`,
		`{"tool_name":"NotebookEdit","tool_input":{"notebook_path":"/n.ipynb"}}`, `{"tool_name":"Bash","tool_input":{}}`, `{}`, ``, `[`,
		`{"tool_name":"Edit","tool_input":{"file_path":"\u0000"}}`, `{"tool_name":"Edit","tool_input":{"file_path":"/a\ud800","file_path":"/b"},"cwd":"/w","cwd":"/v"}`,
		`{"toolName":"edit","toolArgs":"{\"path\":\"/a\"}{"}`, `{"tool":"bash","args":{"command":"ls"},"tool_name":"Edit","workspace_roots":["/w",7,"/v"]}`,
		`{"hook_event_name":"PreToolUse","tool_name":"edit","tool_input":"{\"path\":\"/a\"}"}`, `{"tool_name":"Edit","tool_input":{"file_path":"/a","new_string":"`,
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
		require.NotNil(t, c.By)
		if err != nil {
			require.Equal(t, Call{By: c.By}, c)
			return
		}
		form := c.By.form().along(d.form())
		_, ours := form.tools[c.Tool]
		require.True(t, !ours || len(c.Paths) > 0 || c.Unread != nil)
		require.True(t, ours || len(c.Paths) == 0 || c.Unread != nil || slices.Contains(form.shells, c.Tool))
		for _, path := range c.Paths {
			require.NotContains(t, path, "\x00")
			require.Equal(t, byte('/'), path[0])
		}
		if c.Unread != nil || c.Unsure != nil {
			return
		}
		// Nothing is in doubt, so the product reads the same: the last of each member counts.
		var again map[string]jsontext.Value
		loose := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte(byteOrderMark))), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		require.NoError(t, json.UnmarshalDecode(loose, &again))
		var tool string
		require.NoError(t, json.Unmarshal(again[form.name], &tool, jsontext.AllowInvalidUTF8(true)))
		require.Equal(t, tool, c.Tool)
	})
}
