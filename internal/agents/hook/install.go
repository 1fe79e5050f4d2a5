package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// backupSuffix ends the name of the copy of the settings from before the first edit.
	backupSuffix = ".gated-backup"
	// maxSettings is the largest file of settings that is read, in bytes.
	maxSettings = 4 << 20
	// timeoutMargin is how much longer than the hook itself the harness waits before it goes on without an answer.
	timeoutMargin = 5 * time.Second
)

// SettingsOf returns the path of the agents' settings in the checkout with that top level.
func SettingsOf(top string) string { return filepath.Join(top, Claude{}.site().file) }

// LocalSettingsOf returns the path of the settings that are not shared through git.
func LocalSettingsOf(top string) string {
	return filepath.Join(filepath.Dir(SettingsOf(top)), "settings.local.json")
}

// Settings is a file of an agent's settings that gated edits.
type Settings struct {
	Path   string  // of the file; it need not exist
	For    Dialect // whose they are; nil: Claude
	DryRun bool    // change nothing, say what would be changed
	AtHome bool    // they are the user's, for all checkouts
	// Switches says that the file has no hooks, and may switch off those of other files.
	Switches bool
}

// Dialect returns whose settings they are.
func (s Settings) Dialect() Dialect { return orClaude(s.For) }

// Command returns the line by which a harness runs a hook: a program's absolute path and its arguments, quoted for sh.
// BadParams if a person could not read the path in a file of settings.
func Command(program string, args ...string) (string, error) {
	if err := op.CheckText("the path of this program", program); err != nil || !filepath.IsAbs(program) {
		return "", refusal.New(refusal.BadParams, "the path of this program cannot be written down: %s", op.Shown(program)).
			WithHint("move it to a path of plain characters")
	}
	return op.ShellWords(append([]string{program}, args...)...), nil
}

// Install makes the agent ask program before it changes a file. Members that wish leaves empty keep their installed
// values. The rest of the settings stays, and so do settings that are already as wished. A copy of the file from before
// the first edit is kept beside it, and is never replaced. Malformed: the settings are not JSON. Conflict: they are a symbolic link, changed
// meanwhile, or have hooks in an unknown form. BadParams as Command.
func (s Settings) Install(program string, wish Setup) (Report, error) {
	if s.isPlugin() {
		return s.installPlugin(program, wish)
	}
	l := orClaude(s.For).site()
	old, err := readSettings(s.Path)
	if err != nil {
		return Report{}, err
	}
	text := old.content
	if l.fresh = len(bytes.TrimSpace(text)) == 0; l.fresh {
		text = []byte(l.base)
	}
	before, err := l.readTree(text)
	if err != nil {
		return Report{}, named(s.Path, err)
	}
	was := before.called()
	line, want, err := s.entry(program, wish, was)
	if err != nil {
		return Report{}, err
	}
	edited, fresh, err := l.installed(text, want)
	if err == nil {
		edited, err = withContexts(s.Dialect(), edited, program, wish.Context, readLine(line).setup())
	}
	if err != nil {
		return Report{}, named(s.Path, err)
	}
	change := Change{Path: s.Path, Action: Changed}
	if was.program != "" {
		change.Differs = was.differs(readLine(line))
	}
	switch {
	case old.info == nil:
		change.Action = Created
	case bytes.Equal(edited, old.content):
		change.Action = Unchanged
	case fresh && !there(s.Path+backupSuffix):
		change.Backup = s.Path + backupSuffix
	}
	report := Report{Changes: []Change{change}, Notes: s.notes(wish)}
	if off := switchOf(l.comments.read(edited).plain); off.Off != "" {
		note := op.Shown(s.Path) + " has " + off.Off + ": no hook runs until you remove it"
		report.Notes = append(report.Notes, note)
	}
	if s.DryRun || change.Action == Unchanged {
		return report, nil
	}
	if change.Backup != "" {
		if err := old.copyTo(change.Backup); err != nil {
			return Report{}, err
		}
	}
	return report, old.replace(edited)
}

// entry returns the line and the entry for a wish over what was installed.
func (s Settings) entry(program string, wish Setup, was called) (line string, entry jsontext.Value, err error) {
	setup, err := s.setup(wish, was)
	if err != nil {
		return "", nil, err
	}
	if line, err = setup.line(program, "pre-tool-use"); err != nil {
		return "", nil, err
	}
	entry, err = orClaude(s.For).site().wanted(line, timeoutOf(setup), matcherOf(s.Dialect(), setup))
	return line, entry, err
}

