package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/doctor"
	"gated/internal/glob"
	"gated/internal/hook"
	"gated/internal/life"
	"gated/internal/op"
	"gated/internal/signers"
)

// Every word that people read of this tool alone is in this file; what both
// tools say is in internal/cli.

// words are the help text of a command.
type words cli.Words

var help = map[string]words{
	"gated": {"gated", "Nothing destructive happens to this host's guests unless an operator signed exactly that",
		`gated stands in front of every change to a host's guests. Benign steps run at once; a destructive one waits, and
runs only after an operator signed that exact step with an SSH key (see opsign).

Exit codes: 0 done, 1 refused or conflict, 2 usage, 3 waits for a signature, 4 the daemon cannot be reached,
5 internal. The daemon's socket is --socket, else GATED_SOCKET, else the first that exists of
$XDG_RUNTIME_DIR/gated/gated.sock and /run/gated/gated.sock.`,
		"  gated status\n  gated submit guest.start web-1 --wait"},
	"init": {"init --operator KEY.pub[:PRINCIPAL]...", "Make a new gate: its state directory, configuration and list of signers",
		`Makes DIR with gated.yaml, allowed_signers and the database. PRINCIPAL, the name under which a person signs, is
the key's comment unless given. Without a key, lists those in ~/.ssh and shows the line to type.`,
		"  gated init --operator ~/.ssh/id_ed25519.pub:alice@example.com"},
	"serve": {"serve", "Run the daemon in the foreground",
		`Says ready through sd_notify, reads gated.yaml and the revocation file again on SIGHUP, stops cleanly on SIGTERM.
Logs to standard error. Listens on --socket, else GATED_SOCKET, else what gated.yaml says.`,
		"  gated serve --state /var/lib/gated"},
	"status": {"status", "Show the host, its isolation, what is wrong and how many requests wait", "", "  gated status"},
	"ops":    {"ops", "List the operations and their parameters", "", "  gated ops"},
	"submit": {"submit OP NAME [-p NAME=VALUE]...", "Ask for an operation on a guest, or for a command to run",
		`A benign operation runs at once; with --wait its end is waited for. A destructive one waits for a signature:
exit code 3, with or without --wait.

-p takes its type from the catalogue (gated ops). Memory may have a unit (512MiB, 2GiB). Labels are written one by
one, -p labels.tier=prod, or as JSON, -p labels='{"tier":"prod"}'. Those of command.run are what the command has (gated commands).`,
		"  gated submit guest.create web-1 -p memory=512MiB -p labels.tier=prod --wait\n  gated submit guest.destroy web-1 --reason \"no longer needed\"\n" +
			"  gated submit command.run drop-db -p database=shop --reason \"moved to the new host\""},
	"jobs":   {"jobs [ID]", "List jobs, or show one with its steps and what they printed", "", "  gated jobs --state pending_signature\n  gated jobs j12"},
	"cancel": {"cancel ID", "Withdraw a job of yours before it runs", "", "  gated cancel j12"},
	"guests": {"guests [NAME]", "List guests, or show one: its provenance, and what destroying it would take", "",
		"  gated guests\n  gated guests web-1"},
	"commands": {"commands [NAME]", "List the operator's catalogue of commands, with a line to type for each",
		`To run one is an operation: gated submit command.run NAME. All of its parameters have to be given. What it printed is shown by
gated jobs ID.`, "  gated commands\n  gated commands drop-db"},
	"classify": {"classify OP NAME [-p NAME=VALUE]...", "Say whether an operation would wait for a signature, and why",
		"Changes nothing.", "  gated classify guest.destroy web-1"},
	"plan": {"plan -f FILE|DIR|- [--set NAME]", "Show what desired state would change, and what of it waits for a signature",
		`Changes nothing. A directory stands for every .yaml and .yml file in it, - for standard input. What waits can hang on which
set asks: each file is planned as the set of its base name unless --set says another.`,
		"  gated plan -f guests.yaml"},
	"apply": {"apply -f FILE|DIR|- [--set NAME]", "Put desired state as a named set",
		`Each file becomes the set of its base name unless --set says another. With --wait, ends when everything is as
wished (0), when what is left waits for signatures (3), or when something failed (1).`,
		"  gated apply -f guests.yaml --wait"},
	"events": {"events", "Print what was decided and done",
		`With --for, only what concerns one agent: its reservations, those that it waited for, and its own jobs.`,
		"  gated events --after 120 --follow\n  gated events --for builder --follow"},
	"audit": {"audit", "Read, prove and verify the audit log", "", "  gated audit verify"},
	"audit tail": {"tail", "Print the newest entries of the audit log",
		`Filters leave entries out; all of them have to fit. Times are UTC, written 2026-03-01, "2026-03-01 12:00" or as RFC 3339 has
them, or how long ago: 90m.`,
		"  gated audit tail -n 50\n  gated audit tail -f --kind refused --kind rejected\n  gated audit tail --target web-1 --since 24h"},
	"audit verify": {"verify", "Verify that no entry of the audit log was altered, removed, moved or cut off",
		`Reads the state directory, beside a running daemon or without one. With --witness, the log has to begin with what each head of
that file was signed for, too: so a log is found that was made anew as a whole.`,
		"  gated audit verify --state /var/lib/gated\n  gated audit verify --witness heads.jsonl"},
	"audit export": {"export", "Write the audit log as JSON, one entry a line",
		`With -o, goes on with a file that is there, if its last line is the log's entry of that number. What is cut off ends with exit
code 1 or more. Filters are those of gated audit tail.`,
		"  gated audit export > audit.jsonl\n  gated audit export -o audit.jsonl"},
	"audit head": {"head", "Print the signed head of the audit log",
		"The signed note goes to standard output, and the gate's public key to standard error; with --json both are one document.",
		"  gated audit head > head.txt"},
	"audit prove": {"prove N", "Prove that an entry is in the audit log",
		`Writes one JSON document: the entry, the proof, the signed head and the gate's key, checked before they are written. gated audit
check checks it anywhere, without a gate.`, "  gated audit prove 12 > proof.json"},
	"audit check": {"check FILE", "Check a proof that an entry is in an audit log, without a gate",
		`FILE is what gated audit prove wrote, - standard input. Whose key signed it, the file only says itself: --key is the one that
you know, from gated audit head on the gate's host or from opsign witness export.`,
		"  gated audit check proof.json --key gated/0123456789abcdef0123456789abcdef+b37e50a1+Ac7q..."},
	"canary": {"canary", "Accept what the gate says of its decisions after a change", "", "  gated canary accept 812"},
	"canary accept": {"accept ENTRY", "End the alert about the change of an audit entry: what is decided now is meant",
		"For operators. gated status shows the alert, how to go back, and the entry.", "  gated canary accept 812"},
	"agent": {"agent", "Give processes names, and see who has which",
		`A name is bound to a process; whoever descends from it goes by the name. There is nothing secret in it.`,
		"  gated agent register builder\n  gated agent whoami"},
	"agent register": {"register NAME", "Bind a name to a process of yours and what it starts",
		`Without --pid, to the process that called this: the shell at whose prompt it is typed, or the agent that ran it. An agent
that runs each command in a new shell says --pid $PPID, which is that shell's parent: without it the name would be the shell's and
end with it. The name ends with its process, and with it what was reserved under it without --keep.

--token-file is for containers, whose processes the daemon cannot see: the name is bound to a secret, which is written to a new
file for its owner alone. Who sets GATED_AGENT_TOKEN_FILE to it has the name.`,
		"  gated agent register builder\n  gated agent register builder --pid $PPID\n  gated agent register boxed --token-file ~/.gated-token"},
	"agent list":   {"list", "List the registered agents", "", "  gated agent list"},
	"agent whoami": {"whoami", "Say whom the daemon takes you for, and why", "", "  gated agent whoami"},
	"agent unregister": {"unregister NAME", "Give a name back, and with it what was reserved under it without --keep",
		`Only who has the name may. An operator may free the name of a lost token, once nothing is reserved under it; the name of a process
is free when that ends.`, "  gated agent unregister builder"},
	"reserve": {"reserve PATTERN...", "Reserve paths of a directory, all of them or none",
		`Patterns are relative to the scope: the git top level around the working directory, or --scope. They are literal paths, or have
*, ?, [...], ** and {a,b}; "dir/" is everything under it. Quote them, so that the shell leaves them alone. Who has reserved the same
already renews it. If somebody else is in the way: exit code 1, with who it is; or with --wait, in line until they are out of it.`,
		"  gated reserve 'src/parser/**' docs/grammar.md --reason \"new grammar\"\n  gated reserve go.mod --ttl 1m --wait 10m\n  gated reserve 'docs/**' --shared"},
	"check": {"check PATTERN...", "Say who has reserved paths that these meet",
		"Exit code 1 if somebody else has, else 0. Changes nothing. Patterns are as in gated reserve.",
		"  gated check src/parser/lex.go && $EDITOR src/parser/lex.go\n  gated check 'src/**' --json"},
	"renew":   {"renew ID", "Give a reservation of yours more time", "", "  gated renew r12 --ttl 30m"},
	"release": {"release ID|--mine", "Give back a reservation of yours, or all of them", "", "  gated release r12\n  gated release --mine"},
	"transfer": {"transfer ID --to AGENT", "Hand a reservation of yours on to another agent",
		"The other one has to be registered. Its time stays as it is.", "  gated transfer r12 --to reviewer"},
	"reservations": {"reservations", "List who has reserved what",
		"Of the git top level around the working directory and what is below it, unless --scope or --all says otherwise.",
		"  gated reservations\n  gated reservations --all --agent builder --json"},
	"release-all": {"release-all --scope DIR", "Ask for every reservation of a directory to be taken away",
		`Waits for a signature: exit code 3, or with --wait 0 when it was signed and done. Directories below that are scopes of their own
are not part of it. It counts for what is reserved there when it is made: what comes or
goes before that makes the request another one.`,
		"  gated release-all --scope . --reason \"the agents are gone\""},
	"force-transfer": {"force-transfer ID --to AGENT", "Ask for a reservation to be taken from its holder and given to another agent",
		`Waits for a signature: exit code 3, or with --wait 0 when it was signed and done. The other one has to be registered. What overlaps
something else of the holder's cannot be taken alone: two agents would have the same paths.`,
		"  gated force-transfer r12 --to reviewer --reason \"builder does not answer\""},
	"hook": {"hook", "Ask before a file is changed: hooks of agents and of git", "", "  gated hook install"},
	"hook pre-tool-use": {"pre-tool-use", "Refuse a tool call that changes what somebody else has reserved",
		`Reads one tool call as JSON on standard input. Of an edit (Edit, Write, MultiEdit, NotebookEdit) whose file another agent has
reserved it writes a refusal; of any other call it writes nothing, which leaves it to the permissions. What it cannot check goes on
with a warning, or is refused with --on-failure block.`,
		"  gated hook pre-tool-use --on-failure block < call.json"},
	"hook pre-commit": {"pre-commit", "Refuse a commit that changes what somebody else has reserved",
		`For git, which runs it before a commit. Exits 1 where another agent has reserved a path that the index changes, which both
sides of a rename, what is deleted and submodules are, too. What it cannot check goes on with a warning, or is refused with
--on-failure block.`,
		"  gated hook pre-commit"},
	"hook pre-push": {"pre-push REMOTE URL", "Refuse a push that changes what somebody else has reserved",
		`For git, which runs it before a push and writes the refs to its standard input. Exits 1 where another agent has reserved a path
that a commit changes which the remote does not have yet, or that a forced push takes back.`,
		"  gated hook pre-push origin git@example.com:a.git < refs"},
	"hook install": {"install", "Have agents and git ask before a file is changed",
		`Adds gated hook pre-tool-use to the agent's settings of the checkout, .claude/settings.json, unless --agent-settings names
others; --agent-settings '' leaves them alone. With --git, git asks before commits and pushes, too, and a hook that was there goes on
being run. What else is in the settings stays as it is, and a copy of them is kept.`,
		"  gated hook install --git\n  gated hook install --agent-settings .claude/settings.local.json --on-failure block"},
	"hook uninstall": {"uninstall", "Take out what hook install put in", "What was there before is put back.",
		"  gated hook uninstall --git"},
	"hook status": {"status", "Say how often hooks could not check, and why", "", "  gated hook status"},
	"doctor": {"doctor", "Say whether the hooks that are installed would block, by trying, and how the daemon's back ends and its hub are",
		`Has the daemon check its back ends, and says how it stands with its hub, if it polls one. Reserves a path that does not exist
under a name of its own, tries each hook that is installed with it and with a free one, and takes away what it made. Changes no file of
yours, and runs nothing that a file says: if a hook is exactly what gated hook install writes, gated runs itself as that hook. In a checkout that others
could have written to, it does what --backends does, and says so. It reads gated.yaml of a gate of yours as the daemon does. Exits 1 if a hook does not block, if none is installed where something is reserved, or if anything else is wrong: a back end or the hub that is away, a configuration that is refused, too.`,
		"  gated doctor\n  gated doctor --backends"},
	"hub": {"hub --dir DIR", "Serve desired state and signed operations to gates, and show what they report",
		`The reference hub: DIR/HOST/*.yaml are the sets of the gate of that host, DIR/HOST/operations/NAME.json with NAME.json.sig
what opsign sign wrote for it. It reads DIR and writes nothing; reports are kept in memory, and / is a page of them. What others can
reach takes a certificate and a token. A file is served when it was left alone for a second. Logs to standard error.`,
		"  gated hub --dir hub.d\n  gated hub --dir hub.d --listen 192.0.2.7:8442 --cert hub.crt --key hub.key --token-file token"},
	"dial": {"dial", "Connect standard input and output to the daemon's socket, for a gate's remote clients",
		`What opsign --remote runs on the gate's host, through ssh: it checks the socket as every client does, copies both
ways, and ends when either side ends.`, "  gated dial --socket /run/gated/gated.sock"},
	"trust": {"trust", "Show and change who may sign", "", "  gated trust show"},
	"trust show": {"show", "Print the list of signers as it is in force",
		`Prints the allowed_signers file that the gate has in its database, byte for byte. Reads the state directory, beside a
running daemon or without one.`,
		"  gated trust show > signers\n  gated trust show --json --state /var/lib/gated"},
	"trust history": {"history", "List the versions of the list of signers: when each was made, and by what",
		"Reads the state directory, beside a running daemon or without one.", "  gated trust history --state /var/lib/gated"},
	"trust rotate": {"rotate", "Ask for a change of who may sign",
		`Adds and removes keys in one step, which waits for signatures: exit code 3. It prints who signs with which key. The
holder of a new key signs first, which proves that somebody has it; then operators, or recovery alone. With --wait, waits
until it was signed and is done.`,
		"  gated trust rotate --operator new.pub:alice@example.com --remove SHA256:+ox65xycKUu6FNtc6/r+23nb5c9/mQN0EmnZVnxkwuE"},
	"trust adopt": {"adopt FILE", "Make a file the list of signers",
		"Root makes FILE, which has the format of allowed_signers, the next version of the list of signers. The daemon must not run.\n" +
			"gated shows what the file would change, and asks. The gate's own file allowed_signers is output: an edit of it decides\n" +
			"nothing, and the gate keeps the last one as allowed_signers.edited, which is a FILE to adopt.",
		"  gated trust adopt new_signers --state /var/lib/gated"},
	"time": {"time", "Show the gate's time beside this machine's clock, and whether the gate believes it",
		"Reads the state directory, beside a running daemon or without one. Exits 1 if the clock is not believed.",
		"  gated time --state /var/lib/gated"},
	"time accept": {"accept", "Take this machine's clock for right, where the gate does not believe it",
		`For the state directory's owner, while the daemon does not run. Shows both times and asks. The gate gets a new id:
nothing that was signed before counts, what waits is issued anew, agents register and reserve again. Who is not at a
terminal says --yes. Where the clock is believed, it changes nothing.`,
		"  gated time accept --state /var/lib/gated"},
	"fsck": {"fsck", "Check a gate's state for what must always hold",
		"Opens it read-only, beside a running daemon or without one. Exits 0 if the state is sound and 1 if it finds a problem. With\n" +
			"--json it prints one report: rules and codes that programs may compare.", "  gated fsck --state /var/lib/gated"},
	"backup": {"backup FILE", "Write a consistent copy of the gate's state to a new file, and check it",
		`Beside the running daemon. The file gets its name when it is whole and was read back and checked: pages, whose it is,
the audit log, and all that gated fsck checks. It is for its owner alone, and never takes another one's place.`,
		"  gated backup gated-backup.db"},
	"backup verify": {"verify FILE", "Check that a file is a backup from which a gate can be restored",
		`Changes nothing, and needs no daemon. Exits 0 if the backup is whole and sound, 1 if not. A backup by an older gated is
checked in a copy, in the directory for temporary files (TMPDIR).`,
		"  gated backup verify gated-backup.db"},
	"restore": {"restore FILE", "Put a backup in the place of a gate's database",
		`The daemon must not run. The gate gets a new id, so that nothing that was signed before counts; the database that
was there is kept beside it. Who may sign stays as it is where that one knows better than the backup: keys that were removed
since stay removed. Guests are not part of a backup.`,
		"  gated restore gated-backup.db --state /var/lib/gated"},
}

