package matrix_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// hookDenied is the end of a call that a hook refuses.
const hookDenied refusal.Code = "hook_denied"

// object is a JSON object.
type object = map[string]any

// calls is a row in which cora's product makes a call that changes what alma
// holds, dressed as something else. The hook goes on with what it cannot check.
func calls(id, what string, d hook.Dialect, call func(f *floor) string) attack {
	return strays(id, what, d, d, call)
}

// strays is calls for a product that runs the entry of another one's settings. It reads no other form of a refusal than
// its own.
func strays(id, what string, entry, d hook.Dialect, call func(f *floor) string) attack {
	return onFloor(id, d.Product()+" writes a held file "+what, hookDenied, func(f *floor) error {
		text := call(f)
		f.armUnlogged("a hook asked, and a question is not logged")
		check := func(ctx context.Context, c api.Check) (api.Checked, error) {
			at := reserve.Place{Path: c.Scope.Path, Device: c.Scope.Device, Inode: c.Scope.Inode, Fold: c.Scope.Fold}
			found, more, err := f.book.Check(ctx, f.cora, at, c.Patterns, reserve.Exclusive)
			out := api.Checked{More: more}
			for _, x := range found {
				out.Conflicts = append(out.Conflicts, api.Conflict{Pattern: x.Pattern, Overlaps: x.Overlaps})
			}
			return out, err
		}
		h := hook.ToolHook{For: entry, Guard: hook.Guard{Hook: "pre-tool-use", Check: check, OnFailure: hook.Warn,
			Deadline: time.Minute, Now: time.Now}}
		end := h.Run(f.ctx, strings.NewReader(text))
		if a := hook.AnswerOf(d, end); !a.Denied {
			return nil
		}
		return refusal.New(hookDenied, "%s%s", end.Stdout, end.Stderr)
	})
}

// asJSON writes a call.
func (f *floor) asJSON(call any) string {
	return string(must.Get(json.Marshal(call, json.Deterministic(true)))(f.t))
}

// git makes the floor's directory a checkout.
func (f *floor) git() string {
	require.NoError(f.t, os.MkdirAll(filepath.Join(f.repo.Path, ".git"), 0o755))
	require.NoError(f.t, os.MkdirAll(filepath.Join(f.repo.Path, "src"), 0o755))
	return f.repo.Path
}

// codex is a call of Codex.
func (f *floor) codex(tool, command string) string {
	return f.asJSON(object{"cwd": f.git(), "hook_event_name": "PreToolUse", "tool_name": tool,
		"tool_input": object{"command": command}})
}

// patchCall is Codex's call with a patch of those lines.
func patchCall(lines ...string) func(f *floor) string {
	return func(f *floor) string {
		return f.codex("apply_patch", "*** Begin Patch\n"+strings.Join(lines, "\n")+"\n*** End Patch")
	}
}

// shellCall is Codex's call of a shell.
func shellCall(line string) func(f *floor) string {
	return func(f *floor) string { return f.codex("Bash", line) }
}

const heldPatch = "*** Begin Patch\n*** Update File: src/a.go\n@@\n-a\n+b\n*** End Patch\n"

// freed is a patch's lines that delete free files.
func freed(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("*** Delete File: free/%d", i))
	}
	return out
}

