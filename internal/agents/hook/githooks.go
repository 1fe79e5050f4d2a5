package hook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/agents/checkout"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxScript is the largest hook that is read, in bytes. A larger one is not gated's.
const maxScript = 64 << 10

// HooksDir is where git looks for the hooks of a repository.
type HooksDir struct {
	Path     string // without symbolic links
	WorkTree string // the work tree for which git was asked
	Config   string // git's configuration file of the repository
	inTree   bool   // Path is in the work tree, and not in the repository's own directory
	outside  string // the setting that names Path, if Path is in neither and so serves other repositories too
	own      string // where it would be without that setting
}

// NoWorkTree is the error if git's hooks are asked for and there is no work tree: no repository, a bare one, or git's
// own directory.
type NoWorkTree struct{ Dir string }

func (n *NoWorkTree) Error() string { return op.Shown(n.Dir) + " is not in a work tree of git" }

// workTree returns the top of the work tree around the repository's directory.
func (r Repository) workTree(ctx context.Context) (string, error) {
	// The words are those of LC_ALL=C. They are needed because every failure has the same code.
	inside, err := r.line(ctx, "rev-parse", "--is-inside-work-tree")
	if inside == "false" || err != nil && strings.Contains(err.Error(), "not a git repository") {
		return "", &NoWorkTree{r.Dir}
	}
	if err != nil {
		var failed *gitError
		if errors.As(err, &failed) {
			err = failed.WithHint("git does not work in this directory: correct what it says")
		}
		return "", err
	}
	return r.line(ctx, "rev-parse", "--show-toplevel")
}

// FindHooks asks git where it looks for hooks in the repository around top. The error is a *NoWorkTree if there is no
// work tree, or Unavailable if git fails or is missing.
func FindHooks(ctx context.Context, top string, env []string) (HooksDir, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	r := Repository{Dir: top, Env: withoutGit(env)}
	tree, err := r.workTree(ctx)
	if err != nil {
		return HooksDir{}, err
	}
	r.Dir = tree // git resolves a relative core.hooksPath from here
	common, err := r.line(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return HooksDir{}, err
	}
	asked, err := r.line(ctx, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err != nil {
		return HooksDir{}, err
	}
	for _, p := range []*string{&tree, &common, &asked} {
		if *p, err = checkout.Resolve(*p); err != nil {
			return HooksDir{}, err
		}
	}
	d := HooksDir{Path: asked, WorkTree: tree, Config: filepath.Join(common, "config"), own: filepath.Join(common, "hooks")}
	switch {
	case isIn(common, asked):
	case isIn(tree, asked):
		d.inTree = true
	default:
		d.outside = "it is a symbolic link"
		if set, _ := r.line(ctx, "config", "--show-origin", "--get", "core.hooksPath"); set != "" {
			d.outside = "core.hooksPath is " + strings.ReplaceAll(set, "\t", " ")
		}
	}
	return d, nil
}

// findHooks is FindHooks before a write. A directory that also serves others is NotAllowed, unless the user said
// Shared.
func (o GitOptions) findHooks(ctx context.Context, top string) (HooksDir, error) {
	d, err := FindHooks(ctx, top, o.Env)
	if err == nil && d.outside != "" && !o.Shared {
		err = refusal.New(refusal.NotAllowed,
			"git looks for hooks in %s, outside of this repository (%s): a hook there is run for others, too",
			op.Shown(d.Path), op.Shown(d.outside)).
			WithHint("for hooks of this repository alone: git config --local core.hooksPath %s; or say --shared-hooks", op.ShellWords(d.own))
	}
	return d, err
}

// isIn reports whether a resolved path is a directory or below it.
func isIn(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// withoutGit returns an environment without the variables by which git tells hooks and aliases their repository: the
// question is about top's.
func withoutGit(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES":
		default:
			out = append(out, v)
		}
	}
	return out
}

// gitHook is a hook that was found.
type gitHook struct {
	path    string
	info    fs.FileInfo // nil: no hook
	chained fs.FileInfo // the hook that is kept beside it, or nil
	content []byte
	by      authorship
}

