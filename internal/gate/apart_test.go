package gate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// Accounts of the crew: alice works as 1000, which is hub's, and bob as 1001.
var crew = policy.People{"alice": {{UID: 1000}, {UID: 2000}}, "bob": {{UID: 1001}}}

func apart(threshold int) policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: threshold, Apart: true}
}

// knownPeople is people under a rule that takes no requester's signature.
func knownPeople(t *testing.T, threshold int) *world {
	w := people(t)
	p := w.gate.Policy()
	p.People = crew
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	w.setRules(apart(threshold))
	return w
}

func as(uid uint32) op.Requester { return op.Requester{Source: op.SourceAPI, UID: uid, PID: 7} }

func TestNoRequesterApproves(t *testing.T) {
	w := knownPeople(t, 1)
	r := w.request(ask("guest.destroy", "g"))
	require.Equal(t, map[op.Role][]string{op.Operational: {"bob"}}, r.Could)
	must.Fail(w.approveAs(r, op.Operational, alice))(t, refusal.NotAllowed)
	require.Contains(t, w.lastRefusal().Detail, "alice asked for this as uid:1000")
	must.Fail(w.approveAs(r, op.Operational, bob, alice))(t, refusal.NotAllowed, "one signature that does not count spoils the envelope")
	require.Empty(t, must.Get(w.gate.Request(w.ctx, r.ID))(t).Signatures)
	r = must.Get(w.approveAs(r, op.Operational, bob))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	w.run()
	require.False(t, w.back.has("g"))
	w.verifyLog()
}

func TestAnAccountThatIsNotNamedAsks(t *testing.T) {
	w := knownPeople(t, 1)
	j := w.submitAs(as(1005), ask("guest.destroy", "g"))
	r := w.requestOf(j, 1)
	require.Empty(t, r.Could[op.Operational])
	must.Fail(w.approveAs(r, op.Operational, alice))(t, refusal.NotAllowed)
	require.Contains(t, w.lastRefusal().Detail, "not known which other person")
	// bob's wish is another person's, so alice may sign it, and bob may not.
	w.submitAs(as(1001), ask("guest.destroy", "g"))
	must.Fail(w.approveAs(r, op.Operational, bob))(t, refusal.NotAllowed)
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
}

// A person signs another's wish, and then asks for the same: two unsigned steps do not make one of them both.
func TestASignersLaterWishEndsTheSignature(t *testing.T) {
	w := knownPeople(t, 2)
	j := w.submitAs(as(1005), ask("guest.destroy", "g"))
	w.submitAs(as(1001), ask("guest.destroy", "g"))
	r := must.Get(w.approveAs(w.requestOf(j, 1), op.Operational, alice))(t)
	require.Equal(t, 1, r.Missing())
	w.submitAs(as(2000), ask("guest.destroy", "g")) // alice's agent
	require.Equal(t, 2, must.Get(w.gate.Request(w.ctx, r.ID))(t).Missing())
	// The only other person withdraws, and what is left is of an account that is not named.
	must.Get(w.gate.Cancel(w.ctx, as(2000), j.ID))(t)
	require.Equal(t, 1, must.Get(w.gate.Request(w.ctx, r.ID))(t).Missing())
	must.Get(w.gate.Cancel(w.ctx, as(1001), j.ID))(t)
	require.Equal(t, 2, must.Get(w.gate.Request(w.ctx, r.ID))(t).Missing())
}

func TestARuleForOtherPeopleHoldsForWhatWasApproved(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: time.Minute})
	r := w.request(ask("guest.destroy", "g"))
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	w.setRules(apart(1))
	w.Pass(time.Minute)
	w.run()
	require.True(t, w.back.has("g"), "without a map, no signature is of another person")
	require.Equal(t, op.StateRefused, must.Get(w.gate.Request(w.ctx, r.ID))(t).Step.State)
}

func TestAnOperationSignedBeforeHasNoRequester(t *testing.T) {
	w := knownPeople(t, 1)
	fresh := w.payload(ask("guest.destroy", "g"))
	must.Fail(w.gate.ApproveOffline(w.ctx, as(1001), w.signedBy(fresh, op.Operational, alice)))(t, refusal.NotAllowed)
	must.Fail(w.gate.ApproveOffline(w.ctx, op.Requester{Source: op.SourceHub, Set: "hub"}, w.signedBy(fresh, op.Operational, alice)))(t, refusal.NotAllowed)
}

func TestARequesterMayReject(t *testing.T) {
	w := knownPeople(t, 1)
	r := w.request(ask("guest.destroy", "g"))
	w.mustReject(r)
	require.Equal(t, op.StateRejected, must.Get(w.gate.Request(w.ctx, r.ID))(t).Step.State)
}

// Operators put desired state, so who edits it may be who signs. It is of no person until another one asks for the same.
func TestDesiredStateIsOfNoPerson(t *testing.T) {
	w := knownPeople(t, 1)
	r := w.requestOf(must.Get(w.gate.Want(w.ctx, "web", ask("guest.destroy", "g")))(t), 1)
	require.Empty(t, r.Could[op.Operational])
	must.Fail(w.approveAs(r, op.Operational, alice))(t, refusal.NotAllowed)
	w.submitAs(as(1001), ask("guest.destroy", "g"))
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
}

// Who handed in a signed payload asked for it, also if another person asks for the same later. An account has one row in a
// job, so asking once more on the socket does not say so.
func TestWhoHandedInASignedPayloadAsked(t *testing.T) {
	w := people(t, two())
	r := must.Get(w.gate.ApproveOffline(w.ctx, as(1000), w.signedBy(w.payload(ask("guest.destroy", "g")), op.Operational, alice)))(t)
	require.Equal(t, 1, r.Missing())
	p := w.gate.Policy()
	p.People, p.Rules = crew, []policy.Rule{apart(1)}
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	w.submitAs(as(1000), ask("guest.destroy", "g"))
	w.submitAs(as(1001), ask("guest.destroy", "g"))
	r = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Len(t, r.Requesters, 2)
	require.Equal(t, 2, r.Missing(), "alice's signature counts no more")
	require.Empty(t, r.Could[op.Operational], "each of the two asked")
}
