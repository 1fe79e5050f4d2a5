package catalogue

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

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
var programOption = regexp.MustCompile(`^-[a-zA-Z]*[ceE]$`)

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
		case len(next) > 1 && interprets(words[at]) && programOption.MatchString(next[0]) && !strings.HasPrefix(next[1], "-"):
			return from, at + 3
		}
		more := firstKnown(next)
		if more < 0 {
			return from, len(words)
		}
		at += 1 + more
	}
}
