// Package catalogue is the operator's configuration of commands: which program runs with which
// words, and which values a caller may give. It only has values and text, and does not look at
// the machine.
package catalogue

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/agents/steer"
	"gated/internal/base/op"
)

// The bounds and defaults of an entry.
const (
	DefaultTimeout      = 10 * time.Minute
	MinTimeout          = time.Second
	MaxTimeout          = 50 * time.Minute // less than the time that reconcile gives a step
	DefaultProbeTimeout = 10 * time.Second
	MaxProbeTimeout     = time.Minute
	MinOutput           = 256 // bytes
	MaxOutput           = 64 << 10
	DefaultLength       = 256 // bytes of a string
	MaxLength           = 4096
	MaxWords            = 256 // of a template
	MaxValues           = 256 // of an enum
	MaxStatus           = 255 // the highest exit status of a program
)

// Entry is one command of the catalogue.
type Entry struct {
	Argv  []string // a template; the first word is an absolute path
	Probe []string // the template of the probe, which looks first; nil means no probe
	Dir   string   // an absolute path; empty means /
	Env   map[string]string
	User  string // a name or a number; empty means the daemon's own

	Timeout      time.Duration
	ProbeTimeout time.Duration
	Output       int // the most bytes of its output that gated keeps

	// ProbeOK are the exit statuses of the probe with which a look counts. With any other, nothing is asked and nothing
	// runs. If it is nil, every exit status counts.
	ProbeOK []int
	// Input says that the command reads on its standard input what the probe printed, as it was signed.
	Input bool

	Benign bool // it loses nothing, with any parameters
	// BenignIf says that a run loses nothing if the probe ends with exit status 0. Then ProbeOK is not nil.
	BenignIf bool
	Params   map[string]Param

	// InsteadOf are the shell's commands that hooks refuse with the line that asks for this entry. It is not among what
	// Text returns, because it changes nothing about what runs.
	InsteadOf []steer.Pattern
}

// Fault says what is wrong with an entry, and with which word of a template.
type Fault struct {
	Word int // from 0; -1 if no single word is wrong
	Why  string
}

// Error returns the reason.
func (f *Fault) Error() string { return f.Why }

// Check returns nil, or the first Fault in an entry's templates. The Fault is in Argv, or in
// Probe if probe is true.
func (e Entry) Check() (fault *Fault, probe bool) {
	if f := e.check(e.Argv); f != nil {
		return f, false
	}
	used := map[string]bool{}
	for _, name := range placeholders(e.Argv) {
		used[name] = true
	}
	for _, name := range sorted(e.Params) {
		if !used[name] {
			return &Fault{-1, "the parameter " + name + " is in no word of argv"}, false
		}
	}
	if e.Probe == nil {
		return nil, false
	}
	return e.check(e.Probe), true
}

func (e Entry) check(words []string) *Fault {
	if f := checkTemplate(words); f != nil {
		return f
	}
	for i, word := range words {
		parts, _ := split(word)
		for _, p := range parts {
			if _, declared := e.Params[p.text]; p.placeholder && !declared {
				return &Fault{i, "there is no parameter " + p.text + "; a brace that is meant as one is doubled: {{"}
			}
		}
	}
	return nil
}

// Text returns the entry as parameters, with every member that it uses, so that a digest of their canonical
// form covers the whole entry.
func (e Entry) Text() op.Params {
	env, params := map[string]any{}, map[string]any{}
	for k, v := range e.Env {
		env[k] = v
	}
	for k, p := range e.Params {
		params[k] = map[string]any{"type": string(p.Type), "pattern": p.Pattern, "min": p.Min, "max": p.Max,
			"values": list(p.Values), "below": p.Below}
	}
	out := op.Params{"argv": list(e.Argv), "probe": list(e.Probe), "dir": e.Dir, "env": env, "user": e.User,
		"timeout": int64(e.Timeout / time.Millisecond), "probe_timeout": int64(e.ProbeTimeout / time.Millisecond),
		"output": int64(e.Output), "benign": e.Benign, "params": params}
	// Keys that an entry does not use are left out, so that requests of an earlier gated stay good.
	if e.ProbeOK != nil {
		statuses := make([]any, len(e.ProbeOK))
		for i, n := range e.ProbeOK {
			statuses[i] = int64(n)
		}
		out["probe_ok"] = statuses
	}
	if e.Input {
		out["input"] = "probe"
	}
	if e.BenignIf {
		out["benign_if"] = map[string]any{"probe_exit": int64(0)}
	}
	return out
}

func list(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// interpreters read a program from a word or from a file. With other options, the source of the
// program is not known.
var interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh",
	"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "awk", "gawk", "mawk", "nawk", "original-awk",
	"sed", "lua", "luajit", "tclsh", "wish", "expect", "guile", "R", "Rscript", "julia", "gdb"}

// wrappers run the program that their words name, some of them with a shell.
var wrappers = []string{"env", "busybox", "toybox", "timeout", "nice", "ionice", "chrt", "taskset", "nohup", "stdbuf", "setsid",
	"xargs", "parallel", "watch", "flock", "strace", "ltrace", "sudo", "doas", "su", "runuser", "setpriv", "pkexec", "chroot",
	"unshare", "nsenter", "systemd-run", "systemd-inhibit", "start-stop-daemon", "ssh"}

// programOption is an option after which an interpreter takes a program: -c, -ec, -e.
var programOption = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-[a-zA-Z]*[ceE]$`)
})

// firstKnown returns the index of the first word that names an interpreter or a wrapper, or -1.
// A version after the name does not count.
func firstKnown(words []string) int { return slices.IndexFunc(words, isKnown) }

func isKnown(word string) bool { return interprets(word) || slices.Contains(wrappers, bare(word)) }

func interprets(word string) bool { return slices.Contains(interpreters, bare(word)) }

func bare(word string) string { return strings.TrimRight(filepath.Base(word), "0123456789.") }

// programText returns the range of a template's words in which no value may stand. The range
// begins at an interpreter or a wrapper. It ends where the program is fixed: after the absolute
// path of a script, or after -c and its text. If the program is not fixed, the range does not
// end. This guards against mistakes in a template, and only covers usual forms.
func programText(words []string) (from, until int) {
	at := firstKnown(words)
	if at < 0 {
		return len(words), len(words)
	}
	from = at + 1
	for {
		next := words[at+1:]
		switch {
		case len(next) > 0 && filepath.IsAbs(next[0]) && !isKnown(next[0]):
			return from, at + 2
		case len(next) > 1 && interprets(words[at]) && programOption().MatchString(next[0]) && !strings.HasPrefix(next[1], "-"):
			return from, at + 3
		}
		more := firstKnown(next)
		if more < 0 {
			return from, len(words)
		}
		at += 1 + more
	}
}