// What the flags do.
const (
	flagState       = "the state `DIR` (default /var/lib/gated for root, else $XDG_STATE_HOME/gated)"
	flagHost        = "the `NAME` of the host that the gate guards (default the hostname)"
	flagOperator    = "`KEY.pub[:PRINCIPAL]` that may sign destructive steps; may be given again"
	flagRecovery    = "`KEY.pub[:PRINCIPAL]` that may sign key rotation only; may be given again"
	flagCoordinator = "`KEY.pub[:PRINCIPAL]` that may sign force-transfer and release-all only; may be given again"
	flagHubDir      = "the `DIR` with a directory for each host"
	flagHubListen   = "the `ADDRESS:PORT` to listen on; port 0 is any"
	flagHubCert     = "a `FILE` with the hub's certificate, as PEM"
	flagHubKey      = "a `FILE` with the key of that, as PEM"
	flagHubToken    = "a `FILE`, readable by its owner alone, with what gates have to present"

	flagLogLevel      = "log messages from this `LEVEL` on: debug, info, warn or error"
	flagTakeSigners   = "have the backup say who may sign, also where keys were removed since"
	flagReason        = "why, for the operator who is asked to sign"
	flagWait          = "wait for the end, or until a step waits for a signature"
	flagJobState      = "only jobs in this `STATE`"
	flagFile          = "the `FILE` or directory with desired state, - for standard input"
	flagSet           = "the `NAME` of the set (default the file's base name)"
	flagApplyWait     = "wait until everything is as wished or waits for a signature"
	flagAfter         = "only entries above this `NUMBER`"
	flagFollow        = "go on with what happens from now on"
	flagLines         = "how many"
	flagSince         = "only entries from this `TIME` on, or from so long ago: 90m"
	flagUntil         = "only entries before this `TIME`"
	flagTarget        = "only what is about this `TARGET`, guest/web-1, or of any kind: web-1"
	flagSigner        = "only what this `PRINCIPAL` or key signed, alice@example.com or SHA256:..."
	flagKind          = "only entries of this `KIND`, approved, refused...; may be given again"
	flagExportOutput  = "write to this `FILE`, or go on with it"
	flagWitness       = "compare with the heads in this `FILE`, of opsign witness export; may be given again"
	flagAuditKey      = "the gate's public `KEY`"
	flagAddLine       = "a whole `LINE` of allowed_signers to add; may be given again"
	flagRemoveKey     = "the `SHA256:...` fingerprint of a key to remove, every line of it; may be given again"
	flagRotateWait    = "wait until it was signed and is done"
	flagFor           = "only what concerns this `AGENT`, or uid:1000"
	flagScope         = "the `DIR` that patterns are relative to (default the git top level around the working directory)"
	flagPID           = "the `PID` of the process to name (default the caller's parent)"
	flagTokenFile     = "for containers: bind the name to a secret, and keep that in the new `FILE`"
	flagShared        = "others may reserve the same, if shared as well"
	flagCheckShared   = "ask as for a shared reservation"
	flagTTL           = "how long it holds, `D` from 10s to 24h (default 15m)"
	flagKeep          = "keep it to its end, also when this agent's process ends before"
	flagReserveWait   = "wait up to `D` for those who are in the way"
	flagReserveReason = "why, for those who meet it"
	flagMine          = "all that you have, in every directory"
	flagTo            = "the `AGENT` that gets it"
	flagHolder        = "only those of this `AGENT`, or uid:1000"
	flagAll           = "of every directory"
	flagTakeAwayWait  = "wait until it was signed and is done"
	flagYes           = "do not ask"

	flagOnFailure      = "`warn` or block: what becomes of a change that cannot be checked"
	flagDeadline       = "how long to wait for the change to look at, and again for the daemon"
	flagExitCode       = "refuse with exit code 2 and the reason on standard error, instead of JSON"
	flagHookLines      = "how many of the last failures"
	flagGitHooks       = "git's hooks pre-commit and pre-push, too"
	flagDoctorBackends = "look at the daemon's back ends alone"
	flagDoctorSettings = "a `FILE` of agents' settings to try, beside the usual ones; may be given again"
	flagSharedHooks    = "also where git's hooks are in a directory that serves other repositories"
	flagAgentSettings  = "the `FILE` with the agent's settings, '' for none (default .claude/settings.json of the checkout)"
	flagDryRun         = "change nothing, say what would be changed"
	flagAsInstalled    = " (default: as it is installed, else as the hook's)"
)

