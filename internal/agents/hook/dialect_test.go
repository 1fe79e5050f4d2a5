package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// sample returns a product's own call in the directory.
func (e *edits) sample(tool, path string) string {
	e.t.Helper()
	return string(must.Get(SampleCall(e.For, tool, e.dir, filepath.Join(e.dir, path)))(e.t))
}

// refuses reports whether an outcome is a refusal in the form that a product reads, exactly.
func refuses(t *testing.T, d Dialect, o Outcome) bool {
	t.Helper()
	require.Empty(t, o.Stderr)
	require.Zero(t, o.Code)
	var a map[string]any
	if o.Stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(o.Stdout), &a))
	}
	switch d.(type) {
	case Claude, Codex:
		specific, _ := a["hookSpecificOutput"].(map[string]any)
		return specific["hookEventName"] == "PreToolUse" && specific["permissionDecision"] == "deny" && specific["permissionDecisionReason"] != ""
	case Gemini:
		return a["decision"] == "deny" && a["reason"] != ""
	case Cursor:
		return a["permission"] == "deny" && a["agent_message"] != "" && a["user_message"] != ""
	case Copilot:
		return a["permissionDecision"] == "deny" && a["permissionDecisionReason"] != ""
	default:
		return a["refuse"] != nil && a["refuse"] != ""
	}
}

// TestEveryToolOfEveryProduct: a held path is refused in the product's form,
// and a free one gets no decision.
func TestEveryToolOfEveryProduct(t *testing.T) {
	for _, d := range Dialects() {
		for _, tool := range ToolsOf(d) {
			e := newEdits(t, "src/**")
			e.For = d
			o := e.run(e.sample(tool, "src/new.go"))
			require.True(t, refuses(t, d, o), "%s %s: %v", d.Name(), tool, o)
			require.Contains(t, o.Stdout, "gated reservation reserve --wait-for 90s src/new.go")
			require.Equal(t, d.silent(), e.run(e.sample(tool, "docs/a.md")), "%s %s", d.Name(), tool)
			require.Equal(t, []string{"src/new.go", "docs/a.md"}, e.daemon.patterns())

			e.ExitCode = true
			o = e.run(e.sample(tool, "src/new.go"))
			if d.CanExit() {
				require.Equal(t, exitDenied, o.Code)
				require.Contains(t, o.Stderr, "another agent has reserved")
			}
		}
	}
}

// TestAForeignCallIsItsOwnProducts: some products run the hooks of another one's settings. The call is read, and the answer
// written, in the form of the product that made the call.
func TestAForeignCallIsItsOwnProducts(t *testing.T) {
	for _, d := range Dialects() {
		for _, other := range Dialects() {
			for _, tool := range ToolsOf(other) {
				if other == Dialect(Codex{}) && tool == "Bash" && d == Dialect(Claude{}) {
					continue // both have it, and only Codex applies a patch there
				}
				for _, onFailure := range []OnFailure{Warn, Block} {
					e := newEdits(t, "src/**")
					e.For, e.OnFailure = other, onFailure
					held, free := e.sample(tool, "src/new.go"), e.sample(tool, "docs/a.md")
					e.For = d
					require.True(t, refuses(t, other, e.run(held)), "%s in the settings of %s: %s", other.Name(), d.Name(), tool)
					o := e.run(free)
					require.Equal(t, other.silent(), o, "%s in the settings of %s: %s", other.Name(), d.Name(), tool)
					e.ExitCode = true
					require.True(t, AnswerOf(other, e.run(held)).Denied)
				}
			}
		}
	}
}

