package harness_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The content of a file, and what a product is asked to make of it.
const (
	before = "before"
	after  = "after"
)

// product is one agent product.
type product struct {
	name, pkg string
	program   string // below node_modules
	speaks    dialect
	files     func(*world) map[string]string // its settings, below the home
	environ   func(*world) []string
	args      []string
	trust     func(*testing.T, *world) // has the product trust the hook that was installed; nil if it trusts every hook
	dialect   string                   // of gated hook install --for
	settings  string                   // of the checkout, with its hooks
	contexts  []string                 // its events for gated hook context: the start of a session, a prompt
	seeks     bool                     // its edit looks for the only file of a name if a relative path does not exist
	missing   string                   // what the model is told of a hook program that is missing; "" if the call passes

	// find has the calls that a model makes before it knows the tools of MCP servers.
	find []call
	// tool is a call of a tool of gated's MCP server, by the name that the product gives it.
	tool func(name string, args map[string]any) call

	// The calls that its model makes. A product without such a tool has nil.
	edit    func(path string) call
	create  func(path string) call
	patch   func(patched) call
	heredoc func(patched) call
	runs    func(patched) call // the product leaves the line to the shell, which runs apply_patch
	shell   func(line string) call
}

// change is a kind of change, which is a row of the table.
type change string

// The changes.
const (
	edits    change = "an edit"
	seeks    change = "an edit by a name that it looks for"
	creates  change = "a new file"
	patches  change = "a patch of several files, with a move"
	heredocs change = "a patch in a shell's heredoc"
	scripts  change = "the same, by the shell's program `apply_patch`"
	shells   change = "a shell that writes"
)

var changes = []change{edits, seeks, creates, patches, heredocs, scripts, shells}

// step is one call of a script, and its files before and after.
type step struct {
	change
	call
	was map[string]string // by name below the checkout; "" for no file
	is  map[string]string // if the call passed
}

// step returns the step that changes files of the directory, of which the last is in the directory held.
// The second result is false if the product has no such tool.
func (p product) step(c change, repo, id, dir, held string) (step, bool) {
	s := step{change: c}
	one := filepath.Join(held, id+".txt")
	switch {
	case c == edits && p.edit != nil:
		s.call = p.edit(filepath.Join(repo, one))
		s.was, s.is = map[string]string{one: before + "\n"}, map[string]string{one: after + "\n"}
	case c == seeks && p.seeks:
		s.call = p.edit(id + ".txt")
		s.was, s.is = map[string]string{one: before + "\n"}, map[string]string{one: after + "\n"}
	case c == creates && p.create != nil:
		s.call = p.create(filepath.Join(repo, one))
		s.was, s.is = map[string]string{one: ""}, map[string]string{one: after + "\n"}
	case c == shells && p.shell != nil:
		s.call = p.shell(fmt.Sprintf("echo %s > %s", after, filepath.Join(repo, one)))
		s.was, s.is = map[string]string{one: ""}, map[string]string{one: after + "\n"}
	case c == patches && p.patch != nil, c == heredocs && p.heredoc != nil, c == scripts && p.runs != nil:
		name := func(dir, end string) string { return filepath.Join(dir, id+"-"+end+".txt") }
		files := patched{updated: name(dir, "updated"), added: name(dir, "added"), deleted: name(dir, "deleted"),
			from: name(dir, "from"), to: name(held, "to")}
		s.call = map[change]func(patched) call{patches: p.patch, heredocs: p.heredoc, scripts: p.runs}[c](files)
		s.was = map[string]string{files.updated: before + "\n", files.deleted: before + "\n", files.from: before + "\n",
			files.added: "", files.to: ""}
		s.is = map[string]string{files.updated: after + "\n", files.deleted: "", files.from: "",
			files.added: after + "\n", files.to: after + "\n"}
	default:
		return step{}, false
	}
	s.id = id
	return s, true
}

// patched has the files of a patch, by what it does with them.
type patched struct{ updated, added, deleted, from, to string }

// String returns the sections of a patch in the form of apply_patch.
func (p patched) String() string {
	return update(p.updated) + add(p.added) + "*** Delete File: " + p.deleted + "\n" +
		strings.Replace(update(p.from), "\n", "\n*** Move to: "+p.to+"\n", 1)
}

func update(path string) string {
	return "*** Update File: " + path + "\n@@\n-" + before + "\n+" + after + "\n"
}

func add(path string) string { return "*** Add File: " + path + "\n+" + after + "\n" }

func envelope(sections string) string {
	return "*** Begin Patch\n" + sections + "*** End Patch\n"
}