// What is wrong with a command line.
const (
	wordsNoCanaryCommand = "say accept"
	wordsChangeNumber    = "an alert is named by the number of the entry that it is about: gated status shows it"
	wordsNoAuditCommand  = "say tail, verify, export, head, prove or check"
	wordsNoTrustCommand  = "say show, history, rotate or adopt"
	wordsNoRotation      = "say what to add (--operator, --recovery, --coordinator, --add) or to --remove"
	wordsAdoptNeedsYes   = "there is no terminal to ask on: look at the file, then say --yes"
	wordsAcceptNeedsYes  = "there is no terminal to ask on: look at the times (gated time), then say --yes"
	wordsIDOrState       = "give an id or --state, not both"
	wordsNoFile          = "say with -f which file, directory or - (standard input)"
	wordsNoSetName       = "standard input has no name: say --set NAME"
	wordsSetOfMany       = "--set names one set, the directory has several files"
	wordsEmptyDir        = "the directory has no .yaml file"
	wordsAfterNegative   = "--after is below 0"
	wordsLinesPositive   = "--lines is below 1"
	wordsSinceUntil      = "--since is not before --until"
	wordsFollowUntil     = "--follow goes on with what comes, and --until ends before: say one"
	wordsEmptyOutput     = "--output is empty: name the file, or leave the flag away for standard output"
	wordsAfterAndFile    = "the file says itself where to go on: leave --after away, or name a new file"
	wordsNotAKey         = "--key is not the public key of a gate: it is one line of three parts, gated/ID+HASH+KEY, as gated audit head prints it"
	wordsEmptyKey        = "--key is empty: give the gate's public key, or leave the flag away"
	wordsNoAgentCommand  = "say register, list, whoami or unregister"
	wordsPIDOrToken      = "a name is bound to a process (--pid) or to a token (--token-file), not to both"
	wordsNoParent        = "the process that called this cannot be seen from here: say --pid, or in a container --token-file"
	wordsEmptyTokenFile  = "--token-file is empty: name the new file"
	wordsEmptyScope      = "--scope is empty: name the directory, or leave the flag away"
	wordsNoScope         = "say with --scope of which directory"
	wordsScopeOrAll      = "--scope is one directory and --all is every one: say one"
	wordsIDOrMine        = "give the id of a reservation, or --mine"
	wordsEmptyHolder     = "the agent's name is empty: say whose, or leave the flag away for everybody's"
	wordsNoReceiver      = "say with --to which agent gets it"
	wordsHubDir          = "--dir is missing: the directory to serve"
	wordsHubPair         = "--cert and --key belong together"
	wordsLogLevel        = "--log-level is none of debug, info, warn and error"
)

