package doctor

// blind is what no hook can see.
var blind = []string{
	"a shell, an editor or any program that writes a file without the tools Edit, Write, MultiEdit and NotebookEdit",
	"git commit --no-verify, git push --no-verify and git -c core.hooksPath=...; and commits by git merge, rebase, cherry-pick and am, for which git runs no pre-commit hook (pre-push sees them)",
	"a sub-agent or another program that runs without these settings",
	"what happens between the question and the change: a hook asks and reserves nothing",
}

const (
	whatDaemon   = "daemon"
	whatCaller   = "caller"
	whatFailures = "failures of hooks"
	whatGit      = "git"
	whatTools    = "agent settings"
	whatTrial    = "trial"
	whatCleanup  = "after the trial"

	wordsIsolation   = "answers at %s; isolation: %s"
	wordsNoDaemon    = "cannot be reached, so that no hook can block: %s"
	hintNoDaemon     = "gated serve; then gated doctor again"
	wordsNamed       = "agent %s, bound to a %s"
	wordsUnnamed     = "uid:%d, no agent: %s"
	hintUnnamed      = "gated agent register NAME"
	wordsFailures    = "%d so far; the last one: %s, %s: %s"
	wordsNoFailures  = "none"
	wordsOpen        = "hooks do not ask the daemon until %s, since it did not answer several times before"
	wordsNoRepo      = "there is no repository here: %s"
	wordsNotThere    = "is not installed"
	hintInstallGit   = "gated hook install --git"
	wordsNotOurs     = "%s is not gated's: not tried, since it may do anything"
	hintNotOurs      = "gated hook install --git chains it"
	wordsCallsUs     = "%s is not gated's and seems to run gated hook %s: not tried, since it may do anything"
	wordsEdited      = "%s was edited since gated wrote it: not tried, since it may do anything now"
	hintEdited       = "move the lines that are not gated's to %s.gated-chained (mode 0755), remove it, then gated hook install --git"
	wordsNotRun      = "%s is there and may not be executed: git does not run it"
	hintNotRun       = "gated hook install --git"
	wordsNoSettings  = "none of %s asks gated"
	hintInstallTools = "gated hook install"
	wordsUnreadable  = "%s cannot be read: %s"
	wordsOff         = "%s has disableAllHooks: no hook of the agent's is run"
	hintOff          = "take it out"
	wordsLame        = "%s: %s"
	hintReinstall    = "gated hook install --agent-settings %s"
	wordsMissed      = "no hook is asked about %s (matcher %s)"
	wordsBlocks      = "blocks a path that is held, and lets another pass"
	wordsDoesNot     = "does NOT block: a path that is held would be changed"
	wordsBlocksAll   = "blocks everything: it also refuses a path that nobody holds"
	wordsNoEnd       = "did not end within %s; what started it goes on without it"
	wordsDidNotRun   = "cannot be run: %s"
	wordsSaid        = "%s; it said: %s"
	wordsNotTried    = "not tried: %s"
	wordsNothing     = "no hook that is installed here could be tried: nothing is known to block"
	wordsProbeHeld   = "somebody holds everything here, so that there is no free path to try with: %s"
	hintProbeHeld    = "release it, or try again when it is free"
	wordsNoTrial     = "nothing can be reserved to try with: %s"
	wordsLeft        = "what the trial made could not be taken away: %s"
	wordsScopeName   = "the directory's path cannot be told to the daemon: it is not valid UTF-8"
)
