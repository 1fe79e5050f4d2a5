package doctor

import (
	"gated/internal/api"
	"gated/internal/hook"
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
	Hint   string `json:"hint,omitempty"` // what to do
}

// Report is what was found.
type Report struct {
	Sound    bool        `json:"sound"` // something is installed, all of it blocks, and nothing is bad
	Scope    string      `json:"scope"`
	Socket   string      `json:"socket"` // where the daemon answered; empty: nowhere
	Caller   *api.Caller `json:"caller"` // whom the daemon takes the caller for; null: nobody answered
	Findings []Finding   `json:"findings"`
	Hooks    hook.Status `json:"hooks"` // how the hooks of this user did before
	Blind    []string    `json:"blind"` // what no hook can see
	asked    bool        // some hook of gated's is installed
}

func (r *Report) add(what string, s State, detail string) *Finding {
	r.Findings = append(r.Findings, Finding{What: what, State: s, Detail: detail})
	return &r.Findings[len(r.Findings)-1]
}

func (f *Finding) hint(text string) { f.Hint = text }

// conclude adds what is to be said at the end.
func (r *Report) conclude() {
	r.Blind = blind
	if !r.asked {
		r.add(whatTrial, Bad, wordsNothing).hint(hintInstallGit)
	}
	r.Sound = true
	for _, f := range r.Findings {
		r.Sound = r.Sound && f.State != Bad
	}
}