// Hooks.
const (
	wordsNoHookCommand = "say install, uninstall, status or the hook to run"
	wordsOnFailure     = "--on-failure is neither warn nor block"
	wordsDeadline      = "--deadline is not above 0 and at most 1m"
	wordsNoHookPlace   = "there is nothing to do: say --git, or name the agent's settings"
	wordsHookFailures  = "%d changes could not be checked; written down in %s\n"
	wordsHookOpen      = "the daemon did not answer several times: it is not asked before %s\n"
	wordsHookChange    = "%s: %s\n"
	wordsHookWould     = "%s: would be %s\n"
	wordsHookBackup    = "  what was there: %s\n"
	wordsHookDiffers   = "  %s\n"
	wordsHookNote      = "note: %s\n"
)

// restoredTrustSays says whose list of signers is in force after a restore.
func restoredTrustSays(t signers.RestoredTrust) string {
	switch t.Of {
	case signers.SignersSame:
		return fmt.Sprintf("  who may sign: epoch %d, which is the backup's as well\n", t.Epoch)
	case signers.SignersKept:
		return fmt.Sprintf("  who may sign: epoch %d, as it was here and not as in the backup (epoch %d):\n", t.Epoch, t.Backup)
	case signers.SignersNewer:
		return fmt.Sprintf("  who may sign: epoch %d, the backup's; what was here (epoch %d) is older:\n", t.Epoch, t.Replaced)
	case signers.SignersTaken:
		return fmt.Sprintf("  who may sign: as in the backup (its epoch %d), which was asked for, now as epoch %d; it was epoch %d here:\n",
			t.Backup, t.Epoch, t.Replaced)
	case signers.SignersFile:
		return "  who may sign: what the file of signers says at the next start\n"
	}
	if t.Why != "" {
		return fmt.Sprintf("  who may sign: epoch %d, the backup's; the database that was here cannot be read: %s\n", t.Epoch, op.Shown(t.Why))
	}
	return fmt.Sprintf("  who may sign: epoch %d, the backup's; there was no other list here\n", t.Epoch)
}

