package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gated/internal/agents/hook"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// own is the rule for every file that the doctor reads: it trusts files of the caller and of root. Any other user with
// write access could make the doctor act with the caller's rights.
func own() ownfile.StrictModes {
	rule := ownfile.Own()
	rule.Private = ownfile.PrivateGroup(rule.UID)
	return rule
}

// foreign says why the caller must not trust a path. It is nil if the caller may, or if the path does not exist.
func foreign(path string) *refusal.Refusal {
	err := own().Check(path)
	var r *refusal.Refusal
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR): // .git is a file in a linked work tree
		return nil
	case errors.As(err, &r):
		return r
	}
	return refusal.New(refusal.NotAllowed, "%v", err)
}

// foreignCheckout says why the checkout is not the caller's own: because of its directory, those above it, or the files
// that git reads there first.
func (d Doctor) foreignCheckout() *refusal.Refusal {
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

// environment is the environment for git and hooks: the caller's, without an agent's token, so that the hook's process
// is never the doctor's agent. It also has no variables that tell git its place, its programs and its trusted owners.
// As root, git would trust files of the user who called sudo.
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

// tokenFile is the variable with the path of an agent's token.
const tokenFile = "GATED_AGENT_TOKEN_FILE"

// foreignConfiguration reports whether another user could have written git's user configuration that the environment
// names, as with sudo -E.
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

// foreignHooks says why the caller must not trust the hooks of a repository: because of its configuration, which names
// their directory, that directory, or one of them.
func foreignHooks(dir hook.HooksDir) *refusal.Refusal {
	for _, path := range append([]string{dir.WorkTree, dir.Config, dir.Path}, dir.Paths()...) {
		if r := foreign(path); r != nil {
			return r
		}
	}
	return nil
}

// isThisProgram reports whether a path is this program, perhaps under another name. The doctor looks at a program that
// a file names, but does not run it.
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
