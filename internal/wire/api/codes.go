package api

import (
	"errors"
	"net/http"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The exit codes of both command lines (protocol section 6).
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
	Code   refusal.Code
	Status int    // of the HTTP answer
	Exit   int    // of the command
	Title  string // a few words for people, the same for every problem of this code
}

// Codes is the table of protocol section 5. The status says what a caller can do. 403: nothing, without another key or
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
	{refusal.Conflict, http.StatusConflict, ExitRefused, "Conflict"},
	// The request still waits for more signatures.
	{refusal.ThresholdUnmet, http.StatusConflict, ExitWaits, "More people have to sign"},

	{refusal.UnknownOp, http.StatusUnprocessableEntity, ExitRefused, "No such operation"},
	{refusal.BadParams, http.StatusUnprocessableEntity, ExitRefused, "Parameters do not fit"},
	{refusal.TooComplex, http.StatusUnprocessableEntity, ExitRefused, "Too complex"},

	{refusal.OverLimit, http.StatusTooManyRequests, ExitRefused, "Over the limit"},

	{refusal.SchemaTooNew, http.StatusServiceUnavailable, ExitRefused, "State is from a newer version"},
	{refusal.Unavailable, http.StatusServiceUnavailable, ExitInternal, "Cannot decide now"},
	{refusal.Internal, http.StatusInternalServerError, ExitInternal, "Internal error"},

	// A state, answered with success: the job was accepted.
	{refusal.PendingSignature, http.StatusAccepted, ExitWaits, "Waits for a signature"},
}

var byCode = func() map[refusal.Code]Meaning {
	m := make(map[refusal.Code]Meaning, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c
	}
	return m
}()

// MeaningOf returns the table's row for a code. An unknown code, such as a newer daemon's, means the same as Internal,
// under its own name.
func MeaningOf(c refusal.Code) Meaning {
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
func ExitOfState(s op.State) int {
	switch s {
	case op.StatePending:
		return ExitWaits
	case op.StateSucceeded, op.StatePlanned, op.StateAuthorized, op.StateDispatched:
		return ExitDone
	default:
		return ExitRefused
	}
}