// restoredClockSays shows both clocks where they contradict each other.
func restoredClockSays(c life.RestoredClock) string {
	how := "more than 30 days ahead of"
	if c.Behind() {
		how = "behind"
	}
	return fmt.Sprintf("warning: this machine's clock, which is in force now, is %s the backup's: it says %s, and the backup was of a gate that had seen %s\n"+
		"  check: date -u; if it is wrong, set it right and restore again\n",
		how, c.Now.Format(time.RFC3339), c.Mark.Format(time.RFC3339))
}

// fileTaken refuses to write over a file.
func fileTaken(path string) error {
	return op.Refuse(op.Conflict, "%s exists", path).WithHint("name a new file")
}

// hinted adds to a refusal that does not say itself what to do the words for that
// of this command: those of its code alone are about signing. With codes, to one of
// these.
func hinted(err error, hint string, codes ...op.Code) error {
	r := (*op.Refusal)(nil)
	if !errors.As(err, &r) || r.Hint != "" || len(codes) > 0 && !slices.Contains(codes, r.Code) {
		return err
	}
	return r.WithHint("%s", hint)
}

// The words for hinted.
const (
	wordsNoBackup     = "no backup was left; gated fsck says whether the gate itself is like that"
	wordsNotABackup   = "no gate can be restored from it: take an older one; gated backup FILE makes one while the gate runs"
	wordsVerifyBackup = "gated backup verify FILE says whether a gate can be restored from it"
	wordsProofFails   = "it proves nothing: ask who gave it to you; where the gate answers, gated audit prove N makes one"
	wordsAnswerFails  = "do not believe this answer: gated audit verify on the gate's host says whether the log is whole"
	wordsElsewhere    = "a gate answers at %s: name the directory of its state with --state DIR, as its gated serve has it\n%s"
	wordsInitFirst    = "where there is no gate yet, make one first: gated init --operator KEY.pub"
	wordsWhichEntries = "gated audit tail shows which there are"
)

// unreadable says that this user cannot read a backup, and how gated's user can.
func unreadable(err error, state string) string {
	if !errors.Is(err, fs.ErrPermission) {
		return err.Error()
	}
	return fmt.Sprintf("%v\nthe user that gated runs as has to be able to read it: install -o %s -m 0600 FILE %s/", err, userName(), op.Shown(state))
}

// userName is the name of the user that this runs as, or its uid.
func userName() string {
	if u, err := user.Current(); err == nil {
		return op.Shown(u.Username)
	}
	return strconv.Itoa(os.Getuid())
}

// hookThen says what became of a change that could not be checked.
func hookThen(o hook.OnFailure) string {
	if o == hook.Block {
		return "refused"
	}
	return "went on"
}

