package doctor

import (
	"fmt"
	"time"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
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
	Steers    bool           `json:"steers"`      // it names the gate's operation in the place of a shell's command
}

func setupOf(s hook.Setup, deadline time.Duration) Setup {
	out := Setup{OnFailure: s.OnFailure, Deadline: s.Deadline.Milliseconds(), Socket: s.Socket, Steers: s.Steers()}
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
	socket := "as its environment says"
	if s.Socket != "" {
		socket = op.Shown(s.Socket)
	}
	steering := ""
	if s.Steers {
		steering = ", steering: on"
	}
	return fmt.Sprintf("on-failure: %s, deadline: %s, socket: %s%s", s.OnFailure,
		time.Duration(s.Deadline)*time.Millisecond, socket, steering)
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

func (r *Report) add(what string, s State, format string, args ...any) *Finding {
	r.Findings = append(r.Findings, Finding{What: what, State: s, Detail: fmt.Sprintf(format, args...)})
	return &r.Findings[len(r.Findings)-1]
}

func (f *Finding) hint(format string, args ...any) { f.Hint = fmt.Sprintf(format, args...) }

// conclude adds the final findings.
func (r *Report) conclude() {
	r.Blind = blind
	switch {
	case !r.asked && r.hooks:
		r.add(whatTrial, Bad, "none of the installed hooks could be tried, so it is not known whether any blocks").hint(hintInstallGit)
	case !r.asked:
		r.add(whatTrial, Note, "no hook is installed here, and nothing is reserved here").hint(hintInstallGit)
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

// blind is what no hook can see.
var blind = []string{
	"a shell, an editor or any program that writes a file without the tools that its product asks a hook about",
	"git commit --no-verify, git push --no-verify and git -c core.hooksPath=...; and commits by git merge, rebase, cherry-pick and am, for which git runs no pre-commit hook (pre-push sees them)",
	"a sub-agent or another program that runs without these settings",
	"with --steer: a command that a shell makes while it runs, from variables, files or another program: it is steering, not a wall",
	"what happens between the question and the change: a hook asks and reserves nothing",
}

const (
	whatCheckout = "checkout"
	whatDaemon   = "daemon"
	whatConfig   = "configuration"
	whatCaller   = "caller"
	whatFailures = "failures of hooks"
	whatGit      = "git"
	whatTools    = "agent settings"
	whatTrial    = "trial"
	whatSteering = ", steering"
	whatBackends = "back ends"
	whatCleanup  = "after the trial"
	whatLeft     = "doctors before"

	wordsNoDaemon     = "does not answer, so no hook can block: %s"
	wordsRemain       = "%d names of doctors that were killed remain, such as %s: %s"
	hintRemain        = "as an operator, and not as an agent: gated doctor, or gated agent unregister NAME"
	whatHubRelays     = "hub: operations that it relays"
	whatHubReports    = "hub: reports to it"
	hintNoDaemon      = "gated serve; then gated doctor again"
	wordsNotOwn       = "was not read, because other users could have written it: %s"
	wordsOtherProgram = "%s calls %s, and this is %s: not tried"
	hintOtherProgram  = "to check that one: %s doctor; to install this one: gated hook install"
	hintInstallGit    = "gated hook install --git"
	hintMoved         = "husky: put gated hook %[1]s \"$@\" into .husky/%[1]s; others: gated hook install --git; or git config --unset core.hooksPath"
	hintNotOurs       = "gated hook install --git chains it"
	hintReinstall     = "gated hook install --for %s --agent-settings %s"
	wordsBlocks       = "blocks a held path and lets a free one pass"
	wordsDoesNot      = "does NOT block: it lets a change of a held path pass"
	wordsBlocksAll    = "blocks everything: it also refuses a free path"
	wordsSteers       = "steers: it refuses %q of %s and lets another command pass (steering, not a wall)"
	wordsSteersNot    = "does NOT steer: it lets %q of %s pass"
	wordsSteersAll    = "steers everything: it also refuses the command true"
	wordsNoRules      = "steering is on, and this gate has no command to steer away from"
	hintNoRules       = "an operator writes instead_of into the entries of commands in gated.yaml"
	wordsNoTrial      = "the doctor can reserve nothing for the trial: %s"
)
