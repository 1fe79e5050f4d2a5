package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// edits is a directory with a .git in which an agent edits.
type edits struct {
	t      *testing.T
	dir    string
	daemon holder
	ToolHook
}

func newEdits(t *testing.T, held ...string) *edits {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	e := &edits{t: t, dir: dir, daemon: holder{held: held}}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
	repoAt(t, dir).write("src/a.go", "package a\n")
	e.Guard = e.daemon.guard("pre-tool-use")
	e.Home = newGate(t).home
	return e
}

// call returns a tool call as a harness writes it.
func (e *edits) call(tool, member, path string) string {
	b, err := json.Marshal(map[string]any{"session_id": "s1", "transcript_path": "/t", "cwd": e.dir, "hook_event_name": preToolUse,
		"tool_name": tool, "tool_input": map[string]any{member: path, "content": "x", "new_source": "y"}, "tool_use_id": "t1"})
	require.NoError(e.t, err)
	return string(b)
}

func (e *edits) run(call string) Outcome { return e.Run(e.t.Context(), strings.NewReader(call)) }

// reason returns why a call was denied, in the exact form that a harness reads.
func (e *edits) reason(o Outcome) string {
	e.t.Helper()
	require.Zero(e.t, o.Code)
	require.Empty(e.t, o.Stderr)
	var a struct {
		Specific struct {
			Event    string `json:"hookEventName"`
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	require.NoError(e.t, json.Unmarshal([]byte(o.Stdout), &a, json.RejectUnknownMembers(true)))
	require.Equal(e.t, "PreToolUse", a.Specific.Event)
	require.Equal(e.t, "deny", a.Specific.Decision)
	return a.Specific.Reason
}

func TestAConflictIsDenied(t *testing.T) {
	for _, tool := range ToolsOf(Claude{}) {
		member := Claude{}.form().tools[tool].members[0]
		e := newEdits(t, "src/**")
		reason := e.reason(e.run(e.call(tool, member, filepath.Join(e.dir, "src", "new.go"))))
		require.Contains(t, reason, "gated reservation reserve --wait-for 90s src/new.go\n")
		require.Contains(t, reason, "builder")
		require.Equal(t, []string{"src/new.go"}, e.daemon.patterns())
		require.Equal(t, e.dir, e.daemon.asked[0].Scope.Path)
		require.Empty(t, e.daemon.asked[0].Mode, "an edit is exclusive")
	}
}

func TestTheExactAnswer(t *testing.T) {
	e := newEdits(t, "src/**")
	o := e.run(e.call("Edit", "file_path", "src/a.go"))
	require.Regexp(t, `^\{"hookSpecificOutput":\{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"gated: [^\n]*"\}\}\n$`, o.Stdout)

	e.ExitCode = true
	o = e.run(e.call("Edit", "file_path", "src/a.go"))
	require.Equal(t, 2, o.Code)
	require.Empty(t, o.Stdout)
	require.True(t, strings.HasPrefix(o.Stderr, "gated: this call was refused"))
}

// TestNoConflictIsNoDecision: "allow" would skip the questions that a user wants
// to be asked.
func TestNoConflictIsNoDecision(t *testing.T) {
	for _, exitCode := range []bool{false, true} {
		e := newEdits(t, "docs/**")
		e.ExitCode = exitCode
		require.Equal(t, Outcome{}, e.run(e.call("Edit", "file_path", "src/a.go")))
		require.Len(t, e.daemon.asked, 1)
		for _, tool := range []string{"Bash", "Read", "Task", "mcp__fs__write", "edit"} {
			require.Equal(t, Outcome{}, e.run(e.call(tool, "file_path", "docs/a.md")), tool)
		}
		require.Len(t, e.daemon.asked, 1, "of other tools it has no opinion and asks nothing")
	}
}

// TestAFileOutsideEveryCheckoutIsAskedAbout: its directory is the scope, so that a reservation there counts.
func TestAFileOutsideEveryCheckoutIsAskedAbout(t *testing.T) {
	bare := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	file := filepath.Join(bare, "notes.txt")
	e := newEdits(t)
	e.OnFailure = Block
	require.Equal(t, Outcome{}, e.run(e.call("Write", "file_path", file)))
	require.Equal(t, [2]string{bare, "notes.txt"}, [2]string{e.daemon.asked[0].Scope.Path, e.daemon.asked[0].Patterns[0]})

	held := newEdits(t, "notes.txt")
	require.Contains(t, held.reason(held.run(held.call("Write", "file_path", file))), "notes.txt")
}

func TestTheRealFileIsAskedAbout(t *testing.T) {
	e := newEdits(t)
	r := repoAt(t, e.dir)
	other := newEdits(t)
	r.write("sub/.git", "gitdir: elsewhere\n")
	r.write("sub/x", "")
	for name, to := range map[string]string{"link": "src", "dangling": "src/later.go", "out": filepath.Join(other.dir, "src"), "src/up": "../docs"} {
		require.NoError(t, os.Symlink(to, filepath.Join(e.dir, name)))
	}
	for path, want := range map[string][2]string{
		"src/a.go":                     {e.dir, "src/a.go"},
		e.dir + "/src/a.go":            {e.dir, "src/a.go"},
		"./src//./a.go":                {e.dir, "src/a.go"},
		"src/../src/a.go":              {e.dir, "src/a.go"},
		"link/a.go":                    {e.dir, "src/a.go"},
		"link/../src/a.go":             {e.dir, "src/a.go"},
		"dangling":                     {e.dir, "src/later.go"},
		"src/up/../a.go":               {e.dir, "a.go"}, // the kernel's ".."
		"new/dir/that/is/not/there.go": {e.dir, "new/dir/that/is/not/there.go"},
		"sub/x":                        {e.dir + "/sub", "x"},
		"sub/../src/a.go":              {e.dir, "src/a.go"},
		"out/a.go":                     {other.dir, "src/a.go"},
		"app/[slug]/*.{a,b}":           {e.dir, `app/\[slug]/\*.\{a,b\}`},
		"two\nlines":                   {e.dir, "two[! -~]lines"},
	} {
		e.daemon.asked = nil
		require.Equal(t, Outcome{}, e.run(e.call("Write", "file_path", path)), path)
		require.Equal(t, want, [2]string{e.daemon.asked[0].Scope.Path, e.daemon.asked[0].Patterns[0]}, path)
	}
	require.NoError(t, os.Symlink("loop", filepath.Join(e.dir, "loop")))
	require.Contains(t, e.run(e.call("Write", "file_path", "loop/x")).Stdout, "systemMessage")
}

// failing are the ways in which a hook cannot find out.
func failing(e *edits) map[string]func() Outcome {
	edit := e.call("Edit", "file_path", "src/a.go")
	answering := func(fn func(context.Context) (api.Checked, error)) func() Outcome {
		return func() Outcome {
			h := e.ToolHook
			h.Check = func(ctx context.Context, _ api.Check) (api.Checked, error) { return fn(ctx) }
			return h.Run(e.t.Context(), strings.NewReader(edit))
		}
	}
	late := func(in io.Reader) func() Outcome {
		return func() Outcome {
			h := e.ToolHook
			h.Deadline = time.Millisecond
			return h.Run(e.t.Context(), in)
		}
	}
	never, writer := io.Pipe()
	e.t.Cleanup(func() { _ = writer.Close() })
	out := map[string]func() Outcome{
		"away": answering(func(context.Context) (api.Checked, error) { return api.Checked{}, errAway }),
		"refusing": answering(func(context.Context) (api.Checked, error) {
			return api.Checked{}, refusal.New(refusal.NotAllowed, "no")
		}),
		"internal": answering(func(context.Context) (api.Checked, error) { return api.Checked{}, refusal.New(refusal.Internal, "no") }),
		"fault":    answering(func(context.Context) (api.Checked, error) { panic("fault") }),
		"slow": func() Outcome {
			h := e.ToolHook
			h.Deadline = time.Millisecond
			h.Check = func(ctx context.Context, _ api.Check) (api.Checked, error) {
				<-e.t.Context().Done()
				return api.Checked{}, nil
			}
			return h.Run(e.t.Context(), strings.NewReader(edit))
		},
		"silent":     late(never),
		"unfinished": func() Outcome { return e.Run(e.t.Context(), io.MultiReader(strings.NewReader(edit[:20]), broken{})) },
	}
	for i, text := range []string{"", "{", "[]", "null", `{"tool_name":"Edit"}`, `{"tool_name":"Edit","tool_input":{}}`, strings.Repeat("[", 1<<16),
		e.call("Edit", "notebook_path", "a"), strings.Replace(edit, "PreToolUse", "Stop", 1), `{"tool_name":"Edit"} x`,
		e.call("Edit", "file_path", strings.Repeat("n", 300)+"/a")} {
		out[fmt.Sprintf("input %d", i)] = func() Outcome { return e.run(text) }
	}
	return out
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestWhatCannotBeCheckedGoesOnWithAWarning(t *testing.T) {
	e := newEdits(t)
	all := failing(e)
	require.Len(t, all, 18)
	for name, run := range all {
		e.Home = newGate(t).home
		o := run()
		require.Zero(t, o.Code, name)
		require.Empty(t, o.Stderr, name)
		var a map[string]string
		require.NoError(t, json.Unmarshal([]byte(o.Stdout), &a), name)
		require.Len(t, a, 1, name)
		require.Contains(t, a["systemMessage"], "could not be checked", name)
		require.EqualValues(t, 1, e.Home.Status(newGateTime, 1).Failures, name)

		e.ExitCode = true
		o = run()
		e.ExitCode = false
		require.Zero(t, o.Code, name)
		require.Empty(t, o.Stdout, name)
		require.Contains(t, o.Stderr, "could not be checked", name)
	}
}

func TestWhatCannotBeCheckedIsBlockedIfSo(t *testing.T) {
	e := newEdits(t)
	e.OnFailure = Block
	for name, run := range failing(e) {
		e.Home = newGate(t).home
		require.Contains(t, e.reason(run()), "--on-failure block", name)
		require.Equal(t, Block, e.Home.Status(newGateTime, 1).Last[0].Then, name)

		e.ExitCode = true
		o := run()
		e.ExitCode = false
		require.Equal(t, exitDenied, o.Code, name)
		require.Empty(t, o.Stdout, name)
		require.Contains(t, o.Stderr, "--on-failure block", name)
	}
}

func TestAnOpenCircuitStillBlocks(t *testing.T) {
	e := newEdits(t)
	e.daemon.err = errAway
	e.Now = func() time.Time { return newGateTime }
	edit := e.call("Edit", "file_path", "src/a.go")
	for range tripAt {
		e.run(edit)
	}
	require.Contains(t, e.run(edit).Stdout, "systemMessage")
	e.OnFailure = Block
	require.Contains(t, e.reason(e.run(edit)), "is not asked")
	require.Len(t, e.daemon.asked, tripAt)
}

// TestCallsThatNobodyCanReadOpenNothing: else an agent could switch the hook off.
func TestCallsThatNobodyCanReadOpenNothing(t *testing.T) {
	e := newEdits(t, "**")
	for range 2 * tripAt {
		require.Contains(t, e.run("{").Stdout, "systemMessage")
		require.Contains(t, e.run(e.call("Edit", "file_path", strings.Repeat("n", 300)+"/a")).Stdout, "systemMessage")
	}
	require.Contains(t, e.reason(e.run(e.call("Edit", "file_path", "a"))), "reserved")
}

func TestAToolHookChangesNothing(t *testing.T) {
	e := newEdits(t, "src/a.go")
	r := repoAt(t, e.dir)
	require.NoError(t, os.Symlink("src", filepath.Join(e.dir, "link")))
	before := r.snapshot()
	for _, path := range []string{"src/a.go", "src/b.go", "new/dir/x", "link/y", ".git/config"} {
		e.run(e.call("Write", "file_path", path))
	}
	for _, run := range failing(e) {
		run()
	}
	require.Equal(t, before, r.snapshot())
	for _, c := range e.daemon.asked {
		require.Len(t, c.Patterns, 1)
	}
}

// TestALargeCallIsJudged: what an agent writes may be large, and where its path
// stands in the call is the harness's own business.
func TestALargeCallIsJudged(t *testing.T) {
	e := newEdits(t, "src/a.go")
	sized := func(size int, before, after string) io.Reader {
		fill := strings.NewReader(strings.Repeat("x", size-len(before)-len(after)))
		return io.MultiReader(strings.NewReader(before), fill, strings.NewReader(after))
	}
	first := `{"cwd":"` + e.dir + `","tool_name":"Write","tool_input":{"file_path":"src/a.go","content":"`
	last := `{"tool_input":{"content":"`
	end := `","file_path":"src/a.go"},"tool_name":"Write","cwd":"` + e.dir + `"}`
	for _, call := range []io.Reader{sized(1<<20+1, first, `"}}`), sized(1<<20+1, last, end), sized(maxCall, last, end)} {
		require.Contains(t, e.reason(e.Run(t.Context(), call)), "another agent has reserved")
	}
	free := strings.Replace(first, "src/a.go", "free.go", 1)
	require.Contains(t, e.Run(t.Context(), sized(maxCall+1, free, `"}}`)).Stdout, "more than 33554432 bytes")
	require.Contains(t, e.reason(e.Run(t.Context(), sized(maxCall+1, first, `"}}`))), "another agent has reserved", "the path was read before")
	require.EqualValues(t, 1, e.Home.Status(newGateTime, 1).Failures)

	// An endless one ends there, and not with the memory.
	call := must.Get(ParseCall(Claude{}, io.MultiReader(strings.NewReader(first), endless{})))(t)
	require.Equal(t, refusal.New(refusal.Oversized, "the call has more than 33554432 bytes").Error(), call.Unread.Error(), "and no word of the decoder")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
