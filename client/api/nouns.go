package api

import (
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// State is how a step, a job or a request stands. It is a string with the values below. Its method Open reports whether
// a step of that state can still change.
type State = op.State

// The states. The first four are open. A step never leaves the others.
const (
	StatePlanned     = op.StatePlanned     // it runs soon
	StatePending     = op.StatePending     // it waits for a signature
	StateAuthorized  = op.StateAuthorized  // enough operators signed; it runs soon
	StateDispatched  = op.StateDispatched  // it runs
	StateSucceeded   = op.StateSucceeded   // it was done
	StateFailed      = op.StateFailed      // it was tried, and not done
	StateInterrupted = op.StateInterrupted // it may have been done, and no look tells
	StateRejected    = op.StateRejected    // an operator signed a rejection
	StateExpired     = op.StateExpired     // an approval was too old
	StateSuperseded  = op.StateSuperseded  // the target is another one, or another wish came in its place
	StateCancelled   = op.StateCancelled   // its requesters withdrew it, or another step of its job did not succeed
	StateRefused     = op.StateRefused     // the gate or the driver refused to run it
)

// Class says whether a step may lose data: a string, "benign" or "destructive". A destructive step needs a signature.
type Class = op.Class

// The classes.
const (
	Benign      = op.Benign
	Destructive = op.Destructive
)

// Params are a step's parameters, a map of names to values: string, bool, int64 within 2^53-1, and map[string]any and
// []any of these. The units are those of the catalogue (Param.Unit).
type Params = op.Params

// Incarnation is the identity of a target, as its back end reports it: a string. Another target of the same name has
// another one. The empty one means that the target does not exist.
type Incarnation = op.Incarnation

// Fingerprint is a digest of a target's state: "sha256:" and 64 lower-case hex digits.
type Fingerprint = op.Fingerprint

// GateID identifies one life of one gate's state: 32 lower-case hex digits.
type GateID = op.GateID

// Fact is what people should see before they sign: the strings Name and Text.
type Fact = op.Fact

// Role is the role in which an operator signs: a string, one of those below or another one of the gate's configuration.
type Role = op.Role

// The roles that every gate has.
const (
	Operational  = op.Operational  // steps of guests and commands, reservations, planned rotations of keys
	Coordination = op.Coordination // reservations that are taken from their holders
	Recovery     = op.Recovery     // rotations of keys
	BreakGlass   = op.BreakGlass   // what policy.break_glass lists, when no operator can sign
)

// Touch is what a security key attests about its user: a string with the values below.
type Touch = op.Touch

// What a signature can attest. Each value includes the one before.
const (
	TouchNone     = op.TouchNone     // "": any key will do
	TouchPresent  = op.TouchPresent  // "touch": a person touched the key
	TouchVerified = op.TouchVerified // "verification": the key also verified the person
)

// Window is a part of each week in UTC. Its text, in JSON and of its method String, is "22:00-06:00Z" or "mon-fri
// 08:00-18:00Z".
type Window = op.Window

// ParamType is the type of an operation's parameter: a string with the values below.
type ParamType = op.Type

// The types of parameters.
const (
	TypeString  = op.TString
	TypeInteger = op.TInt
	TypeBoolean = op.TBool
	TypeLabels  = op.TLabels // an object of strings
	TypeLines   = op.TLines  // an array of different strings that are not empty
)

// Refusal is the error of a gate that refuses. errors.As finds a *Refusal in a chain, and errors.Is its Code. Its fields:
//
//   - Code Code: for programs
//   - Detail string: a sentence for people
//   - Hint string: what to do; may be empty
//   - Stage Stage: the check that refused; may be empty
//   - Request, State string: the request that it is about, such as "j12.1", and how that stands; may be empty
type Refusal = refusal.Refusal

// Stage names the check that refused. It is a string with the values below.
type Stage = refusal.Stage

// The stages, in the order in which they run.
const (
	StageDecode    = refusal.StageDecode
	StageNamespace = refusal.StageNamespace
	StageAllowList = refusal.StageAllowList
	StageCrypto    = refusal.StageCrypto
	StageInclusion = refusal.StageInclusion
	StageTarget    = refusal.StageTarget
	StageTime      = refusal.StageTime
	StageNonce     = refusal.StageNonce
	StageRole      = refusal.StageRole
	StageBinding   = refusal.StageBinding
	StagePolicy    = refusal.StagePolicy
)

// Code is the stable code of a refusal. It is a string and an error: errors.Is(err, api.CodeReplayed) finds it in a
// chain. A newer gate may answer others. Codes has the status, the exit code and the meaning of each.
type Code = refusal.Code

// The codes.
const (
	CodeMalformed         = refusal.Malformed
	CodeOversized         = refusal.Oversized
	CodeNamespaceMismatch = refusal.NamespaceMismatch
	CodeUnknownSigner     = refusal.UnknownSigner
	CodeSignerExpired     = refusal.SignerExpired
	CodeSignerRevoked     = refusal.SignerRevoked
	CodeWeakKey           = refusal.WeakKey
	CodeBadSignature      = refusal.BadSignature
	CodeTouchRequired     = refusal.TouchRequired
	CodeOriginMismatch    = refusal.OriginMismatch
	CodeTargetMismatch    = refusal.TargetMismatch
	CodeNotYetValid       = refusal.NotYetValid
	CodeExpired           = refusal.Expired
	CodeValidityTooLong   = refusal.ValidityTooLong
	CodeReplayed          = refusal.Replayed
	CodeRoleDenied        = refusal.RoleDenied
	CodeBindingMismatch   = refusal.BindingMismatch
	CodeStaleTarget       = refusal.StaleTarget
	CodeThresholdUnmet    = refusal.ThresholdUnmet
	CodeSuperseded        = refusal.Superseded
	CodeCancelled         = refusal.Cancelled
	CodeRejected          = refusal.Rejected
	CodeRejectedBefore    = refusal.RejectedBefore
	CodeUnknownOp         = refusal.UnknownOp
	CodeBadParams         = refusal.BadParams
	CodeUnknownTarget     = refusal.UnknownTarget
	CodeConflict          = refusal.Conflict
	CodeCommandFailed     = refusal.CommandFailed
	CodeOverLimit         = refusal.OverLimit
	CodeTooComplex        = refusal.TooComplex
	CodeNotHolder         = refusal.NotHolder
	CodeNotAllowed        = refusal.NotAllowed
	CodeSchemaTooNew      = refusal.SchemaTooNew
	CodeUnavailable       = refusal.Unavailable
	CodeStandby           = refusal.Standby
	CodeInternal          = refusal.Internal
	CodePendingSignature  = refusal.PendingSignature // a state, answered with success: the step waits for an operator
)
