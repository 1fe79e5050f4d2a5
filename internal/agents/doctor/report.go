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

// blind is what no hook can see.
var blind = []string{
	"a shell, an editor or any program that writes a file without the tools Edit, Write, MultiEdit and NotebookEdit",
	"git commit --no-verify, git push --no-verify and git -c core.hooksPath=...; and commits by git merge, rebase, cherry-pick and am, for which git runs no pre-commit hook (pre-push sees them)",
	"a sub-agent or another program that runs without these settings",
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
	whatBackends = "back ends"
	whatBackend  = "back end %s"
	whatHub      = "hub"
	whatCleanup  = "after the trial"
	whatLeft     = "doctors before"

	wordsIsolation     = "answers at %s; isolation: %s"
	wordsNoDaemon      = "cannot be reached, so that no hook can block: %s"
	wordsConfigTaken   = "%s can be taken over"
	wordsConfigRefused = "the daemon refuses it, so that it does not start with it and takes over nothing of it: %s: %s"
	wordsElsewhere     = "the environment's cannot be reached, and hooks here ask at %s: %s"
	hintElsewhere      = "for gated reserve and the like: export GATED_SOCKET=%s"
	wordsNoCaller      = "the daemon cannot be asked as this caller, and no hook that is started from here can ask it: %s"
	wordsHookAlone     = "no daemon answers at %s, where it asks (%s)"
	wordsPassesAll     = "does NOT block: %s, and every change goes on unchecked"
	wordsRefusesAll    = "blocks everything: %s, and every change is refused"
	wordsOwnSocket     = "as its environment says"
	wordsOwnSocketAt   = "the socket that its environment names"
	wordsSetup         = "on-failure: %s, deadline: %s, socket: %s"
	wordsTookAway      = "what doctors that were killed left was taken away: %d names"
	wordsRemain        = "names of doctors that were killed are there: %d, such as %s: %s"
	wordsAsAgent       = "an agent takes nobody's name away"
	hintRemain         = "as an operator, and not as an agent: gated doctor, or gated agent unregister NAME"
	wordsNoBackends    = "the daemon does not say how its back ends are: %s"
	wordsOlder         = "the daemon is older than this program and cannot be asked for them"
	hintOlder          = "restart it with this version"
	wordsAway          = "away, so that its guests are unknown and nothing is planned for them: %s"
	wordsAwaySince     = "away since %s, so that its guests are unknown and nothing is planned for them: %s"
	hintAway           = "what is bad below says more; requests stay, and go on when it is back"
	wordsHubRead       = "%s: revision %s, read %s"
	wordsHubAway       = "%s: its wishes rest, last read %s: %s"
	wordsHubNotYet     = "%s was not asked yet"
	wordsHubNever      = "never"
	whatHubRelays      = "hub: operations that it relays"
	whatHubReports     = "hub: reports to it"
	hintHubTrust       = "as the daemon's user: ca in gated.yaml is the hub's certificate, and token_file its token (chmod 600 FILE)"
	hintHubReach       = "see whether the hub is running, and whether this host reaches its address; ca and token_file can be read by the daemon"
	hintHubHost        = "see whether url in gated.yaml is the hub's, then make a directory of the host's name there, with a document in it"
	hintHubAnswer      = "mend it at the hub: docs/guides/hub.md says what each answer means"
	hintNoDaemon       = "gated serve; then gated doctor again"
	wordsNamed         = "agent %s, bound to a %s"
	wordsUnnamed       = "uid:%d, no agent: %s"
	hintUnnamed        = "gated agent register NAME"
	wordsFailures      = "%d so far; the last one: %s, %s: %s"
	wordsNoFailures    = "none"
	wordsOpen          = "hooks do not ask the daemon until %s, since it did not answer several times before"
	wordsForeign       = "nothing of this checkout was read, and no hook tried, because others could have written it: %s"
	hintForeign        = "run gated doctor as its owner; or: %s"
	wordsNotOwn        = "was not read, because others could have written it: %s"
	wordsUnknownScript = "%s is not as this gated writes it, so that it is not known, and was not run"
	wordsUnknownLine   = "%s has a line that gated hook install does not write, so that it is not known, and was not run: %s"
	wordsOtherProgram  = "%s calls %s, and this is %s: not tried"
	hintOtherProgram   = "have that one look: %s doctor; or have this one called: gated hook install"
	wordsNoRepo        = "there is no repository here: %s"
	wordsNotThere      = "is not installed"
	hintInstallGit     = "gated hook install --git"
	wordsNotOurs       = "%s is not gated's: not tried, since it may do anything"
	hintNotOurs        = "gated hook install --git chains it"
	wordsCallsUs       = "%s is not gated's and seems to run gated hook %s: not tried, since it may do anything"
	wordsEdited        = "%s was edited since gated wrote it: not tried, since it may do anything now"
	hintEdited         = "move the lines that are not gated's to %s.gated-chained (mode 0755), remove it, then gated hook install --git"
	wordsNotRun        = "%s is there and may not be executed: git does not run it"
	hintNotRun         = "gated hook install --git"
	wordsNoSettings    = "none of %s asks gated"
	hintInstallTools   = "gated hook install"
	wordsUnreadable    = "%s cannot be read: %s"
	wordsOff           = "%s has disableAllHooks: no hook of the agent's is run"
	hintOff            = "take it out"
	wordsLame          = "%s: %s"
	hintReinstall      = "gated hook install --agent-settings %s"
	wordsMissed        = "no hook is asked about %s (matcher %s)"
	wordsBlocks        = "blocks a path that is held, and lets another pass"
	wordsDoesNot       = "does NOT block: a path that is held would be changed"
	wordsBlocksAll     = "blocks everything: it also refuses a path that nobody holds"
	wordsNoEnd         = "did not end within %s; what started it goes on without it"
	wordsDidNotRun     = "cannot be run: %s"
	wordsSaid          = "%s; it said: %s"
	wordsNothing       = "no hook that is installed here could be tried: nothing is known to block"
	wordsNoHooks       = "no hook is installed here, and nothing is reserved that one would keep"
	wordsProbeHeld     = "somebody holds everything here, so that there is no free path to try with: %s"
	hintProbeHeld      = "release it, or try again when it is free"
	wordsNoTrial       = "nothing can be reserved to try with: %s"
	wordsLeft          = "what the trial made could not be taken away: %s"
	wordsScopeName     = "the directory's path cannot be told to the daemon: it is not valid UTF-8"
)