// Answers and what is said beside them. Those that end a line have its end.
const (
	wordsStatus         = "gated %s on %s, gate %s, uid %d, since %s\n"
	wordsRemedy         = "  remedy: %s\n"
	wordsCounts         = "%s, %s running; limits: %s; audit log at %d %s\n"
	wordsAgentsCount    = "%s, %s in force\n"
	wordsAlertAccepted  = "the alert about entry %d has ended; the audit log has it\n"
	wordsHubReady       = "listening on %s, serving %s from %s\n"
	wordsHubStands      = "hub %s: revision %s, read %s; %d operations relayed, %d refused, %d not tried yet; last report %s\n"
	wordsHubNever       = "never"
	wordsHubNone        = "none"
	wordsWaiting        = "%d waiting: opsign list\n"
	wordsNoneWaits      = "0 waiting\n"
	wordsOp             = "%s  %s (signed by: %s)\n"
	wordsNoCommands     = "this gate has no commands: an operator puts them into gated.yaml, under commands\n"
	wordsCommand        = "%s  %s, runs %s\n"
	wordsCommandUnknown = "    cannot run now: %s: %s\n"
	wordsCommandLine    = "  %s\n"

	wordsFreeParam     = "NAME=TEXT"
	wordsFreeParams    = "as the command has them: gated commands"
	wordsRange         = " (%s, %d to %d)"
	wordsRequired      = " (required)"
	wordsJobOnly       = " (not in desired state)"
	wordsStep          = "%s %s %s: %s\n"
	wordsStepDetail    = "  %s\n"
	wordsTriedAgain    = "; tried again at "
	wordsStepHeld      = "%s %s %s cannot run now and is tried again: %s\n"
	wordsStepWaits     = "%s %s %s waits for a signature: %s\n  opsign approve %s\n"
	wordsStepOtherRole = "  opsign approve %s --role %s   # who is listed for %s\n"
	wordsJobsHead      = "ID\tSTATE\tWHAT\tFOR\tSINCE\tREASON"
	wordsJob           = "%s %s, for %s, since %s\n"
	wordsReason        = "  reason: %s\n"
	wordsStepHint      = "  %s hint: %s\n"
	wordsSigner        = "    signed by %s\n"
	wordsKey           = "    key %s\n"
	wordsCancelled     = "%s is %s\n"
	// Where guests are in several back ends.
	wordsGuestsHeadWhere = "NAME\tBACK END\tSTATE\tPROTECTED\tSPEC\tDESTROY"
	wordsDisk            = "%s, %d MiB"
	wordsGuestsHead      = "NAME\tSTATE\tPROTECTED\tSPEC\tDESTROY"
	wordsForeign         = "made by other hands than this gate's"
	wordsApplied         = "set %s: %s\n"
	wordsAsWished        = "set %s: everything is as wished\n"

	wordsRequestWaits = "%s waits for a signature: opsign approve %s\n"
	wordsStuck        = "gated does nothing about it; gated status may say why"
	wordsAuditSound   = "the audit log is whole: %d entries, head %s\n"
	wordsHeadsSound   = "it goes on from what witnesses saw: %s\n"
	wordsOtherHeads   = "note: %s of another gate id, which a gate has until it is restored, not compared\n"
	wordsHasEvidence  = "note: in %s is evidence of another log that the gate showed: %s\n"
	wordsProgress     = "\r%d of %d entries"
	wordsProgressEnd  = "\r\x1b[K"
	wordsNoSuchEntry  = "note: there is no such entry\n"
	wordsExported     = "%s: %d entries added, up to %d\n"
	wordsProven       = "entry %d is one of the %d that gate %s signed for, root %s\n"
	wordsHeadKey      = "key %s\n"
	wordsKeyUnchecked = "note: the key is the one that the file names: %s. Compare it with what gated audit head prints on the gate's host, or give it with --key\n"
	wordsSound        = "sound\n"
	wordsUnsound      = "NOT sound: %s\n"
	wordsFsckRead     = "read %d of %d entries of the audit log\n"
	wordsBackedUp     = "%s: %d bytes, of host %s, gate %s, schema %d, %d entries of the audit log, signers of epoch %d\n"
	wordsChecked      = "  checked: %s\n"
	wordsChecking     = "checking %d entries of the audit log and what they say; this takes a while\n"
	wordsRestored     = "restored to %s, host %s, new gate id %s\n"
	wordsKeptDatabase = "  the database that was there is kept: %s\n"
	wordsStillRevoked = "  keys were revoked: no signature counts while the revocation file is missing\n"
	wordsOldSigners   = `warning: who may sign is as old as the backup. Keys that were removed since are back.
  check: gated trust show --state %[1]s
  a key that must not count: put its .pub line into %[1]s/revoked before the start
`
	wordsTrustHead   = "EPOCH\tMADE\tBY\tSIGNERS\tSHA256"
	wordsForeignName = "warning: line %d names %s, which may be shown like another name: list the key under a name in ASCII\n"
	wordsAdopts      = "epoch %d would be %s as it is now:\n"
	wordsEmptied     = "warning: nobody could sign as %s any more: %s\n"
	wordsAgree       = "take this over? (yes) "
	wordsAdopted     = "%s is in force from the next start on, as epoch %d\n"
	wordsUnedited    = "%s is as the gate wrote it, at epoch %d: there is nothing to take over\n"
	wordsInit        = "made %s for host %s, gate %s\n  configuration: %s\n  signers:       %s\n"
	wordsListed      = "  %s may sign as %s with %s\n"
	wordsNext        = "next:\n"
	wordsNextSocket  = "  export GATED_SOCKET=$HOME/.gated.sock    # in each terminal: you may not write where the socket is by default\n"
	wordsNextServe   = "  gated serve%s    # in a terminal of its own\n  gated status\n"
	wordsNoIsolation = `warning: isolation: none. Agents run under the daemon's own uid: this gate is a seat belt and no wall.
  remedy: run the daemon under a uid of its own and set single_user: false in gated.yaml
  remedy: use operator keys that need a touch; any process of a user can use that user's ssh-agent
`
	wordsWarning          = "warning: %s\n"
	wordsRelativeTo       = "patterns are relative to %s\n"
	wordsLeadsTo          = "%s leads to %s\n"
	wordsRegistered       = "%s is process %s and what it starts\n"
	wordsTokenKept        = "%s is whoever has the token in %s\n  export GATED_AGENT_TOKEN_FILE=%s\n"
	wordsUnregistered     = "%s is nobody's name any more\n"
	wordsAgentsHead       = "NAME\tBOUND TO\tUID\tSINCE"
	wordsByToken          = "a token"
	wordsByProcess        = "process %s"
	wordsByEnded          = "process %d, which has ended"
	wordsNamed            = "%s, by %s, since %s\n"
	wordsNoName           = "uid:%d, no registered agent\n"
	wordsWhyNoName        = "  %s\n"
	wordsReserved         = "%s %s: %s, %s's until %s\n"
	wordsReservedAgain    = "%s %s: %s, %s's already, now until %s\n"
	wordsRenewed          = "%s %s: %s's until %s\n"
	wordsReleased         = "%[1]s %[2]s: released\n" // what it takes beside has no number
	wordsTransferred      = "%s %s: %s's until %s\n"
	wordsNothingHeld      = "you have nothing reserved\n"
	wordsFree             = "nobody else has reserved what meets %s\n"
	wordsMoreConflicts    = "there are more\n"
	wordsWaitsFor         = "waiting up to %s for %s of %s: %s\n"
	wordsAndFor           = "  and for %[2]s of %[3]s: %[4]s\n"
	wordsWaitsInLine      = "waiting up to %s, after others who wait\n"
	wordsReservationsHead = "ID\tAGENT\tALIVE\tMODE\tPATTERNS\tSINCE\tUNTIL\tSCOPE\tREASON"
	wordsConflict         = "%s: %s of %s (%s) has reserved %s%s, %s, since %s until %s\n"
	wordsConflictReason   = "    their reason: %s\n"
	wordsConflictScope    = " in %s"
	wordsInTheWay         = "%s: %s" // the latter ends its line
	wordsMayBeMore        = "there may be more\n"
	wordsWayOut           = "  hint: %s\n"
	wordsNotPartOfIt      = "note: what is reserved in %s is no part of this: gated release-all --scope %s\n"
	wordsEntryMore        = " (and %d more)"
	wordsEntryHolder      = " of %s"
	wordsEntryHandedOn    = " from %s to %s"
	wordsEntryUntil       = " until %s"
	wordsNobodyNow        = "note: no agent %s is registered now\n"
	wordsNeverSeen        = "note: no agent %s is registered, and nothing in the log concerns that name\n"
	wordsHoldsNothing     = "note: no agent %s is registered, and nothing is reserved here under that name\n"

	wordsRotationWaits = "%s trust.rotate waits for signatures\n"
	wordsHolderSigns   = "  first, who holds the new key %s: opsign approve %s --role %s --key %s\n"
	wordsOperatorsSign = "  then each who approves: opsign approve %s\n"
	wordsKept          = "the file of signers said something else; it is kept as %s\n"
	wordsSoftwareKey   = `warning: %s signs with a software key (%s): whatever can read its file or reach the agent that holds it can sign
`
	wordsNoRecovery = `note: no recovery key is listed. If the operators' keys are lost, root alone can list others: gated trust adopt FILE
  remedy: list one now, and keep it off line: gated init ... --recovery KEY.pub; later it takes gated trust adopt, too
`
	wordsTouchRemedy = `  remedy: a security key needs a touch: ssh-keygen -t ed25519-sk, then gated trust rotate --operator KEY.pub (or --recovery)
  remedy: or have the agent ask before each use: ssh-add -d KEY, then ssh-add -c KEY (docs/guides/keys.md says more)
`
)

// What gated doctor says.
const (
	wordsFinding       = "%-5s %s: %s\n"
	wordsFindingHint   = "        hint: %s\n"
	wordsBlind         = "what no hook can see:\n"
	wordsBlindLine     = "  - %s\n"
	wordsDoctorSound   = "everything that is installed blocks\n"
	wordsDoctorNothing = "nothing is wrong\n"
	wordsDoctorUnsound = "NOT everything is right: see above\n"
)

// doctorWords name the states of a finding.
var doctorWords = map[doctor.State]string{doctor.OK: "ok", doctor.Note: "note", doctor.Bad: "BAD"}

// planWords name the actions of a plan.
var planWords = map[string]string{
	api.ActionNone:   "as wished",
	api.ActionCreate: "create",
	api.ActionChange: "change",
	api.ActionWaits:  "waits for a signature",
	api.ActionError:  "ERROR",
}

