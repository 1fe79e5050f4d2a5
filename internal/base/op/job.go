package op

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/refusal"
)

// JobID is a short counter, written "j12".
type JobID int64

// String returns "j12".
func (id JobID) String() string { return "j" + strconv.FormatInt(int64(id), 10) }

// MarshalText writes "j12".
func (id JobID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseJobID parses "j12"; refusals are Malformed.
func ParseJobID(s string) (JobID, error) {
	digits, ok := strings.CutPrefix(s, "j")
	n, err := parseCounter(digits)
	if !ok || err != nil {
		return 0, refusal.New(refusal.Malformed, "%q is not a job id like j12", s)
	}
	return JobID(n), nil
}

// StepID is a job and the step's number in it, from 1, written "j12.1".
type StepID struct {
	Job   JobID
	Index int
}

// RequestID is the id of the step that the request is for.
type RequestID = StepID

// String returns "j12.1".
func (id StepID) String() string { return id.Job.String() + "." + strconv.Itoa(id.Index) }

// MarshalText writes "j12.1".
func (id StepID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses "j12.1".
func (id *StepID) UnmarshalText(b []byte) error {
	v, err := ParseStepID(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// ParseStepID parses "j12.1"; refusals are Malformed.
func ParseStepID(s string) (StepID, error) {
	job, index, ok := strings.Cut(s, ".")
	if !ok {
		return StepID{}, refusal.New(refusal.Malformed, "%q is not an id like j12.1", s)
	}
	j, err := ParseJobID(job)
	if err != nil {
		return StepID{}, refusal.New(refusal.Malformed, "%q is not an id like j12.1", s)
	}
	n, err := parseCounter(index)
	if err != nil || n > 1<<20 {
		return StepID{}, refusal.New(refusal.Malformed, "%q is not an id like j12.1", s)
	}
	return StepID{Job: j, Index: int(n)}, nil
}

// parseCounter reads a positive decimal without signs or leading zeros, so that each
// id has only one spelling.
func parseCounter(s string) (int64, error) {
	if s == "" || s[0] < '1' || s[0] > '9' || len(s) > 18 {
		return 0, refusal.Malformed
	}
	return strconv.ParseInt(s, 10, 64)
}

// State is a step's state (design section 6).
type State string

// String returns the state as callers read it.
func (s State) String() string { return string(s) }

// The step states. Planned, Pending, Authorized and Dispatched are open. A step
// never leaves the others.
const (
	StatePlanned     State = "planned"
	StatePending     State = "pending_signature"
	StateAuthorized  State = "authorized"
	StateDispatched  State = "dispatched"
	StateSucceeded   State = "succeeded"
	StateFailed      State = "failed"
	StateInterrupted State = "interrupted"
	StateRejected    State = "rejected"
	StateExpired     State = "expired"
	StateSuperseded  State = "superseded"
	StateCancelled   State = "cancelled"
	StateRefused     State = "refused"
)

// States lists every state.
var States = []State{StatePlanned, StatePending, StateAuthorized, StateDispatched, StateSucceeded, StateFailed,
	StateInterrupted, StateRejected, StateExpired, StateSuperseded, StateCancelled, StateRefused}

// Open reports whether a step in this state may still run or is running.
func (s State) Open() bool {
	return s == StatePlanned || s == StatePending || s == StateAuthorized || s == StateDispatched
}

// Source says how a wish reached the gate.
type Source string

// The sources.
const (
	SourceAPI     Source = "api"     // a job over the socket
	SourceDesired Source = "desired" // a difference that reconcile found
	SourceOffline Source = "offline" // a payload that was signed before the gate saw it
	SourceHub     Source = "hub"     // a signed payload that a hub relayed
	SourceGate    Source = "gate"    // the gate itself: compensation
)

// Requester is the party that asked. For callers on the socket, the kernel says
// which it is.
type Requester struct {
	Source Source
	UID    uint32 // of the peer; no meaning for SourceDesired, SourceHub and SourceGate
	PID    int32  // of the peer; 0 if there is none
	Agent  string // a registered agent, as in agent.Registration.Who: "builder#7"; empty for a bare uid
	Set    string // the desired set of SourceDesired, the hub's name of SourceHub, or the Member of a caller on a socket
}

// String names the requester without its pid, because a pid means nothing later:
// "uid:1000", "uid:1000@node2", "agent:builder#7", "desired:web", "hub:hub.example.com", "gate".
func (r Requester) String() string {
	switch {
	case r.Source == SourceDesired:
		return "desired:" + r.Set
	case r.Source == SourceHub:
		return "hub:" + r.Set
	case r.Source == SourceGate:
		return "gate"
	case r.Agent != "":
		return "agent:" + r.Agent
	default:
		return r.account()
	}
}

// Payer names the caller that a requester's work counts for. An agent is its uid,
// because a caller may choose a new name for its agent. The gate's own work counts for
// no caller.
func (r Requester) Payer() string {
	switch r.Source {
	case SourceGate:
		return ""
	case SourceAPI, SourceOffline:
		return r.account()
	default:
		return r.String()
	}
}

func (r Requester) account() string { return "uid:" + r.Account().String() }

// Account returns the uid of a caller on a socket, and the member on whose socket it called.
func (r Requester) Account() Account {
	if r.Source == SourceAPI || r.Source == SourceOffline {
		return Account{UID: r.UID, Member: r.Set}
	}
	return Account{UID: r.UID}
}

// Account is a uid on one host. Equal numbers on two hosts are two accounts.
type Account struct {
	UID    uint32
	Member string // of the gate, whose host it is; empty on a gate that has no callers of other members
}

// String returns "1000" or "1000@node2".
func (a Account) String() string {
	if a.Member == "" {
		return strconv.FormatUint(uint64(a.UID), 10)
	}
	return fmt.Sprintf("%d@%s", a.UID, a.Member)
}

// Lane returns a number for limits in memory that are kept by uid. Two accounts of members may share one, which makes them share a limit.
func (a Account) Lane() uint32 {
	if a.Member == "" {
		return a.UID
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.String()))
	return h.Sum32() | 1<<31 // few uids are so high
}

// ParseAccount reads what String returns.
func ParseAccount(s string) (Account, error) {
	number, member, at := strings.Cut(s, "@")
	uid, err := strconv.ParseUint(number, 10, 32)
	a := Account{UID: uint32(uid), Member: member}
	if err != nil || at && CheckName(member) != nil || a.String() != s {
		return Account{}, refusal.New(refusal.Malformed, "%q is neither a uid nor UID@MEMBER", Shown(s))
	}
	return a, nil
}

// Reason is what one requester said why it asks.
type Reason struct {
	By   string // Requester.String
	Text string // may be empty
}

// Rejected is how operators ended a request.
type Rejected struct {
	Request RequestID
	By      []string // the principals who signed it
	Words   string   // theirs
	At      time.Time
	AskedBy []string // the requesters of the request
}

// Ask is one step in a requester's words.
type Ask struct {
	Op     string
	Target Target
	Params Params
}

// Submission is what a requester submits.
type Submission struct {
	Requester Requester
	Reason    string
	Steps     []Ask

	// IdempotencyKey, if not empty, gives a repeat of the same submission by the
	// same requester the first answer.
	IdempotencyKey string
}

// Job is an ordered list of steps from one requester. Requesters who want the same
// single step share one job.
type Job struct {
	ID         JobID
	Requesters []Requester
	Reason     string   // the first requester's, which is signed
	Reasons    []Reason // of each requester, in the order of Requesters
	Steps      []Step
	CreatedAt  time.Time
	FinishedAt time.Time // zero while a step is open
}

// State returns the state of the first open step. If no step is open, it returns the
// state of the first step without success, or else succeeded.
func (j Job) State() State {
	for _, s := range j.Steps {
		if s.State.Open() {
			return s.State
		}
	}
	for _, s := range j.Steps {
		if s.State != StateSucceeded && s.Undoes == 0 {
			return s.State
		}
	}
	return StateSucceeded
}

// Step is one operation on one incarnation of one target.
type Step struct {
	ID          StepID
	Op          string
	Target      Target
	Incarnation Incarnation // empty for a create, and for a target that an earlier step of the job makes
	State       State
	Fingerprint Fingerprint // the target's, when the step was planned
	Params      Params
	Verdict     Verdict
	Birth       string       // for a create: the token that marks its work
	Undoes      int          // the index of the step that this one compensates, or 0
	Task        string       // the back end's task id, or ""
	Attempts    int          // how often a benign step was dispatched
	Before      []string     // what the row keeps of the look at the dispatch; nil: nothing, or the look did not have it
	Code        refusal.Code // why it ended, or ""
	Detail      string       // the sentence for Code, or what was done
	Output      string       // what it printed; read only with ReadShownJob
	// RetryAt is when the gate tries a delayed step again; Code and Detail say why.
	// It is set only for people, while the step could run and waits; else it is
	// zero.
	RetryAt   time.Time
	UpdatedAt time.Time
}

// Request is the one open question to operators that a destructive step has.
type Request struct {
	ID         RequestID
	Step       Step
	Requesters []Requester
	Reason     string   // the first requester's, as it is in the payload
	Reasons    []Reason // of each requester, in the order of Requesters
	Payload    []byte   // the exact bytes to sign
	Nonce      string
	Facts      []Fact
	FactsAt    time.Time         // when the target looked like this
	Labels     map[string]string // the target's labels in the look
	Need       Requirement
	Signatures []Signed // those that count, each of another person and key
	Proofs     []Signed // proofs that a holder has a key; they count for no demand
	// Could says which people could still sign in which role, and Owed which proofs
	// of possession are missing. Both are set only for people, while the request
	// waits.
	Could     map[Role][]string
	Owed      []string
	CreatedAt time.Time // of the request; the payload may be newer
	IssuedAt  time.Time
	ExpiresAt time.Time
	// AuthorizedAt is when the last needed signature counted, and zero before. A
	// cool-off begins then.
	AuthorizedAt time.Time
	Offline      bool // made from an operator's own payload
	// TimesRejected is how many other requests for the same wish operators rejected,
	// as far as the gate remembers. Rejections has the newest of them, newest first.
	TimesRejected int
	Rejections    []Rejected
}

// Missing returns how many more people have to sign.
func (r Request) Missing() int { return r.Need.Missing(r.Signatures) }

// Signed records one signature.
type Signed struct {
	Principal string
	Role      Role
	Key       string // SHA256 fingerprint of the underlying public key, certificate or not
	CA        string // SHA256 fingerprint of the CA key that signed the certificate; empty for a plain key
	Armor     string
	Attested  *Attested  // nil if the key is not a security key
	Batch     *Inclusion // the batch that was signed in place of the payload; nil if it was the payload
	At        time.Time
}

// String names the signer, the role, the key, what a security key attested, and the
// digest of a batch, as the audit log has it.
func (s Signed) String() string {
	out := s.Principal + " " + string(s.Role) + " " + s.Key
	if s.CA != "" {
		out += " ca=" + s.CA
	}
	if s.Attested != nil {
		out += fmt.Sprintf(" flags=0x%02x counter=%d", s.Attested.Flags, s.Attested.Counter)
	}
	if s.Batch != nil {
		out += " batch=" + SHA256(s.Batch.Batch)
	}
	return out
}

// Transition is one way in which a step's state changes. The gate makes no other
// changes. fsck matches them with entries of the audit log, and
// docs/design/states.md draws the table.
type Transition struct {
	Entry string  // kind of its entry in the audit log (docs/formats/audit.md)
	From  []State // "" is a step that the gate has just accepted
	To    State
	Nonce string       // the fate that the nonce of a waiting request gets, "issued", or "" if it stays unchanged
	Code  refusal.Code // the step's code afterwards; "" if a refusal or a back end's error has the code
	Why   string       // for people, a half sentence
}

var (
	asked   = []State{StatePending}
	decided = []State{StatePending, StateAuthorized}
	before  = []State{StatePlanned, StatePending, StateAuthorized}
	under   = []State{StateDispatched}
)

// Transitions is the state machine of a step (design section 6).
var Transitions = []Transition{
	{"planned", []State{""}, StatePlanned, "", "", "a step that needs no signature is asked for"},
	{"compensated", []State{""}, StatePlanned, "", "", "the gate takes back what a failed job did"},
	{"requested", []State{"", StatePlanned}, StatePending, "issued", refusal.PendingSignature,
		"a step needs a signature, also if that shows only when it is about to run"},
	{"reissued", asked, StatePending, "issued", "", "the target, the time or the gate's id made the payload another one; its old nonce is spent"},
	{"signed", asked, StatePending, "", "", "a signature counts, and more are needed"},
	{"approved", asked, StateAuthorized, "used", "", "enough signatures count"},
	{"rejected", decided, StateRejected, "rejected", refusal.Rejected, "an operator signed a rejection"},
	{"expired", decided, StateExpired, "expired", refusal.Expired,
		"an approval, or an operator's own payload, is too old"},
	{"superseded", before, StateSuperseded, "superseded", refusal.Superseded,
		"the target is another one, its set asks for something else, or others came in between what it takes back"},
	{"cancelled", before, StateCancelled, "cancelled", refusal.Cancelled,
		"its requesters withdrew it, or another step of its job did not succeed"},
	{"refused", before, StateRefused, "superseded", "", "the gate or the driver will not have it run"},
	{"dispatched", []State{StatePlanned, StateAuthorized}, StateDispatched, "", "", "a driver used the permit"},
	{"retried", under, StatePlanned, "", "", "a benign step met an error that may go away"},
	{"succeeded", under, StateSucceeded, "", "", "it was done, and a look does not contradict that"},
	{"failed", under, StateFailed, "", "", "it was not done"},
	{"interrupted", under, StateInterrupted, "", refusal.Unavailable, "it may have been done, and no look tells"},
}

// TransitionOf returns the transition of entries of that kind. For another kind it
// returns the zero transition, which no state allows.
func TransitionOf(entry string) Transition {
	i := slices.IndexFunc(Transitions, func(t Transition) bool { return t.Entry == entry })
	if i < 0 {
		return Transition{}
	}
	return Transitions[i]
}

// Allows reports whether a step in the state s may make the transition.
func (t Transition) Allows(s State) bool { return slices.Contains(t.From, s) }
