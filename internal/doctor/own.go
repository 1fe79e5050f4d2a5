package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gated/internal/hook"
	"gated/internal/op"
	"gated/internal/ownfile"
)

// own is the rule for everything that the doctor reads: it believes files of the
// caller and of root. Whoever else could write them could have the doctor act for
// them with the caller's rights.
func own() ownfile.StrictModes {
	rule := ownfile.Own()
	rule.Private = ownfile.PrivateGroup(rule.UID)
	return rule
}

// foreign is why a path is not the caller's to believe; nil for one that is, and
// for one that is not there.
func foreign(path string) *op.Refusal {
	err := own().Check(path)
	var r *op.Refusal
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR): // .git is a file in a linked work tree
		return nil
	case errors.As(err, &r):
		return r
	}
	return op.Refuse(op.NotAllowed, "%v", err)
}

// foreignCheckout is why the checkout is not the caller's own: its directory, those
// above it, and what git reads there before it says anything.
func (d Doctor) foreignCheckout() *op.Refusal {
	paths := []string{d.Place.Path}
	for dir := d.Place.Path; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		if _, err := os.Lstat(at); err == nil {
			paths = append(paths, at, filepath.Join(at, "HEAD"), filepath.Join(at, "config"), filepath.Join(at, "config.worktree"))
			break
		}
		if dir == "/" {
			break
		}
	}
	for _, path := range paths {
		if r := foreign(path); r != nil {
			return r
		}
	}
	return nil
}

// environment is what git and hooks are run with: the caller's, without an agent's
// token, so that the hook's process and the doctor's agent are never the same, and
// without what tells git where it is, what to run and whose files to believe. As
// root, git would believe those of the user who called sudo.
func (d Doctor) environment() []string {
	var out []string
	for _, v := range d.Env {
		name, _, _ := strings.Cut(v, "=")
		if name != tokenFile && name != "SUDO_UID" && !strings.HasPrefix(name, "GIT_") {
			out = append(out, v)
		}
	}
	if d.foreignConfiguration() {
		out = append(out, "GIT_CONFIG_GLOBAL="+os.DevNull)
	}
	return out
}

// tokenFile names the file with an agent's token.
const tokenFile = "GATED_AGENT_TOKEN_FILE"

// foreignConfiguration reports whether another than the caller could have written
// git's configuration of the user that the environment names, as with sudo -E.
func (d Doctor) foreignConfiguration() bool {
	value := func(name string) string {
		for _, v := range d.Env {
			if text, ok := strings.CutPrefix(v, name+"="); ok {
				return text
			}
		}
		return ""
	}
	home, xdg := value("HOME"), value("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	return foreign(filepath.Join(home, ".gitconfig")) != nil || foreign(filepath.Join(xdg, "git", "config")) != nil
}

// foreignHooks is why the hooks of a repository are not the caller's to believe:
// the repository's configuration, which says where they are, their directory, or
// one of them.
func foreignHooks(dir hook.HooksDir) *op.Refusal {
	for _, path := range append([]string{dir.WorkTree, dir.Config, dir.Path}, dir.Paths()...) {
		if r := foreign(path); r != nil {
			return r
		}
	}
	return nil
}

// isThisProgram reports whether a path is that of this program, be it by another
// name. A program that a file names is looked at and not run.
func (d Doctor) isThisProgram(path string) bool {
	if path == d.Program {
		return true
	}
	is, err := os.Stat(path)
	if err != nil {
		return false
	}
	self, err := os.Stat(d.Program)
	return err == nil && os.SameFile(is, self)
}
