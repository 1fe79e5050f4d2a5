package doctor

import (
	"fmt"
	"time"

	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// State is the state of a checked thing.
type State string

// The states.
const (
	OK   State = "ok"
	Note State = "note" // worth knowing, but not wrong
	Bad  State = "bad"
)

// Finding is the result of one check.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`  // what to do
	Setup  *Setup `json:"setup,omitempty"` // of a hook: its arguments
}

// Setup is a hook's arguments, with its defaults filled in.
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

// words returns it on one line.
func (s Setup) words() string {
	socket := wordsOwnSocket
	if s.Socket != "" {
		socket = op.Shown(s.Socket)
	}
	return fmt.Sprintf(wordsSetup, s.OnFailure, time.Duration(s.Deadline)*time.Millisecond, socket)
}

// Report is the doctor's result.
type Report struct {
	Sound    bool        `json:"sound"` // nothing is bad: every installed hook blocks
	Scope    string      `json:"scope"`
	Socket   string      `json:"socket"` // where the daemon answered; or empty
	Caller   *api.Caller `json:"caller"` // the agent that the daemon takes the caller for; null if no daemon answered
	Findings []Finding   `json:"findings"`
	Hooks    hook.Status `json:"hooks"` // how earlier hooks of this user did
	Blind    []string    `json:"blind"` // what no hook can see
	asked    bool        // at least one of gated's hooks could be tried
	hooks    bool        // a hook is installed, or should be because of a reservation here
}

func (r *Report) add(what string, s State, detail string) *Finding {
	r.Findings = append(r.Findings, Finding{What: what, State: s, Detail: detail})
	return &r.Findings[len(r.Findings)-1]
}

func (f *Finding) hint(text string) { f.Hint = text }

// conclude adds the final findings.
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

// weigh sets Sound.
func (r *Report) weigh() {
	r.Sound = true
	for _, f := range r.Findings {
		r.Sound = r.Sound && f.State != Bad
	}
}
