package shell

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gated/internal/agents/steer"
)

// shells read a text and run it.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "rbash": true}

// told run a text, after -c: as another user, or with a log of what it prints.
var told = map[string]bool{"su": true, "runuser": true, "script": true}

// wrapper says where the program is among the words of one that runs another.
type wrapper struct {
	short   string   // options of one letter that take a value
	long    []string // options that take the next word for a value
	skip    int      // operands before the program
	assigns bool     // NAME=VALUE may stand before the program
	silent  string   // options of one letter with which it runs nothing
	dir     []string // options with the directory in which the program runs
	split   bool     // it is env, and -S splits a word
	sub     string   // words of which the next one is not the program yet; without one, or --, it runs none
	text    []string // options whose value is a text for a shell
	input   bool     // it is xargs, and adds words of its input
}

var wrappers = map[string]wrapper{
	"sudo": {short: "ACDghpRrTtUu", assigns: true, silent: "leKvV", dir: []string{"-D", "--chdir"}, long: []string{"--user", "--group", "--host",
		"--prompt", "--role", "--type", "--chdir", "--chroot", "--close-from", "--command-timeout", "--other-user"}},
	"doas":    {short: "Cu"},
	"pkexec":  {long: []string{"--user"}},
	"runuser": {short: "ugGw", long: []string{"--user", "--group", "--supp-group"}},
	"env": {short: "uCa", assigns: true, split: true, dir: []string{"-C", "--chdir"},
		long: []string{"--unset", "--chdir", "--argv0"}},
	"nohup":   {},
	"setsid":  {},
	"command": {silent: "vV"},
	"builtin": {},
	"exec":    {short: "a"},
	"time":    {short: "fo", long: []string{"--format", "--output"}},
	"nice":    {short: "n", long: []string{"--adjustment"}},
	"ionice":  {short: "cn", long: []string{"--class", "--classdata"}, silent: "pPu"},
	"timeout": {short: "ks", long: []string{"--kill-after", "--signal"}, skip: 1},
	"stdbuf":  {short: "ioe", long: []string{"--input", "--output", "--error"}},
	"chrt":    {short: "TPD", skip: 1},
	"flock":   {short: "wE", long: []string{"--wait", "--timeout", "--conflict-exit-code"}, skip: 1},
	"chroot":  {skip: 1},
	"taskset": {skip: 1, silent: "p"},
	"prlimit": {short: "po", long: []string{"--pid", "--output"}},
	"setpriv": {long: []string{"--reuid", "--regid", "--groups", "--inh-caps", "--ambient-caps", "--bounding-set", "--securebits",
		"--pdeathsig", "--ptracer", "--selinux-label", "--apparmor-profile", "--landlock-access", "--landlock-rule", "--seccomp-filter"}},
	"unshare": {short: "SGRwl", dir: []string{"-w", "--wd"}, long: []string{"--setuid", "--setgid", "--root", "--wd", "--load-interp",
		"--map-user", "--map-group", "--map-users", "--map-groups", "--propagation", "--setgroups", "--monotonic", "--boottime"}},
	"nsenter": {short: "tSGWN", long: []string{"--target", "--setuid", "--setgid", "--wdns", "--net-socket"}},
	"systemd-run": {short: "uHMpE", dir: []string{"--working-directory"}, long: []string{"--unit", "--host", "--machine", "--property",
		"--setenv", "--uid", "--gid", "--nice", "--slice", "--working-directory", "--description", "--service-type", "--background",
		"--on-active", "--on-boot", "--on-startup", "--on-unit-active", "--on-unit-inactive", "--on-calendar", "--timer-property"}},
	"systemd-inhibit": {long: []string{"--what", "--who", "--why", "--mode"}},
	"strace":          {short: "abeEIoOpPsSuUX"},
	"unbuffer":        {},
	"noglob":          {},
	"nocorrect":       {},
	"gosu":            {skip: 1},
	"watch":           {short: "nq", long: []string{"--interval", "--equexit"}},
	"busybox":         {},
	// Of projects' tools: the program of a package, or one with a project's variables.
	"npx":    {short: "pw", long: npmLong, text: npmText},
	"pnpx":   {short: "p", long: npmLong, text: npmText},
	"npm":    {short: "wC", long: npmLong, sub: "exec x", text: npmText},
	"pnpm":   {short: "CF", long: npmLong, sub: "exec dlx", text: []string{"-c", "--shell-mode"}, dir: []string{"-C", "--dir"}},
	"yarn":   {short: "p", long: append(npmLong, "--cwd"), sub: "exec dlx run", dir: []string{"--cwd"}},
	"bun":    {short: "p", long: append(npmLong, "--cwd"), sub: "x run", dir: []string{"--cwd"}},
	"bunx":   {short: "p", long: npmLong},
	"uv":     {short: "pw", long: uvLong, sub: "run", dir: []string{"--directory"}},
	"uvx":    {short: "pw", long: append(uvLong, "--from")},
	"poetry": {short: "CP", long: []string{"--directory", "--project"}, sub: "run", dir: []string{"-C", "--directory"}},
	"pipenv": {sub: "run"},
	"pdm":    {short: "p", long: []string{"--project"}, sub: "run"},
	"bundle": {sub: "exec"},
	"dotenv": {short: "efpqv", long: []string{"--file", "--quote"}, sub: "run"},
	"direnv": {sub: "exec", skip: 1},
	"mise":   {short: "C", sub: "exec x", dir: []string{"-C", "--cd"}, long: []string{"--cd"}},
	"xargs": {short: "adEILnPs", input: true, long: []string{"--arg-file", "--delimiter", "--max-lines", "--max-args",
		"--max-procs", "--max-chars"}},
}