// strayCalls are calls in the form of one product's settings, by another product that has them.
var strayCalls = []struct {
	entry, by Dialect
	text      string
}{
	{Claude{}, Cursor{}, "\uFEFF" + `{"hook_event_name":"preToolUse","cursor_version":"2","cwd":"","workspace_roots":["@"],"tool_name":"Write","tool_input":{"file_path":"src/a.go"}}`},
	{Claude{}, Cursor{}, `{"hook_event_name":"PreToolUse","cursor_version":"2","cwd":"","workspace_roots":["@"],"tool_name":"Edit","tool_input":{"file_path":"@/src/a.go","new_string":"\ud83d"}}`},
	{Claude{}, Cursor{}, `{"hook_event_name":"preToolUse","workspace_roots":["/nowhere","file://@"],"tool_name":"NotebookEdit","tool_input":{"notebook_path":"src/a.go"}}`},
	{Claude{}, Cursor{}, `{"hook_event_name":"preToolUse","cwd":"@","tool_name":"StrReplace","tool_input":{"path":"src/a.go"}}`},
	{Claude{}, Copilot{}, `{"sessionId":"s","timestamp":1,"cwd":"@","toolName":"edit","toolArgs":{"path":"src/a.go","old_str":"\ud83d"}}`},
	{Claude{}, Copilot{}, `{"cwd":"@","toolName":"edit","toolArgs":"{\"path\":\"src/a.go\"}","tool_name":"edit","tool_input":{"path":"src/a.go"}}`},
	{Claude{}, copilotAsClaude{}, `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"@","tool_name":"edit","tool_input":{"path":"src/a.go"}}`},
	{Claude{}, copilotAsClaude{}, `{"hook_event_name":"PreToolUse","cwd":"@","tool_name":"create","tool_input":"{\"path\":\"src/a.go\"}"}`},
	{Claude{}, copilotAsClaude{}, `{"hook_event_name":"PreToolUse","cwd":"@","tool_name":"apply_patch","tool_input":{"patch":"*** Begin Patch\n*** Delete File: src/a.go\n"}}`},
	{Claude{}, Codex{}, `{"hook_event_name":"PreToolUse","cwd":"@","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Delete File: src/a.go\n"}}`},
	{Cursor{}, Claude{}, `{"hook_event_name":"PreToolUse","cwd":"@","tool_name":"Edit","tool_input":{"file_path":"src/a.go"}}`},
	{Gemini{}, Claude{}, `{"hook_event_name":"PreToolUse","cwd":"@","tool_name":"Write","tool_input":{"file_path":"src/a.go"}}`},
}

func TestCallsOfOtherProductsSettings(t *testing.T) {
	for _, c := range strayCalls {
		for _, exitCode := range []bool{false, true} {
			e := newEdits(t, "src/a.go")
			e.For, e.OnFailure, e.ExitCode = c.entry, Warn, exitCode
			text := strings.ReplaceAll(c.text, "@", e.dir)
			o := e.run(text)
			a := AnswerOf(c.by, o)
			require.True(t, a.Denied, "%s: %+v", text, o)
			require.False(t, a.Failed)
			e.OnFailure = Block
			o = e.run(strings.ReplaceAll(text, "src/a.go", "free.go"))
			require.Equal(t, c.by.silent(), o, text)
		}
	}
	// The form of Claude Code's answer stands in it, too.
	e := newEdits(t, "src/a.go")
	o := e.run(`{"hook_event_name":"PreToolUse","cwd":"` + e.dir + `","tool_name":"edit","tool_input":{"path":"src/a.go"}}`)
	require.True(t, AnswerOf(Claude{}, o).Denied)
	require.True(t, AnswerOf(Copilot{}, o).Denied)
}

// A call of another product that cannot be read is answered in that product's form as well.
func TestAForeignCallThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		by   Dialect
		text string
	}{
		{Cursor{}, `{"cursor_version":"2","tool_name":"Write","tool_input":{}}`},
		{Cursor{}, `{"cursor_version":"2","tool_name":"Write","tool_input":{"content":"`},
		{Copilot{}, `{"toolName":"edit","toolArgs":"{}"}`},
	} {
		e := newEdits(t)
		e.OnFailure = Block
		o := e.run(c.text)
		require.True(t, refuses(t, c.by, o), c.text)
		require.Contains(t, o.Stdout, "a call of "+c.by.Product())
		e.OnFailure = Warn
		require.False(t, AnswerOf(c.by, e.run(c.text)).Denied)
		require.Contains(t, AnswerOf(c.by, e.run(c.text)).Said, "could not be checked")
	}
}

// Cursor's shell is free by Claude Code's entry, also if the hook steers.
func TestAForeignShellIsFree(t *testing.T) {
	e := newEdits(t)
	e.OnFailure = Block
	e.Steering = func(context.Context) (api.Steering, error) { return api.Steering{}, nil }
	text := "\uFEFF" + `{"hook_event_name":"preToolUse","cursor_version":"2","cwd":"","workspace_roots":["` + e.dir + `"],"tool_name":"Shell","tool_input":{"command":"ls"}}`
	require.Equal(t, Cursor{}.silent(), e.run(text))
	half := strings.Replace(text, `"ls"`, `"ls \ud83d"`, 1)
	require.True(t, AnswerOf(Cursor{}, e.run(half)).Denied, "what runs is not sure")
	e.Steering = nil
	require.Equal(t, Cursor{}.silent(), e.run(half), "a hook that does not steer does not need the line")
}