// lookAt reads a hook and the one that is kept beside it. A symbolic link is never gated's.
func lookAt(dir, name string) (gitHook, error) {
	h := gitHook{path: filepath.Join(dir, name)}
	var err error
	if h.info, err = lstat(h.path); err != nil {
		return h, err
	}
	if h.chained, err = lstat(h.path + chainedSuffix); err != nil || h.info == nil {
		return h, err
	}
	if h.info.IsDir() {
		return h, refusal.New(refusal.Conflict, "%s is a directory", op.Shown(h.path))
	}
	if h.info.Mode().IsRegular() && h.info.Size() <= maxScript {
		if h.content, err = os.ReadFile(h.path); err != nil {
			return h, err
		}
		h.by = author(h.content)
	}
	return h, nil
}

func lstat(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// Paths returns the paths of the hooks that gated would install.
func (d HooksDir) Paths() []string {
	var out []string
	for _, name := range gitHooks {
		out = append(out, filepath.Join(d.Path, name))
	}
	return out
}

// GitState is the state of one of git's hooks.
type GitState struct {
	Name    string
	Path    string
	There   bool   // there is a hook
	Ours    bool   // it is gated's script, perhaps edited
	Edited  bool   // since gated wrote it
	Runs    bool   // git runs it: it is executable
	Chained bool   // another hook is kept beside it; gated's script runs that first
	Names   bool   // it is not gated's, but names a hook of gated's
	Known   bool   // it is byte for byte what InstallGit writes for Program and Setup
	Program string // that it calls, if Known
	Setup   Setup  // the hook's arguments, if the script is gated's and not edited
}

// Hooks returns the state of each hook that gated would install. Errors are those of the file system.
func (d HooksDir) Hooks() ([]GitState, error) { return hooksIn(d.Path) }

// Left returns the hooks of gated's that git no longer runs, because a setting has it look for hooks elsewhere since they
// were installed. Errors are those of the file system.
func (d HooksDir) Left() ([]GitState, error) {
	if d.Path == d.own {
		return nil, nil
	}
	all, err := hooksIn(d.own)
	return slices.DeleteFunc(all, func(s GitState) bool { return !s.Ours }), err
}

func hooksIn(dir string) ([]GitState, error) {
	hooks, err := lookAtAll(dir)
	if err != nil {
		return nil, err
	}
	var out []GitState
	for _, h := range hooks {
		name := filepath.Base(h.path)
		s := GitState{Name: name, Path: h.path, There: h.info != nil, Chained: h.chained != nil}
		s.Ours, s.Edited = s.There && h.by != foreign, h.by == edited
		s.Names = !s.Ours && (names(h.content, name) || names(huskys(dir, name), name))
		if h.by == asWritten {
			s.Setup = calledBy(h.content).setup()
			s.Program, s.Known = scriptAsInstalled(name, h.content)
		}
		if info, err := os.Stat(h.path); err == nil {
			s.Runs = info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
		}
		out = append(out, s)
	}
	return out, nil
}

// names reports whether a script seems to call a hook of gated's: by its command, or by its file in a directory "hooks", whose
// name may be in a variable. A comment calls nothing, and neither does the directory alone, or another file of it.
func names(script []byte, name string) bool {
	name = regexp.QuoteMeta(name) + `([^\w.-]|$)`
	calls := regexp.MustCompile(`\bhook ` + name + `|(^|[\s"'=(/])hooks/["']?(\$|` + name + `)`)
	for line := range strings.Lines(string(script)) {
		if code := comment().ReplaceAllString(line, ""); calls.MatchString(code) {
			return true
		}
	}
	return false
}

// comment is what a shell does not read of a line.
var comment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|\s)#.*`) })

// huskys returns the file that a hook of husky's runs: it lies above the directory _, which husky writes anew. An error is
// none.
func huskys(dir, name string) []byte {
	if filepath.Base(dir) != "_" {
		return nil
	}
	h, err := lookAt(filepath.Dir(dir), name)
	if err != nil {
		return nil
	}
	return h.content
}

