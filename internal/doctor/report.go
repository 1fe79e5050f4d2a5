package doctor

import (
	"fmt"
	"time"

	"gated/internal/api"
	"gated/internal/hook"
	"gated/internal/op"
)

// State is how something is.
type State string

// How it may be.
const (
	OK   State = "ok"
	Note State = "note" // to be known, and not wrong
	Bad  State = "bad"
)

// Finding is one thing that was looked at.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`  // what to do
	Setup  *Setup `json:"setup,omitempty"` // of a hook: what it is told
}

// Setup is what a hook is told when it is called, its own defaults filled in.
type Setup struct {
	OnFailure hook.OnFailure `json:"on_failure"`
	Deadline  int64          `json:"deadline_ms"` // in milliseconds, for each thing that it waits for
	Socket    string         `json:"socket"`      // empty: the one that its environment names
}

func setupOf(s hook.Setup, deadline time.Duration) Setup {
	out := Setup{OnFailure: s.OnFailure, Deadline: s.Deadline.Milliseconds(), Socket: s.Socket}
	if out.OnFailure == "" {
		out.OnFailure = hook.Warn
	}
	if s.Deadline == 0 {
		out.Deadline = deadline.Milliseconds()
	}
	return out
}

// words say it on one line.
func (s Setup) words() string {
	socket := wordsOwnSocket
	if s.Socket != "" {
		socket = op.Shown(s.Socket)
	}
	return fmt.Sprintf(wordsSetup, s.OnFailure, time.Duration(s.Deadline)*time.Millisecond, socket)
}

// Report is what was found.
type Report struct {
	Sound    bool        `json:"sound"` // nothing is bad: all that is installed blocks
	Scope    string      `json:"scope"`
	Socket   string      `json:"socket"` // where the daemon answered; empty: nowhere
	Caller   *api.Caller `json:"caller"` // whom the daemon takes the caller for; null: nobody answered
	Findings []Finding   `json:"findings"`
	Hooks    hook.Status `json:"hooks"` // how the hooks of this user did before
	Blind    []string    `json:"blind"` // what no hook can see
	asked    bool        // some hook of gated's could be tried
	hooks    bool        // some hook is installed, or should be: somebody reserved something here
}

func (r *Report) add(what string, s State, detail string) *Finding {
	r.Findings = append(r.Findings, Finding{What: what, State: s, Detail: detail})
	return &r.Findings[len(r.Findings)-1]
}

func (f *Finding) hint(text string) { f.Hint = text }

// conclude adds what is to be said at the end.
func (r *Report) conclude() {
	r.Blind = blind
	switch {
	case !r.asked && r.hooks:
		r.add(whatTrial, Bad, wordsNothing).hint(hintInstallGit)
	case !r.asked:
		r.add(whatTrial, Note, wordsNoHooks).hint(hintInstallGit)
	}
	r.weigh()
}

// weigh says whether anything is bad.
func (r *Report) weigh() {
	r.Sound = true
	for _, f := range r.Findings {
		r.Sound = r.Sound && f.State != Bad
	}
}