// patched is Codex's call of a patch.
func (e *edits) patched(lines ...string) string {
	text := beginPatch + "\n" + strings.Join(lines, "\n") + "\n*** End Patch"
	b := must.Get(json.Marshal(map[string]any{"cwd": e.dir, "hook_event_name": preToolUse, "tool_name": "apply_patch",
		"tool_input": map[string]any{"command": text}}))(e.t)
	return string(b)
}

func TestAllPathsOfAPatchAreAskedAtOnce(t *testing.T) {
	e := newEdits(t, "src/**", "docs/b.md")
	e.For = Codex{}
	call := e.patched("*** Update File: free/a.go", "*** Move to: src/moved.go", "@@", "+x", "*** Delete File: docs/b.md", "*** Add File: free/c.go", "+y")
	o := e.run(call)
	require.True(t, refuses(t, e.For, o))
	require.Len(t, e.daemon.asked, 1)
	require.Equal(t, []string{"free/a.go", "src/moved.go", "docs/b.md", "free/c.go"}, e.daemon.patterns())
	require.Contains(t, o.Stdout, `has reserved \"`+e.dir+`/src/moved.go\", \"`+e.dir+`/docs/b.md\".`)
	require.Contains(t, o.Stdout, "gated reservation reserve --wait-for 90s src/moved.go docs/b.md")

	many := []string{"*** Delete File: src/held"}
	for range maxFiles {
		many = append(many, "*** Delete File: f"+strings.Repeat("x", len(many)%200)+string(rune('a'+len(many)%26)))
	}
	require.True(t, refuses(t, e.For, e.run(e.patched(many[:500]...))))
}

// TestTheWorstAnswerWins: a path that is held is refused, whatever is wrong
// with another path of the call.
func TestTheWorstAnswerWins(t *testing.T) {
	other := newEdits(t)
	for name, wrong := range map[string]string{
		"too long for a name":      strings.Repeat("n", 300) + "/a",
		"another scope":            filepath.Join(other.dir, "x"),
		"refused by the daemon":    "refused",
		"one that no daemon takes": "refused/x",
	} {
		for _, lines := range [][]string{
			{"*** Delete File: " + wrong, "*** Delete File: src/a.go"},
			{"*** Delete File: src/a.go", "*** Delete File: " + wrong},
		} {
			e := newEdits(t, "src/**")
			e.For = Codex{}
			check := e.Check
			e.Check = e.daemon.refusing(check, "refused")
			require.True(t, refuses(t, e.For, e.run(e.patched(lines...))), name)
		}
	}
	e := newEdits(t)
	e.For = Codex{}
	require.Contains(t, e.run(e.patched("*** Delete File: a", "*** Delete File: "+strings.Repeat("n", 300)+"/a")).Stdout, "could not be checked")
	e.OnFailure = Block
	require.True(t, refuses(t, e.For, e.run(e.patched("*** Delete File: a", "*** Delete File: "+strings.Repeat("n", 300)+"/a"))))
}

// TestAPatchInAShell is asked about where the shell would be.
func TestAPatchInAShell(t *testing.T) {
	e := newEdits(t, "sub/src/**")
	require.NoError(t, os.MkdirAll(filepath.Join(e.dir, "sub"), 0o755))
	e.For = Codex{}
	call := func(line string) string {
		b := must.Get(json.Marshal(map[string]any{"cwd": e.dir, "hook_event_name": preToolUse, "tool_name": "Bash",
			"tool_input": map[string]any{"command": line}}))(t)
		return string(b)
	}
	heredoc := "apply_patch <<'EOF'\n" + several + "EOF\n"
	require.Equal(t, Outcome{}, e.run(call("ls -l")))
	require.Empty(t, e.daemon.asked, "a shell without a patch asks nothing")
	require.Equal(t, Outcome{}, e.run(call(heredoc)))
	require.True(t, refuses(t, e.For, e.run(call("cd sub && "+heredoc))))
	require.True(t, refuses(t, e.For, e.run(call("cd "+e.dir+"/sub; "+heredoc))))
	must.Fail(ParseCall(Codex{}, strings.NewReader(`{"tool_name":"Bash","hook_event_name":"PreToolUse","tool_input":{"command":["apply_patch"]}}`)))(t, refusal.Malformed)
}

