package api

import (
	"fmt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// HintOf returns what to do about a refusal with that code, if the refusal itself does not say. An unknown code, such
// as a newer daemon's, has no hint.
func HintOf(code refusal.Code) string { return nextSteps[code] }

// HintOfEnd returns what to do about a failed step, or job, of that state and code. If the step was tried, its outcome
// says what to do, and not the code, which is for refusals.
func HintOfEnd(state op.State, job string, code refusal.Code) string {
	switch state {
	case op.StateFailed:
		return fmt.Sprintf(wordsTriedFailed, job)
	case op.StateInterrupted:
		return fmt.Sprintf(wordsTriedCut, job)
	}
	return HintOf(code)
}

// nextSteps says for each code what to do.
var nextSteps = map[refusal.Code]string{
	refusal.Malformed:         "look at what is named above: an id, a name or a file is not of the form that is expected; --help has an example",
	refusal.Oversized:         "no gate takes that much: is it the right file?",
	refusal.NamespaceMismatch: "sign it again in the role that is asked for: opsign approve ID --role ROLE, or ssh-keygen -Y sign -n ROLE@gated",
	refusal.UnknownSigner:     "opsign keys shows your keys and what each may sign; a new one is listed by a signed trust.rotate",
	refusal.SignerExpired:     "sign with a key that is valid now, or have it renewed: a certificate by its authority, a line by trust.rotate",
	refusal.SignerRevoked:     "sign with another key; a key that was lost is taken off the list by trust.rotate",
	refusal.WeakKey:           "sign with an ed25519 or ecdsa key, or rsa of 3,072 bits or more: ssh-keygen -t ed25519",
	refusal.BadSignature:      "sign the exact bytes again: opsign approve ID, or those of opsign show ID --payload",
	refusal.TouchRequired:     "sign with a security key: ssh-keygen -t ed25519-sk makes one, opsign keys shows yours",
	refusal.TargetMismatch:    "do not sign it for this gate: gated status shows which one answers",
	refusal.NotYetValid:       "compare the clocks of this machine and of the gate's, then try again",
	refusal.Expired:           "what was signed came too late: opsign list shows what waits now; ask again if it is not there",
	refusal.ValidityTooLong:   "sign it for a shorter time: opsign sign --expires 15m",
	refusal.Replayed:          "it counts once: opsign show ID says what became of it; to do it again, ask again",
	refusal.RoleDenied:        "opsign show ID says which roles may sign; sign in one of them with --role",
	refusal.BindingMismatch:   "look at the request as it is now and sign that: opsign show ID, opsign approve ID",
	refusal.StaleTarget:       "look at the target and at what waits now: gated guests NAME, opsign list; ask again if nothing does",
	refusal.ThresholdUnmet:    "opsign show ID says who is needed and who could still sign",
	refusal.Superseded:        "opsign list shows what waits in its place",
	refusal.Cancelled:         "whoever asked wants it no more; if it is still wanted, ask again: gated submit",
	refusal.Rejected:          "an operator said no: gated audit tail has the reason; ask again when that is settled",
	refusal.UnknownOp:         "gated ops lists the operations",
	refusal.BadParams:         "gated ops lists the parameters with their units and ranges",
	refusal.UnknownTarget:     "see what there is: opsign list, gated jobs, gated guests, gated commands, gated reservations --all, gated agent list",
	refusal.Conflict:          "it is not as you saw it: look again (opsign list, gated jobs, gated guests, gated reservations), then decide anew",
	refusal.OverLimit:         "wait until some of it has ended, or cancel or reject what nobody needs: gated jobs, opsign list",
	refusal.TooComplex:        "make several smaller ones of it",
	refusal.NotHolder:         "only its holder can do that: ask whoever holds it",
	refusal.NotAllowed:        "ask somebody who may: gated status shows whom the gate runs as, opsign keys what you may sign",
	refusal.SchemaTooNew:      "install the version of gated that wrote this, or a newer one",
	refusal.Unavailable:       "nothing was decided: gated status says what is wrong; try again",
	refusal.Internal:          "the daemon's log says more; whoever runs it should see this",
	refusal.PendingSignature:  "opsign list shows what waits; an operator signs it with opsign approve ID",
}

// What to do about a step that was tried and failed.
const (
	wordsTriedFailed = "it was tried, and this is how it ended; gated jobs %s shows what it printed, if anything: " +
		"mend the cause, then ask again if it is still wanted"
	wordsTriedCut = "it was begun, and may have done all, a part or nothing of it: " +
		"look at what it did (gated jobs %s), then ask again if it is still wanted"
)
