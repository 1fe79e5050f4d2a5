package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
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
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR): // .git is a file in a linked work tree
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
			paths = append(paths, at)
			for _, name := range []string{"HEAD", "config", "config.worktree"} {
				paths = append(paths, filepath.Join(at, name))
			}
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
	home, xdg := d.getenv("HOME"), d.getenv("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	return foreign(filepath.Join(home, ".gitconfig")) != nil || foreign(filepath.Join(xdg, "git", "config")) != nil
}

// getenv returns a variable of the caller.
func (d Doctor) getenv(name string) string {
	for _, v := range slices.Backward(d.Env) { // the last one counts
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			return text
		}
	}
	return ""
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

// leftName matches the names of the doctor's agents.
var leftName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^doctor-[0-9a-f]{12}$")
})

// tidy gives up the names of killed doctors: of this uid, with a token, and older than any doctor needs. The daemon
// permits that only to an operator, and only if the name holds nothing. A refusal goes into the daemon's log, so the
// first one ends tidy.
func (d Doctor) tidy(ctx context.Context, r *Report, gate Gate) {
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	me, err := gate.Self(ctx)
	if err != nil {
		return // the trial shows the error
	}
	list, err := gate.Agents(ctx)
	if err != nil {
		return
	}
	var left []api.Agent
	for _, a := range list {
		if leftName().MatchString(a.Name) && a.PID == 0 && a.Account() == me.Account() && d.Now().Sub(a.RegisteredAt) > probeTTL {
			left = append(left, a)
		}
	}
	if len(left) == 0 {
		return
	}
	if me.Agent != nil {
		r.add(whatLeft, Note, wordsRemain, len(left), left[0].Name,
			"an agent cannot remove another agent's name").hint(hintRemain)
		return
	}
	for i, a := range left {
		if _, err := gate.Unregister(ctx, a.Name); err != nil {
			r.add(whatLeft, Note, wordsRemain, len(left)-i, op.Shown(a.Name), short(err)).hint(hintRemain)
			return
		}
	}
	r.add(whatLeft, OK, "%d names of doctors that were killed were removed", len(left))
}