// What a call names beside a name that cannot be told is asked, also if failures only warn.
func TestAHeldFileBesideANameThatCannotBeTold(t *testing.T) {
	for line, dialect := range map[string]Dialect{
		"apply_patch <<E\n*** Begin Patch\n*** Delete File: $F\n*** Delete File: src/a.go\n*** End Patch\nE": Codex{},
		"apply_patch <<'E'\n*** Begin Patch\n*** Move to:\n*** Delete File: src/a.go\n*** End Patch\nE":      Codex{},
		"(cat <<'E'; true) | apply_patch\n*** Begin Patch\n*** Delete File: src/a.go\n*** End Patch\nE\n":    Codex{},
		"apply_patch <<'E'\n*** Begin Patch\n*** Delete File: src/a.go\n*** End Patch\nE\nif":                Codex{},
	} {
		e := newEdits(t, "src/a.go")
		e.For, e.OnFailure = dialect, Warn
		o := e.run(`{"cwd":"` + e.dir + `","tool_name":"Bash","tool_input":{"command":` + strconv.Quote(line) + `}}`)
		require.True(t, AnswerOf(dialect, o).Denied, line)
		free := strings.ReplaceAll(line, "src/a.go", "src/free.go")
		o = e.run(`{"cwd":"` + e.dir + `","tool_name":"Bash","tool_input":{"command":` + strconv.Quote(free) + `}}`)
		require.False(t, AnswerOf(dialect, o).Denied, line)
		require.Contains(t, o.Stdout, "a call of Codex", line)
	}
}

// A shell's line that changes the directory often makes no work without bound.
func TestManyChangesOfTheDirectory(t *testing.T) {
	var cds strings.Builder
	for i := range 60 {
		fmt.Fprintf(&cds, "cd a%d;", i)
	}
	line := cds.String() + "apply_patch <<'E'\n*** Begin Patch\n*** Delete File: x\n*** End Patch\nE"
	e := newEdits(t, "src/a.go")
	e.For, e.OnFailure = Codex{}, Block
	o := e.run(`{"cwd":"` + e.dir + `","tool_name":"Bash","tool_input":{"command":` + strconv.Quote(line) + `}}`)
	require.True(t, AnswerOf(Codex{}, o).Denied)
	require.Contains(t, o.Stdout, "its directory is not known")
}

// Cursor's URIs of other kinds name no file of this host, and are no relative paths.
func TestURIsOfOtherKinds(t *testing.T) {
	for _, path := range []string{"vscode-remote://h/src/a.go", "vscode-vfs://github/src/a.go", "FILE://other/src/a.go"} {
		e := newEdits(t, "src/a.go")
		e.For, e.OnFailure = Cursor{}, Block
		o := e.run(`{"workspace_roots":["` + e.dir + `"],"tool_name":"Write","tool_input":{"file_path":"` + path + `"}}`)
		require.True(t, AnswerOf(Cursor{}, o).Denied, path)
		require.Contains(t, o.Stdout, "names no file of this host")
	}
	e := newEdits(t, "src/a.go")
	e.For = Cursor{}
	o := e.run(`{"workspace_roots":["` + e.dir + `"],"tool_name":"Write","tool_input":{"file_path":"FILE://` + e.dir + `/src/a.go"}}`)
	require.True(t, AnswerOf(Cursor{}, o).Denied, "the scheme's letters have no case")
}

// Gemini CLI removes a NUL and a leading @ from a path before it writes.
func TestLoosePaths(t *testing.T) {
	for _, path := range []string{"@src/a.go", "@/src/a.go", `src/a\u0000.go`} {
		e := newEdits(t, "src/a.go")
		e.For = Gemini{}
		o := e.run(`{"cwd":"` + e.dir + `","hook_event_name":"BeforeTool","tool_name":"write_file","tool_input":{"file_path":"` + path + `"}}`)
		require.True(t, AnswerOf(Gemini{}, o).Denied, path)
	}
}

// opencode removes a byte order mark around a path.
func TestPatchPathsWithByteOrderMarks(t *testing.T) {
	require.Equal(t, []string{"src/a.go"}, patchPaths("\uFEFF*** Update File: \uFEFFsrc/a.go\uFEFF\n"))
}

// A directory that is a link to another stays when the hooks go.
func TestUninstallKeepsALinkToADirectory(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(top, "shared", "workflows"), 0o755))
	require.NoError(t, os.Symlink("shared", filepath.Join(top, ".github")))
	s := SettingsFor(Copilot{}, top)
	must.Get(s.Install(program, Setup{}))(t)
	must.Get(s.Uninstall())(t)
	require.NoFileExists(t, s.Path)
	require.DirExists(t, filepath.Join(top, ".github", "workflows"))
	require.NoDirExists(t, filepath.Join(top, "shared", "hooks"))
}
