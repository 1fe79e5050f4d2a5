package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
	"gated/internal/witness"
)

// The words that people read of this tool alone are in this file, and those of
// review in words_review.go; what both tools say is in internal/cli.

// words are the help text of a command.
type words cli.Words

var help = map[string]words{
	"opsign": {"opsign", "Show what waits for a signature, sign exactly that, and see what became of it",
		`opsign signs one destructive step at a time with an SSH key. What it shows is decoded from the very bytes that it
signs.

Exit codes: 0 done, 1 refused or conflict, 2 usage, 3 waits for more signatures, 4 the daemon cannot be reached,
5 internal. The daemon's socket is --socket, else GATED_SOCKET, else the first that exists of
$XDG_RUNTIME_DIR/gated/gated.sock and /run/gated/gated.sock. A gate of another host is --remote, else GATED_HOST; the
system's ssh reaches it, and gated has to be installed there.`,
		"  opsign list\n  opsign approve j12.1\n  opsign -H ssh://alice@pve1 list"},
	"list": {"list", "List what waits for signatures, and what cools off or waits for its window", "", "  opsign list"},
	"show": {"show ID", "Show what a signature of a request would approve, and what would be lost",
		`With --payload writes the exact bytes to sign, for OpenSSH:

  opsign show j12.1 --payload > op.json
  ssh-keygen -Y sign -n operational@gated -f ~/.ssh/id_ed25519 op.json
  opsign submit op.json --sig op.json.sig`,
		"  opsign show j12.1"},
	"approve": {"approve ID...", "Sign requests, and wait for their outcome",
		`Shows each request and what would be lost, asks, signs, and waits 30 seconds for the outcome. It shows and asks on the
terminal that it is run from; without one it needs --yes. opsign review walks through all that waits. The key is that of
--key, --agent or --cert, else the one that ssh-agent holds, else ~/.ssh/id_ed25519, id_ecdsa or id_rsa.

Exits 0 when it was done, is under way, cools off or waits for its window, 1 when it was refused or failed, 3 when more
people have to sign, and says who could.`,
		"  opsign approve j12.1\n  opsign approve j12.1 --agent --fingerprint SHA256:abc... --yes"},
	"review": {"review", "Walk through what waits, and approve or reject each with one key",
		`Shows one request a screen: what it is, who asked and why, what would be lost, since when it waits, how long what is
signed now counts, who signed and who is needed. ? shows the keys. Several can be marked and approved together, each
with a signature of its own. Ends with a line for each, and with the exit code of the worst. It needs a terminal.`,
		"  opsign review\n  opsign review --agent"},
	"reject": {"reject ID --reason TEXT", "Sign the refusal of a request",
		"The request ends, and the same wish is refused until it changes.", "  opsign reject j12.1 --reason \"still in use\""},
	"submit": {"submit PAYLOAD --sig FILE...", "Hand in what was signed elsewhere, with ssh-keygen or opsign sign", "",
		"  opsign submit op.json --sig op.json.sig"},
	"sign": {"sign OP NAME [-p NAME=VALUE]... --host H --gate ID --incarnation I --state S -o FILE",
		"Make and sign an approval without a daemon",
		`Writes FILE and FILE.sig, to be carried to where opsign submit FILE --sig FILE.sig reaches the gate. Host, gate,
incarnation and state are what gated status and gated guests NAME print. The incarnation of what does not exist yet is
empty: --incarnation "". For -p see gated ops.`,
		`  opsign sign guest.destroy web-1 --host pve1 --gate 0123456789abcdef0123456789abcdef \
    --incarnation 6f1c:77:1 --state sha256:... -o op.json`},
	"verify": {"verify PAYLOAD --sig FILE --allowed-signers FILE", "Verify a signature without a daemon",
		"Prints who signed as what, with which key. The key has to be valid now; whether the payload still is, a gate says.",
		"  opsign verify op.json --sig op.json.sig --allowed-signers allowed_signers"},
	"keys": {"keys", "List your keys and what they may sign",
		"Looks at ssh-agent and at ~/.ssh/*.pub, and at allowed_signers where it may be read.", "  opsign keys"},
	"known": {"known", "List the gates that were met, by address",
		`A gate is pinned when it is met first, in $XDG_CONFIG_HOME/gated/known_gates or ~/.config/gated/known_gates. Another
gate at the same address is refused.`, "  opsign known"},
	"forget": {"forget ADDRESS", "Forget the gate of an address, so that the one that answers next is pinned",
		`Ask whoever runs the gate first, and compare the new id with what gated status prints on its host. What is
remembered of its audit log stays, as evidence (opsign witness).`,
		"  opsign forget ssh://alice@pve1"},
	"witness": {"witness", "List what is remembered of gates' audit logs",
		`Each time it connects, opsign demands a proof that the gate's audit log goes on from the last head that was
seen. A log that was cut, rewritten or rolled back is refused, with both heads, before anything is signed. The heads
are in $XDG_STATE_HOME/opsign/witness or ~/.local/state/opsign/witness.`, "  opsign witness"},
	"witness export": {"export [GATE]", "Write the heads that are remembered, and what contradicted them, as evidence",
		`One JSON object a line, with the gate's key and the signed note: who gets it needs nothing else to check it.
See opsign witness check and, on the gate's host, gated audit verify --witness.`, "  opsign witness export > heads.jsonl"},
	"witness check": {"check FILE", "Compare the heads that another operator remembers with the log that the gate shows here",
		`FILE is what opsign witness export wrote there, - standard input. Exit code 1 if one of them is not of this log:
the two of you were shown different ones.`, "  opsign witness check heads.jsonl"},
	"witness replace": {"replace GATE --key KEY", "Hold a gate to another key than that of the head that is remembered",
		`Where something else that claimed the gate's id was seen first. KEY is what gated audit head prints on the gate's
own host: read it there, not here. The largest head with that key that was refused is remembered then, and the old
one stays, as evidence.`, "  opsign witness replace 0123456789abcdef0123456789abcdef --key gated/0123456789abcdef0123456789abcdef+b37e50a1+AY..."},
}

