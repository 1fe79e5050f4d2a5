// Package refusal has the one kind of error that a caller sees: a stable code for programs, the check that refused, a
// sentence for people and a hint what to do.
package refusal

import (
	"errors"
	"fmt"
)

// Code is a stable refusal code of protocol section 5. It is an error, so
// errors.Is(err, refusal.Replayed) finds a code anywhere in a chain.
type Code string

// Error returns the code itself.
func (c Code) Error() string {
	return string(c)
}

// The refusal codes, and one state that is answered like a code.
const (
	Malformed         Code = "malformed"
	Oversized         Code = "oversized"
	NamespaceMismatch Code = "namespace_mismatch"
	UnknownSigner     Code = "unknown_signer"
	SignerExpired     Code = "signer_expired"
	SignerRevoked     Code = "signer_revoked"
	WeakKey           Code = "weak_key"
	BadSignature      Code = "bad_signature"
	TouchRequired     Code = "touch_required"
	OriginMismatch    Code = "origin_mismatch" // another page than the gate accepts asked for the signature
	TargetMismatch    Code = "target_mismatch"
	NotYetValid       Code = "not_yet_valid"
	Expired           Code = "expired"
	ValidityTooLong   Code = "validity_too_long"
	Replayed          Code = "replayed"
	RoleDenied        Code = "role_denied"
	BindingMismatch   Code = "binding_mismatch"
	StaleTarget       Code = "stale_target"
	ThresholdUnmet    Code = "threshold_unmet"
	Superseded        Code = "superseded"
	Cancelled         Code = "cancelled"
	Rejected          Code = "rejected"
	RejectedBefore    Code = "rejected_before"
	UnknownOp         Code = "unknown_op"
	BadParams         Code = "bad_params"
	UnknownTarget     Code = "unknown_target"
	Conflict          Code = "conflict"
	CommandFailed     Code = "command_failed"
	OverLimit         Code = "over_limit"
	TooComplex        Code = "too_complex"
	NotHolder         Code = "not_holder"
	NotAllowed        Code = "not_allowed"
	SchemaTooNew      Code = "schema_too_new"
	Unavailable       Code = "unavailable"
	Standby           Code = "standby" // another member of the gate decides
	Internal          Code = "internal"

	// PendingSignature is the state of a destructive step that waits for an
	// operator. Answers carry it in the place of a refusal's code.
	PendingSignature Code = "pending_signature"
)

// Stage names the check that refused. The first eight stages are those of the
// verification pipeline in their fixed order. The next three are the gate's.
type Stage string

// The stages, in the order in which they run (design section 5).
const (
	StageDecode    Stage = "decode"
	StageNamespace Stage = "namespace"
	StageAllowList Stage = "allow-list"
	StageCrypto    Stage = "crypto"
	StageInclusion Stage = "inclusion" // of a batch alone
	StageTarget    Stage = "target"
	StageTime      Stage = "time"
	StageNonce     Stage = "nonce"
	StageRole      Stage = "role"
	StageBinding   Stage = "binding"
	StagePolicy    Stage = "policy"
)

// Refusal is an error that a caller may see: a code for programs, a sentence for
// people, and a hint what to do.
type Refusal struct {
	Code   Code
	Stage  Stage  // empty if no stage applies
	Detail string // a sentence that says what was wrong
	Hint   string // what to do; may be empty

	// Request and State name the request that the refusal is about, in the text forms of op.RequestID and op.State.
	// So a caller that lost an answer can learn how the request stands. Both are empty if there is none.
	Request string
	State   string
}

// New returns a refusal with a formatted detail.
func New(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// At sets the stage and returns r.
func (r *Refusal) At(s Stage) *Refusal { r.Stage = s; return r }

// WithHint sets what to do and returns r.
func (r *Refusal) WithHint(format string, args ...any) *Refusal {
	r.Hint = fmt.Sprintf(format, args...)
	return r
}

// About names the request the refusal is about, with its state, and returns r.
func (r *Refusal) About(request, state fmt.Stringer) *Refusal {
	r.Request, r.State = request.String(), state.String()
	return r
}

// Error returns "code: detail".
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Detail }

// Sentence returns the detail and, after a colon, the hint.
func (r *Refusal) Sentence() string {
	if r.Hint == "" {
		return r.Detail
	}
	return r.Detail + ": " + r.Hint
}

// Unwrap returns the code, for errors.Is.
func (r *Refusal) Unwrap() error { return r.Code }

// As returns err as a refusal. Another error becomes Internal without its
// text, because the text may name paths or secrets. It returns nil for nil.
func As(err error) *Refusal {
	if err == nil {
		return nil
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	var c Code
	if errors.As(err, &c) {
		return &Refusal{Code: c, Detail: err.Error()}
	}
	return &Refusal{Code: Internal, Detail: "an internal error; the daemon's log has it"}
}

// CodeOf returns the code in err's chain, Internal if there is none, and the
// empty code for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return As(err).Code
}