// gitHooks are the git hooks that gated installs.
var gitHooks = []string{"pre-commit", "pre-push"}

const (
	// chainedSuffix ends the name under which an earlier hook is kept.
	chainedSuffix = ".gated-chained"
	// marker begins the line that identifies gated's scripts. The digest of the lines below follows it, so that an edit
	// shows.
	marker = "# gated hook script v1 sha256:"
)

// GitOptions say how git's hooks are installed.
type GitOptions struct {
	Program   string        // the absolute path of gated
	Socket    string        // as of Setup
	OnFailure OnFailure     // as of Setup; also where Program is gone
	Deadline  time.Duration // as of Setup
	Shared    bool          // also install into a directory of hooks outside of the repository
	DryRun    bool          // change nothing, say what would be changed
	Env       []string      // of the git that is asked; os.Environ() if nil
}

// wish returns the arguments for the hooks.
func (o GitOptions) wish() Setup {
	return Setup{OnFailure: o.OnFailure, Deadline: o.Deadline, Socket: o.Socket}
}

// script returns the script of one hook. It runs the earlier hook first, because that may still change the commit.
// pre-push reads the refs from standard input, so the script keeps them for both.
func (o GitOptions) script(name string, s Setup) ([]byte, error) {
	line, err := s.line(o.Program, name)
	if err != nil {
		return nil, err
	}
	gone := "exit 0 # warn"
	if s.OnFailure == Block {
		gone = "exit 1 # block"
	}
	keep, first, then := "", `"$old" "$@"`, "exec "
	if name == "pre-push" {
		keep, first, then = "refs=$(cat)\n", "given "+first, "given "
		keep += `given() {
	if [ -z "$refs" ]; then "$@" </dev/null; return; fi
	"$@" <<REFS
$refs
REFS
}
`
	}
	body := fmt.Sprintf(scriptText, name+chainedSuffix, keep, first, op.ShellWords(o.Program), gone, then, line)
	return []byte("#!/bin/sh\n" + marker + digest([]byte(body)) + "\n" + body), nil
}

// scriptText is the script's body, in POSIX sh.
const scriptText = `# gated hook install --git wrote this, and gated hook uninstall --git takes it out.
# Put lines of your own into %s beside it, which is run first.
old="$0` + chainedSuffix + `"
%sif [ -x "$old" ]; then
	%s || exit $?
fi
if [ ! -x %s ]; then
	echo "gated: the program that checks reservations is gone; gated hook install --git names another" >&2
	%s
fi
%s%s "$@"
`

// calledBy returns how a script of ours calls the hook.
func calledBy(script []byte) called {
	lines := strings.Split(strings.TrimSuffix(string(script), "\n"), "\n")
	line := lines[len(lines)-1]
	if word, rest := firstWord(line); word == "exec" || word == "given" {
		line = strings.TrimLeft(rest, " ")
	}
	return readLine(line)
}

// scriptAsInstalled reports whether a script is, byte for byte, what InstallGit writes for some program, and returns
// that program. The digest in a script proves nothing here, because any user can write one.
func scriptAsInstalled(name string, script []byte) (program string, ok bool) {
	c := calledBy(script)
	written, err := GitOptions{Program: c.program}.script(name, c.setup())
	return c.program, err == nil && c.setup().OnFailure != "" && bytes.Equal(written, script)
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// authorship says which program wrote a script, and whether it was edited.
type authorship int

const (
	foreign authorship = iota
	asWritten
	edited
)

// author finds out whether a script is gated's, edited or not.
func author(script []byte) authorship {
	at := bytes.Index(script, []byte("\n"+marker))
	if at < 0 {
		return foreign
	}
	rest := script[at+1+len(marker):]
	sum, body, _ := strings.Cut(string(rest), "\n")
	if string(script[:at]) != "#!/bin/sh" || sum != digest([]byte(body)) {
		return edited
	}
	return asWritten
}