// What the flags do.
const (
	flagAll          = "also what is authorized or under way"
	flagPayload      = "write the exact bytes to sign, and nothing else"
	flagYes          = "do not ask for a confirmation"
	flagNoWait       = "do not wait for the outcome"
	flagRole         = "sign as this `ROLE` (default the only one that may sign, else operational)"
	flagKey          = "sign with the private key in this `FILE`"
	flagCert         = "show this certificate `FILE` in place of its key, KEY-cert.pub"
	flagAgent        = "sign with a key that ssh-agent holds"
	flagFingerprint  = "the agent's plain key with this `SHA256:...` fingerprint"
	flagRejectReason = "why, for whoever asked"
	flagSig          = "the `FILE` with the armored signature"
	flagSigners      = "the allowed_signers `FILE`"
	flagKeysSigners  = "the allowed_signers `FILE` (default that of the default state directories)"
	flagHost         = "the gate's host `NAME`"
	flagGate         = "the gate's `ID`"
	flagIncarnation  = "the target's `INCARNATION`"
	flagState        = "the target's `FINGERPRINT`, sha256:..."
	flagGateKey      = "the gate's public `KEY`, as gated audit head prints it on its host"
	flagExpires      = "how long the approval is valid"
	flagReason       = "why, for the log"
	flagOutput       = "the `FILE` to write; the signature goes to FILE.sig"
)

// What is wrong with a command line.
const (
	wordsNeedsYes     = "there is no terminal to ask on: read opsign show ID, then say --yes"
	wordsNoReason     = "say with --reason why, for whoever asked"
	wordsNoSig        = "say with --sig which file has the signature"
	wordsVerifyNeeds  = "both --sig and --allowed-signers are needed"
	wordsNoSuchRole   = "--role is not the name of a role: operational, coordination, recovery, or one of the gate's own"
	wordsNoGateKey    = "say with --key which key the gate has: gated audit head on its host prints it"
	wordsNoSuchKey    = "there is no file %s; opsign keys lists the keys that you have"
	wordsNoKey        = "there is no key: name one with --key FILE, or load one into ssh-agent"
	wordsNoAgent      = "there is no ssh-agent: SSH_AUTH_SOCK is not set; start one, or sign with --key FILE"
	wordsExpiresShort = "--expires is less than a second"
)

