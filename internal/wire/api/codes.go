package api

import (
	"errors"
	"net/http"

	"gated/internal/base/op"
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
	Code   op.Code
	Status int    // of the HTTP answer
	Exit   int    // of the command
	Title  string // a few words for people, the same for every problem of this code
}

// Codes is the table of protocol section 5. The status says what a caller can do. 403: nothing, without another key or
// uid. 409: look again and ask again. 422: word it differently. 429: later or less. 503: later.
var Codes = []Meaning{
	{op.Malformed, http.StatusBadRequest, ExitRefused, "Not understood"},
	{op.Oversized, http.StatusRequestEntityTooLarge, ExitRefused, "Too large"},

	{op.NamespaceMismatch, http.StatusForbidden, ExitRefused, "Signed for something else"},
	{op.UnknownSigner, http.StatusForbidden, ExitRefused, "Signer not listed"},
	{op.SignerExpired, http.StatusForbidden, ExitRefused, "Signer not valid at this time"},
	{op.SignerRevoked, http.StatusForbidden, ExitRefused, "Signer revoked"},
	{op.WeakKey, http.StatusForbidden, ExitRefused, "Key too weak"},
	{op.BadSignature, http.StatusForbidden, ExitRefused, "Signature does not verify"},
	{op.TouchRequired, http.StatusForbidden, ExitRefused, "Touch required"},
	{op.NotYetValid, http.StatusForbidden, ExitRefused, "Not yet valid"},
	{op.Expired, http.StatusForbidden, ExitRefused, "Expired"},
	{op.ValidityTooLong, http.StatusForbidden, ExitRefused, "Valid for too long"},
	{op.RoleDenied, http.StatusForbidden, ExitRefused, "Role may not sign this"},
	{op.NotHolder, http.StatusForbidden, ExitRefused, "Not the holder"},
	{op.NotAllowed, http.StatusForbidden, ExitRefused, "Not allowed"},

	{op.UnknownTarget, http.StatusNotFound, ExitRefused, "No such thing"},

	{op.TargetMismatch, http.StatusConflict, ExitRefused, "Signed for another gate"},
	{op.BindingMismatch, http.StatusConflict, ExitRefused, "Not what was signed"},
	{op.Replayed, http.StatusConflict, ExitRefused, "Used before"},
	{op.StaleTarget, http.StatusConflict, ExitRefused, "Target changed"},
	{op.Superseded, http.StatusConflict, ExitRefused, "Superseded"},
	{op.Cancelled, http.StatusConflict, ExitRefused, "Cancelled"},
	{op.Rejected, http.StatusConflict, ExitRefused, "Rejected by an operator"},
	{op.Conflict, http.StatusConflict, ExitRefused, "Conflict"},
	// The request still waits for more signatures.
	{op.ThresholdUnmet, http.StatusConflict, ExitWaits, "More people have to sign"},

	{op.UnknownOp, http.StatusUnprocessableEntity, ExitRefused, "No such operation"},
	{op.BadParams, http.StatusUnprocessableEntity, ExitRefused, "Parameters do not fit"},
	{op.TooComplex, http.StatusUnprocessableEntity, ExitRefused, "Too complex"},

	{op.OverLimit, http.StatusTooManyRequests, ExitRefused, "Over the limit"},

	{op.SchemaTooNew, http.StatusServiceUnavailable, ExitRefused, "State is from a newer version"},
	{op.Unavailable, http.StatusServiceUnavailable, ExitInternal, "Cannot decide now"},
	{op.Internal, http.StatusInternalServerError, ExitInternal, "Internal error"},

	// A state, answered with success: the job was accepted.
	{op.PendingSignature, http.StatusAccepted, ExitWaits, "Waits for a signature"},
}

var byCode = func() map[op.Code]Meaning {
	m := make(map[op.Code]Meaning, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c
	}
	return m
}()

// MeaningOf returns the table's row for a code. An unknown code, such as a newer daemon's, means the same as Internal,
// under its own name.
func MeaningOf(c op.Code) Meaning {
	if m, ok := byCode[c]; ok {
		return m
	}
	m := byCode[op.Internal]
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
	return MeaningOf(op.CodeOf(err)).Exit
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
