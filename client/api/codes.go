package api

import (
	"errors"
	"fmt"
	"net/http"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The exit codes of gated and opsign.
const (
	ExitDone        = 0
	ExitRefused     = 1 // refused, or a conflict
	ExitUsage       = 2
	ExitWaits       = 3 // waits for a signature
	ExitUnreachable = 4 // the daemon cannot be reached
	ExitInternal    = 5 // the daemon was reached and could not decide, or broke
)

// Meaning is a code's form on the wire and in a shell.
type Meaning struct {
	Code   Code
	Status int    // of the HTTP answer
	Exit   int    // of the command
	Title  string // a few words for people, the same for every problem of this code
}

// Codes has every code. The status says what a caller can do. 403: nothing, without another key or
// uid. 409: look again and ask again. 422: word it differently. 429: later or less. 503: later.
var Codes = []Meaning{
	{refusal.Malformed, http.StatusBadRequest, ExitRefused, "Not understood"},
	{refusal.Oversized, http.StatusRequestEntityTooLarge, ExitRefused, "Too large"},

	{refusal.NamespaceMismatch, http.StatusForbidden, ExitRefused, "Signed for something else"},
	{refusal.UnknownSigner, http.StatusForbidden, ExitRefused, "Signer not listed"},
	{refusal.SignerExpired, http.StatusForbidden, ExitRefused, "Signer not valid at this time"},
	{refusal.SignerRevoked, http.StatusForbidden, ExitRefused, "Signer revoked"},
	{refusal.WeakKey, http.StatusForbidden, ExitRefused, "Key too weak"},
	{refusal.BadSignature, http.StatusForbidden, ExitRefused, "Signature does not verify"},
	{refusal.TouchRequired, http.StatusForbidden, ExitRefused, "Touch required"},
	{refusal.NotYetValid, http.StatusForbidden, ExitRefused, "Not yet valid"},
	{refusal.Expired, http.StatusForbidden, ExitRefused, "Expired"},
	{refusal.ValidityTooLong, http.StatusForbidden, ExitRefused, "Valid for too long"},
	{refusal.RoleDenied, http.StatusForbidden, ExitRefused, "Role may not sign this"},
	{refusal.NotHolder, http.StatusForbidden, ExitRefused, "Not the holder"},
	{refusal.NotAllowed, http.StatusForbidden, ExitRefused, "Not allowed"},

	{refusal.UnknownTarget, http.StatusNotFound, ExitRefused, "No such thing"},

	{refusal.TargetMismatch, http.StatusConflict, ExitRefused, "Signed for another gate"},
	{refusal.BindingMismatch, http.StatusConflict, ExitRefused, "Not what was signed"},
	{refusal.Replayed, http.StatusConflict, ExitRefused, "Used before"},
	{refusal.StaleTarget, http.StatusConflict, ExitRefused, "Target changed"},
	{refusal.Superseded, http.StatusConflict, ExitRefused, "Superseded"},
	{refusal.Cancelled, http.StatusConflict, ExitRefused, "Cancelled"},
	{refusal.Rejected, http.StatusConflict, ExitRefused, "Rejected by an operator"},
	{refusal.RejectedBefore, http.StatusConflict, ExitRefused, "Rejected before"},
	{refusal.Conflict, http.StatusConflict, ExitRefused, "Conflict"},
	{refusal.CommandFailed, http.StatusConflict, ExitRefused, "The command failed"},
	// The request still waits for more signatures.
	{refusal.ThresholdUnmet, http.StatusConflict, ExitWaits, "More people have to sign"},

	{refusal.UnknownOp, http.StatusUnprocessableEntity, ExitRefused, "No such operation"},
	{refusal.BadParams, http.StatusUnprocessableEntity, ExitRefused, "Parameters do not fit"},
	{refusal.TooComplex, http.StatusUnprocessableEntity, ExitRefused, "Too complex"},

	{refusal.OverLimit, http.StatusTooManyRequests, ExitRefused, "Over the limit"},

	{refusal.SchemaTooNew, http.StatusServiceUnavailable, ExitRefused, "State is from a newer version"},
	{refusal.Unavailable, http.StatusServiceUnavailable, ExitInternal, "Cannot decide now"},
	{refusal.Standby, http.StatusServiceUnavailable, ExitInternal, "Another member decides"},
	{refusal.Internal, http.StatusInternalServerError, ExitInternal, "Internal error"},

	// A state, answered with success: the job was accepted.
	{refusal.PendingSignature, http.StatusAccepted, ExitWaits, "Waits for a signature"},
}

var byCode = func() map[Code]Meaning {
	m := make(map[Code]Meaning, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c
	}
	return m
}()

// MeaningOf returns the table's row for a code. An unknown code, such as a newer daemon's, means the same as Internal,
// under its own name.
func MeaningOf(c Code) Meaning {
	if m, ok := byCode[c]; ok {
		return m
	}
	m := byCode[refusal.Internal]
	m.Code = c
	return m
}

// Exit returns the exit code for an error that ends a command. It is 0 for nil. If an error of the chain has the method
// CommandExit, it is that method's, else the table's. The method is not called ExitCode, because os/exec's errors have
// that for another program's exit code.
func Exit(err error) int {
	if err == nil {
		return ExitDone
	}
	var own interface{ CommandExit() int }
	if errors.As(err, &own) {
		return own.CommandExit()
	}
	return MeaningOf(refusal.CodeOf(err)).Exit
}

// ExitOfState returns the exit code for the state of a job or request: 0 if it is done or under way, 3 if it waits, 1
// at any other end.
func ExitOfState(s State) int {
	switch s {
	case StatePending:
		return ExitWaits
	case StateSucceeded, StatePlanned, StateAuthorized, StateDispatched:
		return ExitDone
	default:
		return ExitRefused
	}
}

// ProblemType is the media type of a refusal (RFC 9457, section 3).
const ProblemType = "application/problem+json"

// problemBase and a code make the URI that names a kind of problem. It is only a name.
const problemBase = "urn:gated:problem:"

// Problem is a refusal on the wire (RFC 9457, section 3.1). Extension members have the stable code and other facts for
// programs.
type Problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"` // a sentence for people
	Code    Code   `json:"code"`
	Hint    string `json:"hint,omitempty"`    // what to do
	Stage   Stage  `json:"stage,omitempty"`   // the check that refused
	Request string `json:"request,omitempty"` // the request it is about, j12.1
	State   State  `json:"state,omitempty"`   // and its state

	// Conflicts are others' reservations in the way.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// ProblemOf returns the part of an error that a caller may see.
func ProblemOf(err error) Problem {
	r := refusal.As(err)
	m := MeaningOf(r.Code)
	return Problem{
		Type: problemBase + string(r.Code), Title: m.Title, Status: m.Status,
		Detail: r.Detail, Code: r.Code, Hint: r.Hint, Stage: r.Stage, State: State(r.State), Request: r.Request,
	}
}

// Refusal rebuilds the daemon's error. A problem without a code is Internal: the answer is not from a gate, or from a
// broken one.
func (p Problem) Refusal() *Refusal {
	r := &Refusal{Code: p.Code, Stage: p.Stage, Detail: p.Detail, Hint: p.Hint, State: p.State.String()}
	if r.Code == "" {
		r.Code = refusal.Internal
	}
	if _, err := op.ParseStepID(p.Request); err == nil {
		r.Request = p.Request
	}
	return r
}

// HintOf returns what to do about a refusal with that code, if the refusal itself does not say. An unknown code, such
// as a newer daemon's, has no hint.
func HintOf(code Code) string { return nextSteps[code] }

// HintOfEnd returns what to do about a failed step, or job, of that state and code. If the step was tried, its outcome
// says what to do, and not the code, which is for refusals. If its target was in no state for it, the detail says what to
// do, as far as the back end knows.
func HintOfEnd(state State, job string, code Code) string {
	switch state {
	case StateFailed:
		return fmt.Sprintf(wordsTriedFailed, job)
	case StateInterrupted:
		return fmt.Sprintf(wordsTriedCut, job)
	}
	if state == StateRefused && code == refusal.Conflict {
		return wordsInTheWay
	}
	return HintOf(code)
}

// nextSteps says what to do about each code of which that is so wherever it comes up. The others say it where they come up,
// or the detail does.
var nextSteps = map[Code]string{
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
	refusal.Cancelled:         "the requester withdrew it; if it is still wanted, ask again: gated submit",
	refusal.Rejected:          "an operator said no: gated audit tail has the reason; ask again when that is settled",
	refusal.RejectedBefore:    "an operator rejected the same wish a short time ago: give a new reason (--reason), or wait",
	refusal.UnknownOp:         "gated ops lists the operations",
	refusal.BadParams:         "gated ops lists the parameters with their units and ranges",
	refusal.CommandFailed:     "gated jobs ID shows what the command printed; it ran, so look what it did before it runs again",
	refusal.OverLimit:         "wait until some of it has ended, or cancel or reject what nobody needs: gated jobs, opsign list",
	refusal.NotHolder:         "only its holder can do that: ask whoever holds it",
	refusal.SchemaTooNew:      "install the version of gated that wrote this, or a newer one",
	refusal.Standby:           "ask the member that is active, which gated member ledger status names",
	refusal.Unavailable:       "nothing was decided: gated status says what is wrong; try again",
	refusal.Internal:          "the daemon's log says more; whoever runs it should see this",
	refusal.PendingSignature:  "opsign list shows what waits; an operator signs it with opsign approve ID",
}

// What to do about a step that was tried and failed, and about one that could not begin.
const (
	wordsInTheWay = "it could not be done as the target was, and nothing was changed: clear what is named above, then ask again if it is " +
		"still wanted"
	wordsTriedFailed = "it was tried, and this is how it ended; gated jobs %s shows what it printed, if anything: " +
		"mend the cause, then ask again if it is still wanted"
	wordsTriedCut = "it was begun, and may have done all, a part or nothing of it: " +
		"look at what it did (gated jobs %s), then ask again if it is still wanted"
)