// noOperator says what to type where init was not told who may sign.
func noOperator(found []string) string {
	if len(found) == 0 {
		return `usage: init needs the public key of an operator, and there is none in ~/.ssh
  ssh-keygen -t ed25519
  gated init --operator ~/.ssh/id_ed25519.pub
`
	}
	var b strings.Builder
	b.WriteString("usage: init needs the public key of an operator; these are in ~/.ssh:\n")
	for _, path := range found {
		fmt.Fprintf(&b, "  %s\n", op.Shown(path))
	}
	fmt.Fprintf(&b, "type:\n  gated init --operator %s\n", op.Shown(found[0]))
	return b.String()
}

// emptiedMeans says what is lost with the last key of a role.
func emptiedMeans(role op.Role) string {
	switch role {
	case op.Recovery:
		return "if the operators' keys are lost, root alone can list others"
	case op.Coordination:
		return "force-transfer and release-all wait for ever"
	default:
		return "what a rule asks of that role waits for ever"
	}
}

// Of gated time.
const (
	wordsMark         = "the gate's mark"
	wordsNoMark       = "none yet"
	wordsClock        = "this machine"
	wordsApart        = "apart"
	wordsGateTime     = "the gate goes by"
	wordsAhead        = "%s ahead"
	wordsBehind       = "%s behind"
	wordsTimeBelieved = "the clock is believed\n"
	wordsTimeDoubted  = "the clock is NOT believed, and signed work waits: %s\n" +
		"set the clock right, and the gate goes on by itself; or, if it is right now, stop the daemon, then:\n" +
		"  gated time accept --state %s\n"
	wordsAccepts = "the gate does not believe this clock: %s\n" +
		"if it is accepted, the gate gets a new id: nothing that was signed before counts, what was approved and did not run is\n" +
		"refused, what waits has to be signed anew, agents register and reserve again, and destroying scratch takes a signature.\n" +
		"What is in the trash goes when its time is over by this clock.\n"
	wordsAcceptAgree  = "is this machine's clock right? (yes) "
	wordsNotNeeded    = "the clock is believed: there is nothing to accept, and nothing was changed\n"
	wordsAcceptedTime = "the gate goes on from %s, new gate id %s\n" +
		"  start it:      gated serve --state %s\n" +
		"  each operator: opsign forget SOCKET, since opsign refuses an id that it does not know\n"
)

func notAccepted() error {
	return op.Refuse(op.Cancelled, "nothing was changed").
		WithHint("set the clock right, and the gate goes on by itself; or answer yes if it is right")
}

func notAgreed() error {
	return op.Refuse(op.Cancelled, "nothing was taken over").WithHint("to take it over, answer yes")
}

func notAnOp(name string) error {
	return op.Refuse(op.UnknownOp, "there is no operation %q", name).WithHint("gated ops lists them")
}

// sourceState says how the last read of a source of desired state went.
func sourceState(s api.SourceStatus) string {
	text := count(s.Sets, "set") + ", not read yet"
	switch {
	case s.Error != nil:
		text = s.Error.Detail
	case s.ReadAt != nil:
		text = count(s.Sets, "set") + ", read " + cli.Moment(*s.ReadAt)
	}
	return text
}

// provenance says where a guest came from.
func provenance(g api.Guest) string {
	p := g.Provenance
	switch {
	case p == nil && g.Incarnation == "":
		return ""
	case p == nil:
		return wordsForeign
	case p.Scratch:
		return fmt.Sprintf("scratch of %s, made by %s, until %s", p.Creator, p.Job, momentOr(p.ScratchUntil))
	case p.ScratchEnded != "":
		return fmt.Sprintf("made for %s by %s; no longer scratch: %s", p.Creator, p.Job, p.ScratchEnded)
	default:
		return fmt.Sprintf("made for %s by %s at %s", p.Creator, p.Job, cli.Moment(p.CreatedAt))
	}
}

func okOrBad(ok bool) string {
	if ok {
		return "ok"
	}
	return "BAD"
}

func standsOrNot(ok bool) string {
	if ok {
		return "ok"
	}
	return "none"
}

// enforced lists the limits that the driver can hold guests to, and those that
// it cannot.
func enforced(has, lacks []string) string {
	text := strings.Join(has, ", ")
	if text == "" {
		text = "none"
	}
	if len(lacks) > 0 {
		text += " (not here: " + strings.Join(lacks, ", ") + ")"
	}
	return op.Shown(text)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func times(n int) string { return fmt.Sprintf(" (%d times)", n) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// holder says of who has a reservation whether that one is still there.
func holder(r api.Reservation) string {
	switch {
	case bare(r.Agent):
		return "no process"
	case !r.HolderAlive:
		return "ended"
	default:
		return "alive"
	}
}

// conflict says who is in the way, since when, until when and why. What others
// wrote is quoted.
func conflict(c api.Conflict, scope string) string {
	r, where := c.Reservation, ""
	if r.Scope != scope {
		where = fmt.Sprintf(wordsConflictScope, cli.Inline(r.Scope))
	}
	text := fmt.Sprintf(wordsConflict, cli.Inline(c.Pattern), cli.Inline(r.ID), cli.Inline(r.Agent), holder(r), cli.Inline(c.Overlaps), where,
		cli.Inline(r.Mode), cli.Moment(r.CreatedAt), cli.Moment(r.ExpiresAt))
	if r.Reason != "" {
		text += fmt.Sprintf(wordsConflictReason, quoted(r.Reason))
	}
	return text
}

// quoted shows another agent's words as data: always between quotes, in one
// line. "" stays empty.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	if shown := cli.Inline(s); shown != s {
		return shown
	}
	return strconv.Quote(s)
}

// list joins patterns.
func list(patterns []string) string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = cli.Inline(p)
	}
	return strings.Join(out, ", ")
}

// matchesMany warns of a pattern that matches n files, or more where not all of
// them were counted.
func matchesMany(pattern string, n int, more bool) string {
	switch {
	case !more:
		return fmt.Sprintf("%s matches %s", cli.Inline(pattern), count(n, "file"))
	case n >= glob.MaxVisited:
		return fmt.Sprintf("%s matches more than 20,000 files", cli.Inline(pattern))
	default:
		return fmt.Sprintf("%s matches %s, and may match more: no more than 20,000 entries were looked at, in directories that can be read",
			cli.Inline(pattern), count(n, "file"))
	}
}

// holdsNothingBelow warns of a pattern that names a directory.
func holdsNothingBelow(pattern string) string {
	return fmt.Sprintf("%s is a directory: this holds nothing below it; write %s", cli.Inline(pattern), cli.Inline(pattern+"/"))
}

