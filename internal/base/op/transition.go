package op

import (
	"slices"

	"gated/internal/base/refusal"
)

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
		"the target is another one, or its set asks for something else"},
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
