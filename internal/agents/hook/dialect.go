package hook

import (
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Dialect is how one agent product speaks with a hook: the form of its calls, the tools that write, and the form of an
// answer. Dialects lists them.
type Dialect interface {
	Name() string    // of the flag --for
	Product() string // as people call it
	// CanExit reports whether the product takes an exit code of 2 for a refusal.
	CanExit() bool

	form() form
	refuse(reason string) Outcome
	warn(text string) Outcome
	silent() Outcome
}

// preToolUse is the event of Claude Code and Codex that a hook can still stop.
const preToolUse = "PreToolUse"

// form is the form of a product's calls.
type form struct {
	event  string          // the only event that a hook can still stop
	name   string          // the member with the tool's name
	input  string          // the member with the tool's input
	tools  map[string]edit // the tools that write
	shells []string        // the tools that run a shell, with their line in the member command
	roots  bool            // workspace_roots stands in for a missing cwd
	uris   bool            // a path may be a file: URI
	inside bool            // the input may be JSON, or a patch, inside a string
}

// edit says how a tool's input names what it writes.
type edit struct {
	members []string // with paths; one of them has to be there
	patch   string   // the member with a patch, instead
}

// writes is a tool with the path in one of some members.
func writes(members ...string) edit { return edit{members: members} }

// patches is a tool that takes a patch.
func patches(member string) edit { return edit{patch: member} }

// signs are the members that the calls of one product alone have.
var signs = map[string]Dialect{}

// Dialects returns all dialects, the default first.
func Dialects() []Dialect {
	return []Dialect{Claude{}, Codex{}, Gemini{}}
}

// ToolsOf returns the tools of a product that write, sorted. A tool that runs a shell is among them if a patch is looked
// for in its line.
func ToolsOf(d Dialect) []string {
	f := d.form()
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(f.tools)), f.shells...)))
}

// DialectNames returns the names of all dialects.
func DialectNames() []string {
	var out []string
	for _, d := range Dialects() {
		out = append(out, d.Name())
	}
	return out
}

// DialectOf returns the dialect of that name; Claude for none. BadParams if there is none of the name.
func DialectOf(name string) (Dialect, error) {
	if name == "" {
		return Claude{}, nil
	}
	for _, d := range Dialects() {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, refusal.New(refusal.BadParams, "no dialect is called %s", op.Shown(name)).
		WithHint("one of %s", strings.Join(DialectNames(), ", "))
}

// orClaude returns the default for no dialect.
func orClaude(d Dialect) Dialect {
	if d == nil {
		return Claude{}
	}
	return d
}

// Claude is Claude Code.
type Claude struct{}

// Name implements Dialect.
func (Claude) Name() string { return "claude" }

// Product implements Dialect.
func (Claude) Product() string { return "Claude Code" }

// CanExit implements Dialect.
func (Claude) CanExit() bool { return true }

func (Claude) form() form {
	return form{event: preToolUse, name: "tool_name", input: "tool_input", tools: map[string]edit{
		"Edit":         writes("file_path"),
		"MultiEdit":    writes("file_path"),
		"Write":        writes("file_path"),
		"NotebookEdit": writes("notebook_path"),
	}}
}

func (Claude) refuse(reason string) Outcome { return denyByDecision(reason) }
func (Claude) warn(text string) Outcome     { return sayToUser(text) }
func (Claude) silent() Outcome              { return Outcome{} }

// Codex is OpenAI's Codex. Its hooks have Claude Code's form. An answer of allow or ask is an error to it.
type Codex struct{}

// Name implements Dialect.
func (Codex) Name() string { return "codex" }

// Product implements Dialect.
func (Codex) Product() string { return "Codex" }

// CanExit implements Dialect.
func (Codex) CanExit() bool { return true }

func (Codex) form() form {
	return form{event: preToolUse, name: "tool_name", input: "tool_input", tools: map[string]edit{
		"apply_patch": patches("command"),
	}, shells: []string{"Bash"}}
}

func (Codex) refuse(reason string) Outcome { return denyByDecision(reason) }
func (Codex) warn(text string) Outcome     { return sayToUser(text) }
func (Codex) silent() Outcome              { return Outcome{} }

// Gemini is Gemini CLI. It ignores the answer that Claude Code wants for a refusal.
type Gemini struct{}

// Name implements Dialect.
func (Gemini) Name() string { return "gemini" }

// Product implements Dialect.
func (Gemini) Product() string { return "Gemini CLI" }

// CanExit implements Dialect.
func (Gemini) CanExit() bool { return true }

func (Gemini) form() form {
	return form{event: "BeforeTool", name: "tool_name", input: "tool_input", tools: map[string]edit{
		"write_file": writes("file_path"),
		"replace":    writes("file_path"),
	}}
}

func (Gemini) refuse(reason string) Outcome {
	return written(struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"` // for the agent
	}{"deny", reason}, reason)
}
func (Gemini) warn(text string) Outcome { return sayToUser(text) }
func (Gemini) silent() Outcome          { return Outcome{} }