var hookCallRows = []attack{
	calls("U11a", "as the destination of a move", hook.Codex{},
		patchCall("*** Update File: free.go", "*** Move to: src/a.go", "@@", "+x")),
	calls("U11b", "as the source of a move", hook.Codex{},
		patchCall("*** Update File: src/a.go", "*** Move to: free.go", "@@", "+x")),
	calls("U11c", "behind 900 free files of a patch", hook.Codex{},
		patchCall(append(freed(900), "*** Delete File: src/a.go")...)),
	calls("U11d", "behind a name that no file system has", hook.Codex{},
		patchCall("*** Delete File: "+strings.Repeat("n", 300)+"/a", "*** Delete File: src/a.go")),
	calls("U11e", "behind a name that the daemon refuses", hook.Codex{},
		patchCall("*** Add File: "+strings.Repeat("d/", 1500)+"a", "+x", "*** Delete File: src/a.go")),
	calls("U11f", "with carriage returns, tabs and no blanks in the patch", hook.Codex{},
		patchCall("\t*** Update File:src/../src//a.go \t\r", "@@\r", "+x\r")),
	calls("U11g", "by a here-document of a shell", hook.Codex{},
		shellCall("apply_patch <<'EOF'\n"+heldPatch+"EOF\n")),
	calls("U11h", "by a here-document after cd", hook.Codex{},
		shellCall("cd src && apply_patch <<-\"E\"\n"+strings.ReplaceAll(heldPatch, "src/a.go", "a.go")+"E\n")),
	calls("U11i", "by a pipe in another shell", hook.Codex{},
		shellCall("bash -c \"cat <<'EOF' | apply_patch\n"+heldPatch+"EOF\n\"")),
	calls("U11j", "through a link and back", hook.Gemini{}, func(f *floor) string {
		dir := f.git()
		require.NoError(f.t, os.Symlink("src", filepath.Join(dir, "link")))
		return f.asJSON(object{"cwd": dir, "hook_event_name": "BeforeTool", "tool_name": "write_file",
			"tool_input": object{"file_path": "link/../link/a.go"}})
	}),
	calls("U11k", "with the path after 4 MiB of content", hook.Gemini{}, func(f *floor) string {
		return `{"tool_input":{"content":"` + strings.Repeat("x", 4<<20) + `","file_path":"src/a.go"},` +
			`"tool_name":"replace","cwd":"` + f.git() + `"}`
	}),
	calls("U11l", "by a URI, behind a byte order mark, in one of two workspaces", hook.Cursor{}, func(f *floor) string {
		return "\uFEFF" + f.asJSON(object{"hook_event_name": "preToolUse", "tool_name": "Write", "cwd": "",
			"workspace_roots": []string{"/nowhere", "file://" + f.git()},
			"tool_input":      object{"file_path": "x", "path": "file://" + f.git() + "/src/%61.go"}})
	}),
	calls("U11m", "in one of two workspaces, relative", hook.Cursor{}, func(f *floor) string {
		return f.asJSON(object{"tool_name": "Delete", "workspace_roots": []string{"/nowhere", f.git()},
			"tool_input": object{"path": "src/a.go"}})
	}),
	calls("U11n", "as JSON inside a string", hook.Copilot{}, func(f *floor) string {
		return f.asJSON(object{"toolName": "edit", "cwd": f.git(), "toolArgs": f.asJSON(object{"path": "src/a.go"})})
	}),
	calls("U11o", "by a patch inside a string", hook.Copilot{}, func(f *floor) string {
		return f.asJSON(object{"toolName": "edit", "cwd": f.git(), "toolArgs": heldPatch})
	}),
	calls("U11p", "by a patch in the directory of its shell", hook.OpenCode{}, func(f *floor) string {
		return f.asJSON(object{"tool": "bash", "cwd": "/", "args": object{"workdir": f.git(),
			"command": "apply_patch <<'E'\n" + heldPatch + "E"}})
	}),
	calls("U11r", "by a shell in a shell after cd", hook.Codex{},
		shellCall("bash -c \"cd s'r'c && apply_patch <<'E'\n"+strings.ReplaceAll(heldPatch, "src/a.go", "a.go")+"E\n\"")),
	calls("U11s", "beside a name that a shell would expand", hook.Codex{},
		shellCall("apply_patch <<E\n*** Begin Patch\n*** Delete File: $F\n*** Delete File: src/a.go\n*** End Patch\nE\n")),
	calls("U11t", "by a second patch, after cd", hook.Codex{},
		shellCall("apply_patch <<'E'\n*** Begin Patch\n*** Delete File: free\n*** End Patch\nE\ncd src && apply_patch <<'E'\n"+
			strings.ReplaceAll(heldPatch, "src/a.go", "a.go")+"E\n")),
	calls("U11u", "by env -C", hook.Codex{},
		shellCall("env -C src apply_patch <<'E'\n"+strings.ReplaceAll(heldPatch, "src/a.go", "a.go")+"E\n")),
	calls("U11w", "by a name that it looks for elsewhere", hook.Gemini{}, func(f *floor) string {
		dir := f.git()
		require.NoError(f.t, os.WriteFile(filepath.Join(dir, "src", "a.go"), nil, 0o600))
		return f.asJSON(object{"cwd": dir, "hook_event_name": "BeforeTool", "tool_name": "replace",
			"tool_input": object{"file_path": "a.go", "old_string": "x", "new_string": "y"}})
	}),
	calls("U11v", "in the directory to which a shell goes if another command fails", hook.Codex{},
		shellCall("[ -d none ] || cd src; apply_patch <<'E'\n"+strings.ReplaceAll(heldPatch, "src/a.go", "a.go")+"E\n")),
	calls("U11q", "with another letter's escape", hook.Claude{}, func(f *floor) string {
		return `{"cwd":"` + f.git() + `","tool_name":"Edit","tool_input":{"\u0066ile_path":"\u0073rc\/a.go"}}`
	}),
	calls("U14a", "with half a character in the new text", hook.Claude{}, claudeEdit(`"file_path":"src/a.go","old_string":"x","new_string":"cut \ud83d"`)),
	calls("U14b", "with members that stand twice, deep in what the hook does not need", hook.Claude{},
		claudeEdit(`"edits":[{"a":{"b":1,"b":2},"a":0}],"file_path":"src/a.go","n":1e999`)),
	calls("U14c", "whose path stands before a free one, in a member that stands twice", hook.Claude{},
		claudeEdit(`"file_path":"src/a.go","file_path":"free.go"`)),
	calls("U14d", "whose path stands after a free one, in a member that stands twice", hook.Claude{},
		claudeEdit(`"file_path":"free.go","file_path":"src/a.go"`)),
	calls("U14e", "in a call that is cut off after its path", hook.Claude{},
		func(f *floor) string {
			return strings.TrimSuffix(claudeEdit(`"file_path":"src/a.go","new_string":"x"`)(f), `"}}`)
		}),
	calls("U14f", "in a text that is one input of two", hook.Copilot{}, func(f *floor) string {
		return `{"cwd":"` + f.git() + `","toolName":"edit","toolArgs":"{\"path\":\"free.go\"}","toolArgs":"{\"path\":\"src/a.go\",\"new_str\":\"\\ud83d\"}"}`
	}),
	reservedByName("U14j", "app/[slug]/page.tsx", true),
	reservedByName("U14k", "app/[slug]/page.tsx", false),
	reservedByName("U14l", "app/[[...sign-in]]/[id].tsx", false),
	reservedByName("U14m", "routes/{-$lang}.tsx", true),
	reservedByName("U14n", "app/[...all]/*/[a,b]?{c,d}.ts", true),
	strays("U14g", "by the entry in Claude Code's settings, with an empty directory", hook.Claude{}, hook.Cursor{}, func(f *floor) string {
		return "\uFEFF" + f.asJSON(object{"hook_event_name": "preToolUse", "cursor_version": "2.4.0", "cwd": "", "workspace_roots": []string{f.git()},
			"tool_name": "Write", "tool_input": object{"file_path": "src/a.go", "content": "y"}})
	}),
	strays("U14h", "by the entry in Claude Code's settings", hook.Claude{}, hook.Copilot{}, func(f *floor) string {
		return f.asJSON(object{"cwd": f.git(), "toolName": "edit", "toolArgs": object{"path": "src/a.go"}})
	}),
	strays("U14i", "by the entry in Claude Code's settings, in that form, with its own tool", hook.Claude{}, hook.Copilot{}, func(f *floor) string {
		return f.asJSON(object{"cwd": f.git(), "hook_event_name": "PreToolUse", "tool_name": "create", "tool_input": object{"path": "src/a.go"}})
	}),
}

// reservedByName is a row in which alma reserved a file by its name, which reads as a pattern too. It is there, or is made
// later.
func reservedByName(id, name string, there bool) attack {
	return calls(id, "that was reserved by its name "+name, hook.Claude{}, func(f *floor) string {
		dir := f.git()
		if there {
			require.NoError(f.t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
			require.NoError(f.t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		r := must.Get(checkout.Read(must.Get(checkout.At(dir))(f.t), name, op.Shown))(f.t)
		_, _, err := f.book.Reserve(f.ctx, reserve.Claim{By: f.alma, Place: f.repo, Patterns: r.Sent, TTL: reserve.MaxTTL, Keep: true})
		require.NoError(f.t, err)
		return f.asJSON(object{"cwd": dir, "hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": object{"file_path": name}})
	})
}

// claudeEdit is Claude Code's call of an edit with those members of its input.
func claudeEdit(members string) func(f *floor) string {
	return func(f *floor) string {
		return `{"cwd":"` + f.git() + `","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{` + members + `}}`
	}
}
