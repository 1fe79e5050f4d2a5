package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

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
	body := fmt.Sprintf(scriptText, name+chainedSuffix, keep, first, Quote(o.Program), gone, then, line)
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