// setup returns the arguments of an installed line. BadParams for an exit code that the product does not know.
func (s Settings) setup(wish Setup, was called) (Setup, error) {
	d := orClaude(s.For)
	setup := wish.over(was.setup())
	setup.For = ""
	if d != Dialect(Claude{}) {
		setup.For = d.Name()
	}
	if setup.ExitCode != nil && *setup.ExitCode && !d.CanExit() {
		if wish.ExitCode != nil {
			return setup, refusal.New(refusal.BadParams, "%s knows no exit code that refuses", d.Product()).WithHint("leave out --exit-code")
		}
		setup.ExitCode = nil
	}
	return setup, nil
}

// notes says what a person has to do or to know besides.
func (s Settings) notes(wish Setup) []string {
	notes := []string{}
	if _, ok := s.For.(Codex); ok {
		notes = append(notes, "Codex runs this hook only after you trust it: start codex here and trust it, or type /hooks. "+
			"Its line stays the same after an upgrade of gated, and so does your trust")
	}
	if d := s.Dialect(); wish.Context != nil && *wish.Context && len(d.context().events) == 0 {
		notes = append(notes, d.Product()+" has no hook that adds to the agent's context: gated mcp and gated wait say what became of requests")
	}
	return notes
}

// timeoutOf returns how long the product waits. The hook waits twice: for the call and for the daemon.
func timeoutOf(s Setup) time.Duration {
	deadline := s.Deadline
	if deadline == 0 {
		deadline = ToolDeadline
	}
	return 2*deadline + timeoutMargin
}

// Uninstall removes what Install added, for any program, and what is then empty. It deletes settings that Install made
// if nothing else is in them, and then their empty directory. Settings that were blank are so again. It also deletes a
// backup with the same content as the rest. Errors are those of Install.
func (s Settings) Uninstall() (Report, error) {
	report := Report{Changes: []Change{{Path: s.Path, Action: Unchanged}}, Notes: []string{}}
	old, err := readSettings(s.Path)
	if err != nil || old.info == nil {
		return report, err
	}
	l := orClaude(s.For).site()
	if s.isPlugin() {
		return s.uninstallPlugin(old)
	}
	edited, err := l.uninstalled(old.content)
	if err == nil {
		edited, err = withoutContexts(s.Dialect(), edited)
	}
	if err != nil {
		return Report{}, named(s.Path, err)
	}
	if bytes.Equal(edited, old.content) {
		return report, nil
	}
	change := &report.Changes[0]
	change.Action = Changed
	backup := s.Path + backupSuffix
	before, err := readSettings(backup)
	kept := err != nil || before.info != nil
	if err == nil && kept && len(bytes.TrimSpace(before.content)) == 0 && l.isBase(edited) {
		edited = before.content // the file was blank
	}
	if !kept && l.isBase(edited) {
		change.Action = Removed
	}
	same := err == nil && kept && bytes.Equal(before.content, edited)
	if kept && !same {
		change.Backup = backup
	}
	if s.DryRun {
		return report, nil
	}
	if change.Action == Removed {
		return report, old.removeAll(l)
	}
	if err := old.replace(edited); err != nil || !same {
		return report, err
	}
	return report, before.remove()
}

// there reports whether a path has something.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// named adds the file's name to an error.
func named(path string, err error) error {
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return refusal.New(r.Code, "%s: %s", op.Shown(path), r.Detail).WithHint("%s", r.Hint)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Report says what the installation or removal of hooks changed, or would change.
type Report struct {
	Changes []Change `json:"changes"`
	Notes   []string `json:"notes"` // for a person to know
}

// Change is the result for one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	Backup string `json:"backup,omitzero"` // the copy of the earlier content
	// Differs says how the arguments of an installed hook changed: "on-failure: block -> warn".
	Differs []string `json:"differs,omitempty"`
}

// Action is the act on a file.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Removed   Action = "removed"
	Unchanged Action = "unchanged" // it was right already
)

// And joins two reports.
func (r Report) And(o Report) Report {
	r.Changes = append(r.Changes, o.Changes...)
	r.Notes = append(r.Notes, o.Notes...)
	return r
}
