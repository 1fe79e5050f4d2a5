package hook

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gated/internal/base/op"
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
// user. Its path is empty if the environment names no home.
func ServerFileOf(d Dialect, top string, getenv func(string) string) ServerFile {
	at := d.servers()
	if at.atHome {
		if top = d.site().userDir(top, getenv); top == "" {
			return ServerFile{For: d}
		}
	}
	return ServerFile{For: d, Path: filepath.Join(top, at.file)}
}

// Install makes the product start program with args as an MCP server. Of an entry that is gated's it changes the program
// and its arguments alone. The rest of the file stays byte for byte. Malformed: the file cannot be read as what it is.
// Conflict: it has another server of that name, is a symbolic link, or changed meanwhile. BadParams as Command, or if the
// program's name is not gated's.
func (f ServerFile) Install(program string, args ...string) (Report, error) {
	if _, err := Command(program, args...); err != nil {
		return Report{}, err
	}
	line := append([]string{program}, args...)
	if !ownServer(line) {
		return Report{}, refusal.New(refusal.BadParams, "%s would not be found again as the program of gated", op.Shown(program)).
			WithHint("call the program gated, or gated-VERSION")
	}
	return f.change(line)
}

// Uninstall removes gated's entry, and what is then empty if Install made it. It deletes a file that Install made if
// nothing else is in it. Errors are those of Install.
func (f ServerFile) Uninstall() (Report, error) { return f.change(nil) }

// serverEdit is the result of an edit.
type serverEdit struct {
	text  []byte
	gone  bool     // Install made the file, and nothing is left in it
	notes []string // for a person to know
}

// change writes the file with the server that line starts, or without it if line is nil.
func (f ServerFile) change(line []string) (Report, error) {
	report := Report{Changes: []Change{{Path: f.Path, Action: Unchanged}}, Notes: []string{}}
	old, err := readSettings(f.Path)
	if err != nil || old.info == nil && line == nil {
		return report, err
	}
	edit := f.editJSON
	if f.For.servers().entry == nil {
		edit = editTOML
	}
	edited, err := edit(old.content, old.info != nil, line)
	if err != nil {
		return Report{}, named(f.Path, err)
	}
	for _, note := range edited.notes {
		report.Notes = append(report.Notes, op.Shown(f.Path)+": "+note)
	}
	action := &report.Changes[0].Action
	switch {
	case old.info == nil:
		*action = Created
	case bytes.Equal(edited.text, old.content):
		return report, nil
	case edited.gone:
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
	return report, old.replace(edited.text)
}

func otherServer() error {
	return refusal.New(refusal.Conflict, "it has another server with the name %s", serverName).
		WithHint("rename or remove that one first: nothing was changed")
}

// ownProgram matches the base names of gated's program.
var ownProgram = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^gated(-v?[0-9][0-9A-Za-z.+~_-]*)?$`) })

// ownServer reports whether a line is one that gated mcp install writes: the program gated or gated-VERSION at any path,
// then mcp, --as NAME and --socket PATH, the last two if they were said. Any other line is another program's.
func ownServer(line []string) bool {
	if len(line) < 2 || !ownProgram().MatchString(filepath.Base(line[0])) || line[1] != "mcp" {
		return false
	}
	rest := line[2:]
	if len(rest) >= 2 && rest[0] == "--as" && op.CheckName(rest[1]) == nil {
		rest = rest[2:]
	}
	if len(rest) >= 2 && rest[0] == "--socket" && filepath.IsAbs(rest[1]) {
		rest = rest[2:]
	}
	return len(rest) == 0
}

// entryNotes says what a person has to know of an entry of gated's: it is switched off, or it has members that gated did
// not write, which stay or go away with it.
func entryNotes(entry map[string]any, removed bool, written ...string) []string {
	var theirs []string
	for name := range entry {
		if !slices.Contains(written, name) {
			theirs = append(theirs, op.Shown(name))
		}
	}
	slices.Sort(theirs)
	var notes []string
	switch list := strings.Join(theirs, ", "); {
	case removed && list != "":
		notes = append(notes, "with the entry went what was added to it: "+list)
	case list != "":
		notes = append(notes, "the entry keeps what was added to it: "+list)
	}
	if !removed && (entry["enabled"] == false || entry["disabled"] == true) {
		notes = append(notes, "the entry is switched off there, and stays so: the product does not start gated mcp")
	}
	return notes
}
