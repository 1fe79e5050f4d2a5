package catalogue

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// interpreters read a program from a word, from a file, or with other options from
// nobody knows where.
var interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh",
	"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "awk", "gawk", "mawk", "nawk", "original-awk",
	"sed", "lua", "luajit", "tclsh", "wish", "expect", "guile", "R", "Rscript", "julia", "gdb"}

// wrappers run what their words name, some of them by way of a shell.
var wrappers = []string{"env", "busybox", "toybox", "timeout", "nice", "ionice", "chrt", "taskset", "nohup", "stdbuf", "setsid",
	"xargs", "parallel", "watch", "flock", "strace", "ltrace", "sudo", "doas", "su", "runuser", "setpriv", "pkexec", "chroot",
	"unshare", "nsenter", "systemd-run", "systemd-inhibit", "start-stop-daemon", "ssh"}

// programOption is an option after which an interpreter takes a program: -c, -ec, -e.
var programOption = regexp.MustCompile(`^-[a-zA-Z]*[ceE]$`)

// firstKnown returns the index of the first word that is the name of an interpreter or
// a wrapper, -1 where none is. A version after the name does not count.
func firstKnown(words []string) int { return slices.IndexFunc(words, isKnown) }

func isKnown(word string) bool { return interprets(word) || slices.Contains(wrappers, bare(word)) }

func interprets(word string) bool { return slices.Contains(interpreters, bare(word)) }

func bare(word string) string { return strings.TrimRight(filepath.Base(word), "0123456789.") }

// programText returns between which words of a template no value may stand: from
// an interpreter or a wrapper on, until it is settled what is run. That is settled
// right after it, or not at all: by the absolute path of a script, or by -c and a
// program. This is a guard against mistakes of whoever writes the template, and
// knows only what is usual.
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