// Answers and what is said beside them. Those that end a line have its end.
const (
	wordsNothingWaits   = "nothing waits\n"
	wordsPinned         = "gate %s on %s is met first at %s: pinned in %s\n"
	wordsNotPinned      = "warning: at %s: %s\n"
	wordsElsewhere      = "warning: gate %s is known at %s already. What answers at %s may pass on its requests and show other facts beside them; go on only if both are ways of yours to that one gate\n"
	wordsNoneKnown      = "no gate is known yet\n"
	wordsKnownHead      = "ADDRESS\tHOST\tGATE"
	wordsForgot         = "forgot gate %s on %s, known at %s\n"
	wordsHeadStays      = "what is remembered of its audit log stays, in %s\n"
	wordsRemembered     = "the audit log of gate %s is remembered from now on: %d entries, in %s\n"
	wordsNotRemembered  = "warning: at %s: %s\n"
	wordsUnsignedLog    = "warning: gate %s signs no head of its audit log, so that nobody notices when it is cut or rewritten. It is an older gated, or the log is broken: gated audit verify\n"
	wordsNoneRemembered = "no gate's audit log is remembered yet\n"
	wordsWitnessHead    = "GATE\tHOST\tADDRESS\tENTRIES\tROOT\tSEEN\tCONTRADICTED"
	wordsTimes          = "%d times"
	wordsContradicted   = "warning: a gate showed another log than the one that was remembered. The evidence: opsign witness export GATE\n"
	wordsReplaced       = "gate %s is held to the key %s from now on: %d entries, root %s\nwhat was seen at %s stays as evidence: %d entries, root %s\n"
	wordsInLog          = "in the log: %d entries, root %s, seen %s at %s\n"
	wordsNotInLog       = "NOT in the log: %d entries, root %s, seen %s at %s\n"
	wordsRequest        = "request %s: %s, for %s\n"
	wordsSigned         = "  what the signature binds:\n"
	wordsLost           = "  what would be lost, as the gate saw it%s:\n"
	wordsWouldRun       = "  what would run, and what its probe says, as the gate saw it%s:\n"
	wordsWouldChange    = "  what would change, and what the target holds, as the gate saw it%s:\n"
	wordsWouldRotate    = "  who comes and who goes, and who is listed now, as the gate saw it%s:\n"
	wordsLabels         = "labels of the target"
	wordsWhyName        = "why it waits"
	wordsDiffers        = "%s changed after it was shown, and nothing was signed. What differs:\n"
	wordsWas            = "was "
	wordsIs             = "now "
	wordsSeenAt         = " at %s"
	wordsSeenAgo        = " %s ago"
	wordsSeenDays       = " %d days ago"
	wordsAdds           = "    adds %s\n"
	wordsRemoves        = "    removes %s\n"
	wordsRemovesUnknown = "    removes %s (the gate does not say whose it is)\n"
	wordsMakesEpoch     = "    makes epoch %d of the list of signers\n"
	wordsKeyIs          = "%s (%s)"
	wordsUnreadable     = "a line that cannot be read: %s"
	wordsSecurityKey    = "security key"
	wordsSoftwareKey    = "software key"
	wordsAuthority      = "certificate authority"
	wordsFrom           = "from %s"
	wordsUntil          = "until %s"
	wordsRotated        = "rotated: epoch %d"
	wordsReleasedAll    = "released every reservation of %s"
	wordsOfHowMany      = " (%s)"
	wordsTransferred    = "gave the reservation %s in %s to %s"
	wordsWhy            = "  why it waits: %s\n"
	wordsDetail         = "  outcome: %s\n"
	wordsConfirmMoving  = "Only counts, sizes and times move, as of a guest that writes. Sign %s of %s as %s, whatever they are by then? Type yes:"
	wordsConfirmApprove = "Sign %s of %s as %s? Type yes:"
	wordsConfirmReject  = "Reject %s of %s as %s? Type yes:"
	wordsPassphrase     = "Passphrase of %s: "
	wordsThisOne        = "%s:\n"
	wordsRejected       = "%s is %s\n"
	wordsWritten        = "wrote %s and %s.sig\n"
	wordsSignedAs       = "signed as %s with %s, valid until %s\n"
	wordsHandIn         = "to hand it in: opsign submit %s --sig %s.sig\n"
	wordsTouch          = "touch the security key...\n"
	wordsCannotUndo     = "cannot be undone"
	wordsGood           = "good %s signature by %s with %s %s\n"
	wordsNoKeys         = "no key in ssh-agent and none in ~/.ssh\n"
	wordsWarning        = "warning: %s\n"
	wordsSoftwareKeys   = `Any process of your user can sign with a software key, through ssh-agent or its file, and nobody notices. Better:
  a security key, which somebody has to touch:  ssh-keygen -t ed25519-sk -f ~/.ssh/id_ed25519_sk
  or an agent that asks before each use:        ssh-add -d KEY && ssh-add -c KEY
`
)

