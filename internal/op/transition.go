package op

import "slices"

// Transition is one way in which a step's state changes. The gate makes no other
// changes, fsck finds entries of the audit log that tell of one, and
// docs/design/states.md draws the table.
type Transition struct {
	Entry string  // kind of the entry of the audit log that tells of it (docs/formats/audit.md)
	From  []State // "" is a step that the gate has just taken in
	To    State
	Nonce string // what becomes of the nonce of a request that waits: its fate, "issued", or "" if it stays as it is
	Code  Code   // the step's code afterwards; "" if a refusal, or a back end's error, says it
	Why   string // for people, a half sentence
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
	{"requested", []State{"", StatePlanned}, StatePending, "issued", PendingSignature, "a step needs a signature, also if that shows only when it is about to run"},
	{"reissued", asked, StatePending, "issued", "", "the target, the time or the gate's id made the payload another one; its old nonce is spent"},
	{"signed", asked, StatePending, "", "", "a signature counts, and more are needed"},
	{"approved", asked, StateAuthorized, "used", "", "enough signatures count"},
	{"rejected", decided, StateRejected, "rejected", Rejected, "an operator signed a rejection"},
	{"expired", decided, StateExpired, "expired", Expired, "an approval, or an operator's own payload, is too old"},
	{"superseded", before, StateSuperseded, "superseded", Superseded, "the target is another one, or its set asks for something else"},
	{"cancelled", before, StateCancelled, "cancelled", Cancelled, "its requesters withdrew it, or another step of its job did not succeed"},
	{"refused", before, StateRefused, "superseded", "", "the gate or the driver will not have it run"},
	{"dispatched", []State{StatePlanned, StateAuthorized}, StateDispatched, "", "", "a driver used the permit"},
	{"retried", under, StatePlanned, "", "", "a benign step met an error that may go away"},
	{"succeeded", under, StateSucceeded, "", "", "it was done, and a look does not contradict that"},
	{"failed", under, StateFailed, "", "", "it was not done"},
	{"interrupted", under, StateInterrupted, "", Unavailable, "it may have been done, and no look tells"},
}

// TransitionOf returns the transition of which entries of that kind tell. For
// another kind it returns the zero transition, which no state allows.
func TransitionOf(entry string) Transition {
	i := slices.IndexFunc(Transitions, func(t Transition) bool { return t.Entry == entry })
	if i < 0 {
		return Transition{}
	}
	return Transitions[i]
}

// Allows reports whether a step in the state s may change so.
func (t Transition) Allows(s State) bool { return slices.Contains(t.From, s) }