func notCounted(dir string, err error) string {
	return fmt.Sprintf("the files of %s cannot be counted: %s", cli.Inline(dir), cli.Inline(err.Error()))
}

func holdsWithoutName(holder string) string {
	return cli.Inline(holder) + " is no registered agent, so that this is every process's of that uid, and ends by its time alone: gated agent register NAME"
}

// notATime says which times a flag takes.
func notATime(flag string, d, least time.Duration) string {
	if least > 0 {
		return fmt.Sprintf("--%s is %s, not %s to 24h", flag, d, least)
	}
	return fmt.Sprintf("--%s is %s, not above 0 and at most 24h", flag, d)
}

// endsWithCommand warns of a name that was bound to a shell of one command.
func endsWithCommand(name string, pid int, shell string) string {
	return fmt.Sprintf("process %d is a shell that was started for one command (%s -c), and %s is nobody's name when that ends; "+
		"to name what started the shell: --pid $PPID", pid, cli.Inline(shell), cli.Inline(name))
}

// tokenNotKept says why there is no file with the token, and what became of the
// name.
func tokenNotKept(err, givingBack error) string {
	text := "the token cannot be kept: " + err.Error()
	if givingBack != nil {
		text += "; and the name cannot be given back: " + givingBack.Error()
	}
	return text
}

func tokenFileExists(path string) error {
	return op.Refuse(op.Conflict, "%s exists", path).WithHint("name a new file, or remove this one if its token is for nothing any more")
}

func noReservation(id op.ReservationID) error {
	return op.Refuse(op.UnknownTarget, "there is no reservation %s", id).WithHint("gated reservations --all lists them")
}

// mostNamed is how many scopes are named of those that are no part of one.
const mostNamed = 10

func noAgent(name string) error {
	return op.Refuse(op.UnknownTarget, "no agent %q is registered", name).WithHint("gated agent list shows who is")
}

func hasItAlready(r api.Reservation) error {
	return op.Refuse(op.BadParams, "%s has %s already", r.Agent, r.ID).WithHint("say with --to who else gets it")
}

// cannotBeSeparated says which reservations of its holder's keep r with it.
func cannotBeSeparated(r api.Reservation, tied []api.Reservation) error {
	names := make([]string, len(tied))
	for i, o := range tied {
		names[i] = fmt.Sprintf("%s (%s)", o.ID, list(o.Patterns))
	}
	return op.Refuse(op.Conflict, "%s (%s) cannot be taken from %s alone: it overlaps %s, which is %s's too, and two agents would have the same paths",
		r.ID, list(r.Patterns), r.Agent, strings.Join(names, " and "), r.Agent).
		WithHint("%s releases that first; or all of the directory is taken away: gated release-all --scope %s", r.Agent, argument(r.Scope))
}

// nothingReserved refuses to ask for nothing.
func nothingReserved(path string, below []string) error {
	refusal := op.Refuse(op.UnknownTarget, "nothing is reserved in %s", path)
	if len(below) == 0 {
		return refusal.WithHint("gated reservations --all shows what is")
	}
	shown := below[:min(len(below), mostNamed)]
	lines := make([]string, len(shown))
	for i, path := range shown {
		lines[i] = "gated release-all --scope " + argument(path)
	}
	text := strings.Join(lines, "; ")
	if n := len(below) - len(shown); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return refusal.WithHint("what is reserved in scopes below it is no part of it: %s", text)
}

// reservedBefore says that what is reserved is of a directory that is gone.
func reservedBefore(path string, of []api.Reservation) error {
	names := make([]string, len(of))
	for i, r := range of {
		names[i] = r.ID
	}
	return op.Refuse(op.UnknownTarget, "nothing is reserved in %s as it is now: %s is of another directory that was there before", path,
		strings.Join(names, ", ")).WithHint("it ends by its time, or its holder releases it")
}

func emptyFilter(name string) string {
	return "--" + name + " is empty: say which, or leave the flag away for all"
}

func noSuchKind(kind string) string {
	return fmt.Sprintf("--kind %s is no kind of entry; there are: %s", quoted(kind), strings.Join(api.EntryKinds, " "))
}

func notAMoment(flag, text string) string {
	return fmt.Sprintf("--%s %s is no time: write 2026-03-01, \"2026-03-01 12:00\" or 2026-03-01T12:00:00Z, which is UTC, or how long ago, 90m", flag, quoted(text))
}

func notAnEntryNumber(text string) string { return quoted(text) + " is not the number of an entry" }

func entryMissing(missing, next int64) error {
	return op.Refuse(op.Conflict, "entry %d is missing, but there is a %d", missing, next).
		WithHint("what was written is not the whole log: gated audit verify on the gate's host says what is wrong")
}

// wordsMaybeAccepted is said where the connection broke before the answer to a job
// that was handed in, and wasAccepted where it broke after that.
const wordsMaybeAccepted = "whether the job was accepted is not known: gated jobs lists those that were"

func wasAccepted(job string) string {
	return fmt.Sprintf("%s was accepted; gated jobs %s says how it ended", op.Shown(job), op.Shown(job))
}

func noSuchEntryYet(after, head int64) error {
	return op.Refuse(op.UnknownTarget, "the log has no entry %d: it ends at %d", after, head).
		WithHint("if it had one, it was cut off: gated audit verify --witness FILE on the gate's host")
}

func notAnExport(path, why string) error {
	return op.Refuse(op.Malformed, "%s is no export of an audit log: %s", op.Shown(path), why).
		WithHint("it was left as it is: name a new file")
}

func exportLocked(path string) error {
	return op.Refuse(op.Conflict, "%s is being written by another export", op.Shown(path)).WithHint("wait for its end")
}

func otherLog(path string, seq int64) error {
	return op.Refuse(op.Conflict, "the last entry in %s is not entry %d of this log: the file was left as it is", op.Shown(path), seq).
		WithHint("it is of another gate, or the log was cut or rewritten since: keep the file, and see gated audit verify on the gate's host")
}

func noProof(why string) error {
	return op.Refuse(op.Malformed, "this is no proof of an entry: %s", why)
}

func otherKey(is, want string) error {
	return op.Refuse(op.BadSignature, "the proof is signed with another key:\nit has %s\nand not %s", op.Shown(is), op.Shown(want)).
		WithHint("it is of another gate, or forged")
}

func noSignedHead(seq int64) error {
	return op.Refuse(op.Unavailable, "the gate signs no head of its log of %d entries", seq).
		WithHint("gated audit verify on its host says whether the log is whole")
}

// argument writes a path as a shell takes it.
func argument(path string) string {
	if shown := cli.Inline(path); shown != path {
		return shown // for the eyes alone
	}
	return hook.Quote(path)
}