// outcomeWords says how a request stands that is not refused: "destroyed
// guest/web-1, can be undone until …". What the gate says was done goes before
// what undo found.
func outcomeWords(r api.Request, undo string, now time.Time) string {
	what := cli.Inline(r.Op) + " " + cli.Inline(r.Target)
	if spec, err := op.Lookup(r.Op); err == nil && spec.Done != "" {
		what = spec.Done + " " + cli.Inline(r.Target)
	}
	if r.Op == op.Rotate && r.State == op.StateSucceeded {
		what = sprint(wordsRotated, r.Params.Int("epoch"))
	}
	if text := taken(r); text != "" && r.State == op.StateSucceeded {
		what = text
	}
	switch {
	case r.State == op.StateSucceeded && r.Detail != "":
		return what + ", " + cli.Inline(r.Detail)
	case r.State == op.StateSucceeded && undo != "":
		return what + ", " + undo
	case r.State == op.StateSucceeded:
		return what
	case cli.Delayed(r, now):
		return fmt.Sprintf("%s %s: %s", cli.Inline(r.Op), cli.Inline(r.Target), strings.TrimSuffix(cli.Delays(r, now), "\n"))
	default:
		return fmt.Sprintf("%s %s: %s, not done yet; gated jobs %s shows how it goes on", cli.Inline(r.Op), cli.Inline(r.Target),
			cli.Inline(string(r.State)), cli.Inline(r.Job))
	}
}

