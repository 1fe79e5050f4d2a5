package hook

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/base/op"
)

// The default waits of a hook, for each thing that it waits for, and the longest that may be set. A commit may ask
// about thousands of paths at once, and no person types meanwhile.
const (
	ToolDeadline = 500 * time.Millisecond
	GitDeadline  = 3 * time.Second
	MaxDeadline  = time.Minute
)

// Setup has a hook's arguments. An empty member is not given: in a wish, the installed value stays; in a call, the
// hook's default counts.
type Setup struct {
	For       string        // only for an agent's hook: the name of its dialect; empty for claude
	OnFailure OnFailure     // default Warn
	Deadline  time.Duration // default ToolDeadline or GitDeadline
	Socket    string        // absolute; default: the environment's
	ExitCode  *bool         // only for an agent's hook: no JSON
	Steer     *bool         // only for an agent's hook: it steers shells
	// Context is only a wish for an agent's settings: gated hook context runs at the start of a session and at each prompt.
	Context *bool
}

// over returns the arguments for a wish s over installed ones.
func (s Setup) over(installed Setup) Setup {
	if s.OnFailure == "" {
		s.OnFailure = installed.OnFailure
	}
	if s.OnFailure == "" {
		s.OnFailure = Warn
	}
	if s.Deadline == 0 {
		s.Deadline = installed.Deadline
	}
	if s.Socket == "" {
		s.Socket = installed.Socket
	}
	if s.ExitCode == nil {
		s.ExitCode = installed.ExitCode
	}
	if s.Steer == nil {
		s.Steer = installed.Steer
	}
	return s
}

// Steers reports whether the hook steers.
func (s Setup) Steers() bool { return s.Steer != nil && *s.Steer }

// line returns the call of a hook, for sh. BadParams as Command.
func (s Setup) line(program, hook string) (string, error) { return Command(program, s.Args(hook)...) }

// Args returns gated's arguments for that hook.
func (s Setup) Args(hook string) []string {
	args := []string{"hook", hook}
	if s.For != "" {
		args = append(args, "--for", s.For)
	}
	args = append(args, "--on-failure", string(s.OnFailure))
	if s.Deadline > 0 {
		args = append(args, "--deadline", s.Deadline.String())
	}
	if s.ExitCode != nil && *s.ExitCode {
		args = append(args, "--exit-code")
	}
	if s.Steers() {
		args = append(args, "--steer")
	}
	if s.Socket != "" {
		args = append(args, "--socket", s.Socket)
	}
	return args
}

// asInstalled reports whether a line is, byte for byte, what Install or InstallGit writes for some program and setup,
// and returns those. sh would also run anything else in a line.
func asInstalled(line, hook string) (program string, s Setup, ok bool) {
	c := readLine(line)
	s = c.setup()
	written, err := s.line(c.program, hook)
	return c.program, s, err == nil && s.OnFailure != "" && written == line
}

// called is a line that calls one of gated's hooks; a person may have written it.
type called struct {
	program                                               string
	dialect, onFailure, deadline, socket, exitCode, steer string
}

// readLine reads a line for sh as Command writes it. It skips unknown words.
func readLine(line string) called {
	var c called
	c.program, line = firstWord(line)
	into := map[string]*string{"--for": &c.dialect, "--on-failure": &c.onFailure, "--deadline": &c.deadline, "--socket": &c.socket}
	switches := map[string]*string{"--exit-code": &c.exitCode, "--steer": &c.steer}
	var word string
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		word, line = firstWord(line)
		name, value, given := strings.Cut(word, "=")
		if at, is := switches[name]; is {
			*at = "on"
			if value == "false" {
				*at = ""
			}
			continue
		}
		text, known := into[name]
		if !known {
			continue
		}
		if !given {
			value, line = firstWord(strings.TrimLeft(line, " \t"))
		}
		*text = value
	}
	return c
}

// setup returns the arguments that a hook would understand.
func (c called) setup() Setup {
	var s Setup
	if d, err := DialectOf(c.dialect); err == nil && d != Dialect(Claude{}) {
		s.For = d.Name()
	}
	if o := OnFailure(c.onFailure); o == Warn || o == Block {
		s.OnFailure = o
	}
	if d, err := time.ParseDuration(c.deadline); err == nil && d > 0 && d <= MaxDeadline {
		s.Deadline = d
	}
	if filepath.IsAbs(c.socket) && op.CheckText("", c.socket) == nil {
		s.Socket = c.socket
	}
	on := true
	if c.exitCode == "on" {
		s.ExitCode = &on
	}
	if c.steer == "on" {
		s.Steer = &on
	}
	return s
}

// differs says in words which arguments changed.
func (c called) differs(now called) []string {
	var out []string
	say := func(what, was, is, unsaid string) {
		if was == "" {
			was = unsaid
		}
		if is == "" {
			is = unsaid
		}
		if was != is {
			out = append(out, fmt.Sprintf("%s: %s -> %s", what, op.Shown(was), op.Shown(is)))
		}
	}
	say("for", c.dialect, now.dialect, Claude{}.Name())
	say("on-failure", c.onFailure, now.onFailure, string(Warn))
	say("deadline", c.deadline, now.deadline, "the default")
	say("socket", c.socket, now.socket, "as the environment says")
	say("exit-code", c.exitCode, now.exitCode, "off")
	say("steer", c.steer, now.steer, "off")
	say("program", c.program, now.program, "none")
	return out
}
