package hook

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/op"
)

// How long a hook waits unless it is told otherwise, for each thing that it waits
// for, and the longest that whoever waits for it may be made to wait. A commit
// may ask about thousands of paths at once, and nobody types meanwhile.
const (
	ToolDeadline = 500 * time.Millisecond
	GitDeadline  = 3 * time.Second
	MaxDeadline  = time.Minute
)

// Setup is what a hook is told when it is called. What is empty is not said: as a
// wish, it stays as it is installed; of a hook, it is the hook's own default.
type Setup struct {
	OnFailure OnFailure     // Warn unless it is said
	Deadline  time.Duration // ToolDeadline or GitDeadline unless it is said
	Socket    string        // absolute; what the environment names unless it is said
	ExitCode  *bool         // of an agent's hook alone: no JSON
}

// over returns what is to be said where this is wished and that is installed.
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
	return s
}

// line returns how a hook is called, for sh. BadParams as Command.
func (s Setup) line(program, hook string) (string, error) { return Command(program, s.Args(hook)...) }

// Args returns the arguments by which gated is called as that hook.
func (s Setup) Args(hook string) []string {
	args := []string{"hook", hook, "--on-failure", string(s.OnFailure)}
	if s.Deadline > 0 {
		args = append(args, "--deadline", s.Deadline.String())
	}
	if s.ExitCode != nil && *s.ExitCode {
		args = append(args, "--exit-code")
	}
	if s.Socket != "" {
		args = append(args, "--socket", s.Socket)
	}
	return args
}

// asInstalled reports whether a line is, to the byte, the one that Install or
// InstallGit writes for some program and some setup, and returns those. Whatever
// else a line says beside that, sh would do as well.
func asInstalled(line, hook string) (program string, s Setup, ok bool) {
	c := readLine(line)
	s = c.setup()
	written, err := s.line(c.program, hook)
	return c.program, s, err == nil && s.OnFailure != "" && written == line
}

// called is a line that calls a hook of gated's, as it is written, be it by hand.
type called struct {
	program                               string
	onFailure, deadline, socket, exitCode string
}

// readLine reads a line for sh as Command writes it. Words that it does not know
// are passed over.
func readLine(line string) called {
	var c called
	c.program, line = firstWord(line)
	into := map[string]*string{"--on-failure": &c.onFailure, "--deadline": &c.deadline, "--socket": &c.socket}
	var word string
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		word, line = firstWord(line)
		name, value, given := strings.Cut(word, "=")
		if name == "--exit-code" {
			c.exitCode = "on"
			if value == "false" {
				c.exitCode = ""
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

// setup returns what of it a hook would understand.
func (c called) setup() Setup {
	var s Setup
	if o := OnFailure(c.onFailure); o == Warn || o == Block {
		s.OnFailure = o
	}
	if d, err := time.ParseDuration(c.deadline); err == nil && d > 0 && d <= MaxDeadline {
		s.Deadline = d
	}
	if filepath.IsAbs(c.socket) && op.CheckText("", c.socket) == nil {
		s.Socket = c.socket
	}
	if c.exitCode == "on" {
		on := true
		s.ExitCode = &on
	}
	return s
}

// differs says in words what is another way now.
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
			out = append(out, fmt.Sprintf(wordsDiffers, what, op.Shown(was), op.Shown(is)))
		}
	}
	say("on-failure", c.onFailure, now.onFailure, string(Warn))
	say("deadline", c.deadline, now.deadline, wordsDefault)
	say("socket", c.socket, now.socket, wordsEnvironment)
	say("exit-code", c.exitCode, now.exitCode, "off")
	say("program", c.program, now.program, "none")
	return out
}

const (
	wordsDiffers     = "%s: %s -> %s"
	wordsDefault     = "the default"
	wordsEnvironment = "as the environment says"
)