// maySign says what a key is good for.
func maySign(k key, signers string) string {
	switch {
	case !k.Usable:
		return "cannot sign for a gate: " + k.Why
	case signers == "":
		return "can sign where it is listed"
	case len(k.Listed) == 0:
		return "not listed in " + signers
	}
	var out []string
	for _, l := range k.Listed {
		text := fmt.Sprintf("may sign as %s (%s)", l.Role, cli.Person(l.Principal))
		if !l.Valid {
			text += ", but not at this time"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// kind says what sort of key it is, and of a certificate what it certifies.
func (k key) kind() string {
	text := "software"
	if k.SecurityKey {
		text = "security key"
	}
	c := k.Certificate
	if c == nil {
		return text
	}
	text += ", certificate of " + cli.People(c.Principals) + " by " + c.CA
	switch {
	case c.ValidBefore == nil:
		text += ", for ever"
	default:
		text += ", from " + cli.Moment(c.ValidAfter) + " to " + cli.Moment(*c.ValidBefore)
	}
	if !c.Valid {
		text += ", not valid now"
	}
	return text
}

// softwareKey warns of a key; may is nil where it is not known what it may sign.
func softwareKey(k key, may []op.Role) string {
	if may == nil {
		return k.Fingerprint + " is a software key"
	}
	return k.Fingerprint + " is a software key and may sign as " + roles(may)
}

// maybeCounted is said where the connection broke before the answer to an approval,
// and haveCounted where it broke after that.
func maybeCounted(id string) string {
	return fmt.Sprintf("the approval was handed in; whether it counted is not known: opsign show %s says", op.Shown(id))
}

func haveCounted(id string) string {
	return fmt.Sprintf("the approval counted; opsign show %s says what became of it", op.Shown(id))
}

// wordsMaybeTaken is said where it broke before the answer to what was signed elsewhere.
const wordsMaybeTaken = "it was handed in; whether it counted is not known: opsign list --all and gated jobs say"

func undoable(until time.Time) string { return "can be undone until " + cli.Moment(until) }

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func missingFlag(name string) string { return "--" + name + " is needed" }

var errLongLine = errors.New("the line is too long")

func notThisGate(p op.Payload, s api.Status) error {
	return op.Refuse(op.TargetMismatch, "the payload is for gate %s on %q, but gate %q on %q answers", p.Gate, p.Host,
		s.Gate, s.Host).WithHint("do not sign it")
}

func notTogether(id, what string) error {
	return op.Refuse(op.BindingMismatch, "the gate's answer for %s and the bytes to sign differ in %s: nothing was signed", id, what).
		WithHint("try again; if it stays, sign nothing of this gate, and tell whoever runs it")
}

func cannotPin(at client.Address, not *client.NotPinned) error {
	return op.Refuse(op.NotAllowed, "%s is met first: %v", at, not).
		WithHint("make known_gates writable, or set XDG_CONFIG_HOME to a directory where it may be")
}

func cannotRemember(at client.Address, not *witness.NotKept) error {
	return op.Refuse(op.NotAllowed, "%s: %v", at, not).
		WithHint("nothing was signed. Make room for it, or set XDG_STATE_HOME to a directory where it may be written")
}

func nothingRemembered() error {
	return op.Refuse(op.UnknownTarget, "nothing is remembered of such a gate's audit log").WithHint("opsign witness lists what is")
}

func noGateID(text string) error {
	return op.Refuse(op.Malformed, "%q is not a gate's id, which has 32 lower-case hex digits", text).WithHint("opsign witness lists them")
}

func nothingToCompare(gate op.GateID) error {
	return op.Refuse(op.BindingMismatch, "gate %s signs no head of its audit log: there is nothing to compare with", gate).
		WithHint("gated audit verify and gated --version on its host say why")
}

func noHeadOf(gate op.GateID) error {
	return op.Refuse(op.UnknownTarget, "the file has no head of gate %s, which answers", gate).
		WithHint("a gate that was restored has a new id; opsign -H ADDRESS witness check names another one")
}

func logsDiffer(checked witness.Checked, f witness.Finding) error {
	was, is := f.Record.Head(), checked.Head
	return op.Refuse(op.BindingMismatch, "the log of gate %s that is shown here is not the one that the other witness was shown: %s\nthere: %d entries, root %s, seen %s\nhere:  %d entries, root %s",
		is.Gate, f.Why, was.Size, was.Root, cli.Moment(f.Record.Seen), is.Size, is.Root).
		WithHint("sign nothing of this gate. One of you was shown a log that is not the gate's, or it was changed in between: take both exports " +
			"to whoever runs it (gated audit verify --witness FILE on its host)")
}

func metUnasked(at client.Address, s api.Status) error {
	return op.Refuse(op.NotAllowed, "%s is met first, as gate %s on %s, and --yes does not do for that: nothing was signed", at, s.Gate, cli.Inline(s.Host)).
		WithHint("compare the id with what gated status prints on that host, and pin it: opsign -H %s list; opsign known lists what is pinned", at)
}

func decided(code op.Code, r api.Request) error {
	return op.Refuse(code, "%s is %s: there is nothing to sign any more", r.ID, r.State).
		WithHint("opsign show %s says what became of it, opsign list what waits now", r.ID)
}

func roleNotAsked(role op.Role, may []op.Role) error {
	return op.Refuse(op.RoleDenied, "the role %s may not sign this", role).WithHint("it takes: %s", roles(may))
}

func whichRole(may []op.Role) string {
	return "several roles may sign this; say with --role which one you sign as: " + roles(may)
}

func fileThere(path string) error {
	return op.Refuse(op.Conflict, "%s exists, and nothing is written over it", path).
		WithHint("name a new file with -o, or remove the old one and its .sig")
}

func notConfirmed() error {
	return op.Refuse(op.Cancelled, "not confirmed, nothing was signed").WithHint("to sign, run it again and type yes")
}

func nobodyToAsk(path string) error {
	return op.Refuse(op.NotAllowed, "%s needs a passphrase and there is no terminal to ask on", path).
		WithHint("load it with ssh-add and use --agent")
}
