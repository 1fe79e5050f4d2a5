package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/op"
)

const (
	// backupSuffix is what the copy of settings is called that is made before
	// the first edit.
	backupSuffix = ".gated-backup"
	// agentDir is where a checkout has the settings of its agents.
	agentDir = ".claude"
	// maxSettings is the largest file of settings that is read, in bytes.
	maxSettings = 4 << 20
	// timeoutMargin is how much longer than the hook itself the harness waits
	// for its end before it goes on without an answer.
	timeoutMargin = 5 * time.Second
)

// SettingsOf returns where the checkout of that top level has the settings of
// its agents.
func SettingsOf(top string) string { return filepath.Join(top, agentDir, "settings.json") }

// LocalSettingsOf returns where it has those that are not shared through git.
func LocalSettingsOf(top string) string { return filepath.Join(top, agentDir, "settings.local.json") }

// Settings are the settings of an agent that is to ask us.
type Settings struct {
	Path   string // of the file; it need not exist
	DryRun bool   // change nothing, say what would be changed
}

// Command returns the line by which a harness runs a hook: a program's absolute
// path and its arguments, quoted for sh. BadParams where the path is one that
// nobody could read in a file of settings.
func Command(program string, args ...string) (string, error) {
	if err := op.CheckText("the path of this program", program); err != nil || !filepath.IsAbs(program) {
		return "", op.Refuse(op.BadParams, "the path of this program cannot be written down: %s", op.Shown(program)).
			WithHint("move it to a path of plain characters")
	}
	words := []string{Quote(program)}
	for _, a := range args {
		words = append(words, Quote(a))
	}
	return strings.Join(words, " "), nil
}

// Install has the agent ask program before it changes a file. What is not wished
// stays as it is installed. What else is in the settings stays as it is, and so do
// settings that ask it already. What was there before the first edit is kept
// beside it. Malformed: the settings are not JSON; Conflict: they are a symbolic
// link, changed meanwhile, or have hooks in a form that is not known; BadParams as
// Command.
func (s Settings) Install(program string, wish Setup) (Report, error) {
	old, err := readSettings(s.Path)
	if err != nil {
		return Report{}, err
	}
	text := old.content
	if old.info == nil || len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	before, err := readTree(text)
	if err != nil {
		return Report{}, named(s.Path, err)
	}
	was := before.called()
	setup := wish.over(was.setup())
	line, err := setup.line(program, "pre-tool-use")
	if err != nil {
		return Report{}, err
	}
	edited, fresh, err := installed(text, wanted(line, timeoutOf(setup)))
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
	case fresh:
		change.Backup = s.Path + backupSuffix
	}
	report := Report{Changes: []Change{change}, Notes: []string{}}
	if switchedOff(edited) {
		report.Notes = append(report.Notes, fmt.Sprintf(noteSwitchedOff, op.Shown(s.Path)))
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

// timeoutOf returns for how many seconds the harness waits. The hook waits twice:
// for the call and for the daemon.
func timeoutOf(s Setup) int {
	deadline := s.Deadline
	if deadline == 0 {
		deadline = ToolDeadline
	}
	return int((2*deadline + timeoutMargin + time.Second - 1) / time.Second)
}

// Uninstall takes out what Install put in, wherever the program was then, and
// what is empty for that. Settings that Install made and that have nothing else
// are removed, and their directory if it is empty then; a backup that says the
// same as what is left, too. Errors are those of Install.
func (s Settings) Uninstall() (Report, error) {
	report := Report{Changes: []Change{{Path: s.Path, Action: Unchanged}}, Notes: []string{}}
	old, err := readSettings(s.Path)
	if err != nil || old.info == nil {
		return report, err
	}
	edited, err := uninstalled(old.content)
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
	if err != nil {
		return Report{}, err
	}
	kept := before.info != nil
	if !kept && string(bytes.TrimSpace(edited)) == "{}" {
		change.Action = Removed
	}
	same := kept && bytes.Equal(before.content, edited)
	if kept && !same {
		change.Backup = backup
	}
	if s.DryRun {
		return report, nil
	}
	if change.Action == Removed {
		return report, old.removeAll()
	}
	if err := old.replace(edited); err != nil || !same {
		return report, err
	}
	return report, os.Remove(backup)
}

// named says which file an error is about.
func named(path string, err error) error {
	var r *op.Refusal
	if errors.As(err, &r) {
		return op.Refuse(r.Code, "%s: %s", op.Shown(path), r.Detail).WithHint("%s", r.Hint)
	}
	return fmt.Errorf("%s: %w", path, err)
}