var (
	npmLong = []string{"--package", "--workspace", "--filter", "--dir", "--prefix"}
	npmText = []string{"-c", "--call"}
	uvLong  = []string{"--python", "--with", "--with-editable", "--with-requirements", "--env-file", "--extra", "--group", "--package",
		"--project", "--directory", "--index", "--default-index"}
)

// unwrap returns the words that a wrapper runs, and the scope in which it does. There are none if the program is no
// wrapper.
func unwrap(name string, words []steer.Word, s *scope) ([]steer.Word, *scope) {
	r, ok := wrappers[name]
	if !ok {
		return nil, s
	}
	mark := "" // of xargs
	runs := r.sub == ""
	words = words[1:]
	for len(words) > 0 {
		o := string(words[0])
		switch {
		case o == "--":
			words, runs = words[1:], true
		case o == "-" && r.split:
			words = words[1:]
			continue
		case len(o) > 1 && o[0] == '-':
			name, value, attached := r.option(o)
			words = words[1:]
			if r.silent != "" && len(name) == 2 && strings.Contains(r.silent, name[1:]) {
				return nil, s
			}
			if !attached && r.takes(name) && len(words) > 0 {
				value, words = string(words[0]), words[1:]
			}
			switch {
			case slices.Contains(r.text, name):
				return []steer.Word{"-c", steer.Word(value)}, s
			case r.split && (name == "-S" || name == "--split-string"):
				words = append(split(value), words...)
			case slices.Contains(r.dir, name):
				s = s.copy()
				s.cd([]steer.Word{steer.Word(value)})
			case r.input && (name == "-I" || name == "-i" || name == "--replace"):
				mark = cmp.Or(value, "{}")
			}
			continue
		case r.assigns && isAssign(o):
			words = words[1:]
			continue
		case !runs && slices.Contains(strings.Fields(r.sub), o):
			words, runs = words[1:], true
			continue
		}
		break
	}
	if !runs {
		return nil, s
	}
	words = words[min(r.skip, len(words)):]
	if r.input && len(words) > 0 {
		words = fromInput(words, mark)
	}
	return words, s
}

// option takes an option apart: its name, and the value that is in the same word. Of several letters in one word it
// returns the last, or the first that takes a value.
func (r wrapper) option(o string) (name, value string, attached bool) {
	if strings.HasPrefix(o, "--") {
		return strings.Cut(o, "=")
	}
	for i := 1; i < len(o); i++ {
		name = "-" + o[i:i+1]
		if r.takes(name) && i+1 < len(o) {
			return name, o[i+1:], true
		}
	}
	return name, "", false
}

// takes reports whether an option takes a value.
func (r wrapper) takes(name string) bool {
	if strings.HasPrefix(name, "--") {
		return slices.Contains(r.long, name) || slices.Contains(r.text, name) || r.split && name == "--split-string"
	}
	return strings.Contains(r.short, name[1:]) || slices.Contains(r.text, name) || r.split && name == "-S"
}

// isAssign reports whether a word is NAME=VALUE.
func isAssign(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && syntax.ValidName(name)
}

// split splits a text at blanks, as env -S does, without its quotes.
func split(text string) []steer.Word {
	var out []steer.Word
	for _, w := range strings.Fields(text) {
		out = append(out, steer.Word(strings.Trim(w, `'"`)))
	}
	return out
}

// fromInput puts words that xargs reads in the place of a mark, or at the end.
func fromInput(words []steer.Word, mark string) []steer.Word {
	if mark == "" {
		return append(slices.Clone(words), steer.Any)
	}
	out := make([]steer.Word, len(words))
	for i, w := range words {
		out[i] = replaced(w, mark, steer.Any)
	}
	return out
}

// toldAs returns the text that su, runuser and script have a shell run: the value of -c, also behind other letters as in -lc. With
// -u, runuser runs a program and no shell, and what is behind -- is not its own.
func toldAs(words []steer.Word) (string, bool) {
	if end := slices.Index(words, "--"); end > 0 && filepath.Base(string(words[0])) == "runuser" {
		words = words[:end]
	}
	if _, given := option(words, "-u", "--user"); given {
		return "", false
	}
	for i, w := range words {
		o := string(w)
		switch {
		case len(o) < 2 || o[0] != '-':
		case strings.HasPrefix(o, "--"):
			name, value, attached := strings.Cut(o, "=")
			if name != "--command" && name != "--session-command" {
				continue
			}
			if attached {
				return value, true
			}
			if i+1 < len(words) {
				return string(words[i+1]), true
			}
		case strings.HasPrefix(o, "-c") && len(o) > 2:
			return o[2:], true
		case strings.HasSuffix(o, "c") && i+1 < len(words):
			return string(words[i+1]), true
		}
	}
	return "", false
}

// option returns the value of an option anywhere among the words.
func option(words []steer.Word, names ...string) (string, bool) {
	for i, w := range words {
		name, value, attached := strings.Cut(string(w), "=")
		if !slices.Contains(names, name) {
			continue
		}
		if attached {
			return value, true
		}
		if i+1 < len(words) {
			return string(words[i+1]), true
		}
	}
	return "", false
}
