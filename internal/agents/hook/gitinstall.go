package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// goesByName matches hooks that use their own name.
var goesByName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$0|\$\{0|argv\[0\]|__file__|BASH_SOURCE|PROGRAM_NAME|basename`)
})

// InstallGit makes git ask about every commit and push in the repository around top and its linked work trees. It keeps
// an existing hook beside gated's, with its mode, and gated's script runs it. It changes all or nothing. Conflict: a
// script of gated's was edited, or there is no place to keep an existing hook. NotAllowed: the directory of hooks also
// serves other repositories. Other errors are those of FindHooks and Command.
func InstallGit(ctx context.Context, top string, o GitOptions) (Report, error) {
	dir, err := o.findHooks(ctx, top)
	if err != nil {
		return Report{}, err
	}
	report := Report{Changes: []Change{}, Notes: []string{}}
	if dir.inTree {
		report.Notes = append(report.Notes, fmt.Sprintf("%s is inside the work tree: git status shows the hooks, and they hold the path of this machine's gated", op.Shown(dir.Path)))
	}
	hooks, err := lookAtAll(dir.Path)
	if err != nil {
		return Report{}, err
	}
	var steps []func() error
	for _, h := range hooks {
		script, err := o.script(filepath.Base(h.path), o.wish().over(installedAs(h, hooks)))
		if err != nil {
			return Report{}, err
		}
		change, err := h.plan(script)
		if err != nil {
			return Report{}, err
		}
		if h.by == asWritten {
			change.Differs = calledBy(h.content).differs(calledBy(script))
		}
		if change.Action != Unchanged {
			steps = append(steps, func() error { return h.install(script) })
		}
		if change.Backup != "" && goesByName().Match(h.content) {
			report.Notes = append(report.Notes, fmt.Sprintf("%s uses its own name or path, which has changed: check that it still works", op.Shown(change.Backup)))
		}
		report.Changes = append(report.Changes, change)
	}
	if o.DryRun {
		return report, nil
	}
	return report, runAll(steps)
}

// UninstallGit removes what InstallGit installed, and puts the earlier hooks back. Errors are those of InstallGit.
// Hooks that are not gated's are not an error.
func UninstallGit(ctx context.Context, top string, o GitOptions) (Report, error) {
	dir, err := o.findHooks(ctx, top)
	if err != nil {
		return Report{}, err
	}
	report := Report{Changes: []Change{}, Notes: []string{}}
	hooks, err := lookAtAll(dir.Path)
	if err != nil {
		return Report{}, err
	}
	var steps []func() error
	for _, h := range hooks {
		change := Change{Path: h.path, Action: Unchanged}
		switch {
		case h.info != nil && h.by == edited:
			return Report{}, h.wasEdited()
		case h.info != nil && h.by == foreign:
			report.Notes = append(report.Notes, fmt.Sprintf("%s is not gated's and was left as it is", op.Shown(h.path)))
		case h.info != nil || h.chained != nil:
			change.Action = Removed
			if h.chained != nil {
				change.Action = Changed
			}
			steps = append(steps, h.uninstall)
		}
		report.Changes = append(report.Changes, change)
	}
	if o.DryRun {
		return report, nil
	}
	return report, runAll(steps)
}

// lookAtAll reads gated's hooks.
func lookAtAll(dir string) ([]gitHook, error) {
	var out []gitHook
	for _, name := range gitHooks {
		h, err := lookAt(dir, name)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// installedAs returns a hook's present arguments. A missing hook gets those of another one, because they are installed
// together.
func installedAs(h gitHook, all []gitHook) Setup {
	for _, is := range append([]gitHook{h}, all...) {
		if is.by == asWritten {
			return calledBy(is.content).setup()
		}
	}
	return Setup{}
}

func runAll(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// plan returns what to do with a hook.
func (h gitHook) plan(script []byte) (Change, error) {
	c := Change{Path: h.path, Action: Changed}
	switch {
	case h.info == nil:
		c.Action = Created
	case h.by == edited:
		return c, h.wasEdited()
	case h.by == asWritten && bytes.Equal(h.content, script) && h.info.Mode().Perm()&0o111 == 0o111:
		c.Action = Unchanged
	case h.by == foreign && h.chained != nil && !os.SameFile(h.info, h.chained):
		return c, refusal.New(refusal.Conflict, "%s is not gated's, and %s from before is there, too", op.Shown(h.path),
			op.Shown(filepath.Base(h.path)+chainedSuffix)).
			WithHint("something has put its own hook over gated's: keep one of the two as %s, remove the other, install again", op.Shown(filepath.Base(h.path)))
	case h.by == foreign:
		c.Backup = h.path + chainedSuffix
	}
	return c, nil
}

func (h gitHook) wasEdited() error {
	name := op.Shown(filepath.Base(h.path))
	return refusal.New(refusal.Conflict, "%s was edited since gated wrote it", op.Shown(h.path)).
		WithHint("move the lines that are not gated's to %s%s (mode 0755), remove %s, and try again", name, chainedSuffix, name)
}

// install puts the script in the hook's place. At each moment there is a hook: the earlier one has both names before it
// loses one.
func (h gitHook) install(script []byte) error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o755); err != nil {
		return err
	}
	if h.info != nil && h.by == foreign && h.chained == nil {
		err := os.Link(h.path, h.path+chainedSuffix)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(h.path, h.path+chainedSuffix) // a file system without hard links
		}
		if err != nil {
			return err
		}
	}
	return writeScript(h.path, script)
}

// uninstall puts the earlier hook back.
func (h gitHook) uninstall() error {
	if h.chained != nil {
		return os.Rename(h.path+chainedSuffix, h.path)
	}
	return os.Remove(h.path)
}

// writeScript writes a hook beside its place and moves it there.
func writeScript(path string, script []byte) error {
	next, err := beside(path, script, func(f *os.File) error { return f.Chmod(0o755) })
	if err != nil {
		return err
	}
	return move(next, path)
}
