package hook

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// serverName is the name of gated's entry among a product's MCP servers.
const serverName = "gated"

// ServerFile is a product's file that names MCP servers.
type ServerFile struct {
	For    Dialect
	Path   string // of the file; it need not exist
	DryRun bool   // change nothing, say what would be changed
}

// ServerFileOf returns the file of a product: in the checkout with that top level, or in the product's directory of the
// user. That directory is below $HOME, if the product's own variable does not name it.
func ServerFileOf(d Dialect, top string, getenv func(string) string) ServerFile {
	at := d.servers()
	if at.dirVar != "" {
		if top = getenv(at.dirVar); top == "" {
			top = filepath.Join(getenv("HOME"), d.site().home)
		}
	}
	return ServerFile{For: d, Path: filepath.Join(top, at.file)}
}

// Install makes the product start program with args as an MCP server. The rest of the file stays byte for byte.
// Malformed: the file cannot be read as what it is. Conflict: it has another server of that name, is a symbolic link,
// or changed meanwhile. BadParams as Command.
func (f ServerFile) Install(program string, args ...string) (Report, error) {
	if _, err := Command(program, args...); err != nil {
		return Report{}, err
	}
	return f.change(append([]string{program}, args...))
}

// Uninstall removes what Install added, and what is then empty. It deletes a file in which nothing else is. Errors are
// those of Install.
func (f ServerFile) Uninstall() (Report, error) { return f.change(nil) }

// change writes the file with the server that line starts, or without it if line is nil.
func (f ServerFile) change(line []string) (Report, error) {
	report := Report{Changes: []Change{{Path: f.Path, Action: Unchanged}}, Notes: []string{}}
	old, err := readSettings(f.Path)
	if err != nil || old.info == nil && line == nil {
		return report, err
	}
	text, edit, empty := old.content, f.editJSON, "{}\n"
	if f.For.servers().entry == nil {
		edit, empty = editTOML, ""
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte(empty)
	}
	edited, err := edit(text, line)
	if err != nil {
		return Report{}, named(f.Path, err)
	}
	action := &report.Changes[0].Action
	switch {
	case old.info == nil:
		*action = Created
	case bytes.Equal(edited, text):
		return report, nil
	case line == nil && string(edited) == empty:
		*action = Removed
	default:
		*action = Changed
	}
	switch {
	case f.DryRun:
		return report, nil
	case *action == Removed:
		return report, old.remove()
	}
	return report, old.replace(edited)
}

// editJSON returns a JSON text with the server of a line, or without it.
func (f ServerFile) editJSON(text []byte, line []string) ([]byte, error) {
	if !jsontext.Value(text).IsValid() {
		return nil, refusal.New(refusal.Malformed, "it is not valid JSON").
			WithHint("correct it first, or add the server by hand: nothing was changed")
	}
	at := f.For.servers()
	outer := at.member
	want, err := json.Marshal(at.entry(line), json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	s, err := readServers(text, outer)
	if err != nil {
		return nil, err
	}
	own, there := memberOf(s.list, serverName)
	switch {
	case there && !startsMCP(text[own.value.start:own.value.end]):
		return nil, otherServer()
	case there && line != nil && sameJSON(text[own.value.start:own.value.end], want):
		return text, nil
	case there:
		text = s.without()
	case line == nil:
		return text, nil
	}
	if line == nil {
		return text, nil
	}
	if s, err = readServers(text, outer); err != nil {
		return nil, err
	}
	if s.has {
		return add(text, s.outer.value, spans(s.list), serverName, want)
	}
	all, err := json.Marshal(map[string]jsontext.Value{serverName: want})
	if err != nil {
		return nil, err
	}
	return add(text, whole(text), spans(s.root), outer, all)
}

// servers finds the MCP servers in a product's JSON.
type servers struct {
	text  []byte
	root  []member
	outer member // of the root, if has
	has   bool
	list  []member
}

// readServers reads a valid JSON text. Another form than an object of objects is a Conflict.
func readServers(text []byte, outer string) (servers, error) {
	s := servers{text: text}
	other := refusal.New(refusal.Conflict, "its servers have a form that is not known").
		WithHint("add the server by hand, or correct it: nothing was changed")
	var ok bool
	if s.root, ok = members(text, whole(text)); !ok {
		return s, other
	}
	if s.outer, s.has = memberOf(s.root, outer); !s.has {
		return s, nil
	}
	if s.list, ok = members(text, s.outer.value); !ok {
		return s, other
	}
	return s, nil
}

// without removes gated's entry, and what is then empty.
func (s servers) without() []byte {
	switch {
	case len(s.list) > 1:
		return cutMember(s.text, s.list, serverName)
	case len(s.root) > 1:
		return cutMember(s.text, s.root, s.outer.name)
	default:
		return replaced(s.text, whole(s.text), "{}")
	}
}

func otherServer() error {
	return refusal.New(refusal.Conflict, "it has another server with the name %s", serverName).
		WithHint("rename or remove that one first: nothing was changed")
}

// startsMCP reports whether an entry starts gated mcp, by whatever path and flags.
func startsMCP(entry []byte) bool {
	var e struct {
		Command jsontext.Value `json:"command"`
		Args    []string       `json:"args"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return false
	}
	var line []string
	var program string
	if json.Unmarshal(e.Command, &line) != nil {
		if json.Unmarshal(e.Command, &program) != nil {
			return false
		}
		line = append([]string{program}, e.Args...)
	}
	return len(line) > 1 && slices.Contains(line[1:], "mcp")
}

// sameJSON reports whether two JSON values are equal, whatever their layout.
func sameJSON(a, b []byte) bool {
	x, y := jsontext.Value(a).Clone(), jsontext.Value(b).Clone()
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
