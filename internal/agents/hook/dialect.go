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
	site() site
	servers() serverSite
	context() contextSite
	refuse(reason string) Outcome
	warn(text string) Outcome
	silent() Outcome
}

// preToolUse is the event of Claude Code and Codex that a hook can still stop.
const preToolUse = "PreToolUse"

// The members with the tool's name for most products, with the event, and with the directory.
const (
	toolName    = "tool_name"
	eventMember = "hook_event_name"
	dirMember   = "cwd"
)

// form is the form of a product's calls.
type form struct {
	event  string          // the only event that a hook can still stop, in any case of its letters
	name   string          // the member with the tool's name
	input  string          // the member with the tool's input
	tools  map[string]edit // the tools that write
	shells []string        // the tools that run a shell in whose line a patch is looked for
	runs   []string        // the tools that run a shell, with their line in the member command
	at     []string        // the members with the directory in which such a tool runs
	roots  bool            // workspace_roots stands in for a missing cwd
	seeks  []string        // the tools that look for a file at whose relative path is none
	loose  bool            // the product removes a NUL and a leading @ from paths
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

// sign is a member that the calls of one product alone have.
type sign struct {
	member string
	by     Dialect
	beside string // counts only with this member
}

var signs = []sign{
	{member: "cursor_version", by: Cursor{}},
	{member: "workspace_roots", by: Cursor{}},
	{member: "toolName", by: Copilot{}},
	{member: "args", by: OpenCode{}, beside: "tool"},
}

// Dialects returns all dialects, the default first.
func Dialects() []Dialect {
	return []Dialect{Claude{}, Codex{}, Gemini{}, Cursor{}, Copilot{}, OpenCode{}}
}

// ToolsOf returns the tools of a product that write, sorted. A tool that runs a shell is among them if a patch is looked
// for in its line.
func ToolsOf(d Dialect) []string {
	f := d.form()
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(f.tools)), f.shells...)))
}

// ShellsOf returns the tools of a product that run a shell's line. A hook is asked about them only to steer.
func ShellsOf(d Dialect) []string { return d.form().runs }

// askedOf returns the tools about which a product asks a hook that has these arguments.
func askedOf(d Dialect, s Setup) []string {
	out := ToolsOf(d)
	if s.Steers() {
		for _, tool := range ShellsOf(d) {
			if !slices.Contains(out, tool) {
				out = append(out, tool)
			}
		}
	}
	return out
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
