package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func slow() policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 20 * time.Hour}
}

// A job whose destroy cools off has made nothing by then. So nothing that people
// came to use can be taken back unsigned.
func TestAJobWaitsForWhatCoolsOff(t *testing.T) {
	w := people(t, slow())
	w.back.put("h")
	j := w.mustSubmit(ask("guest.create", "x"), ask("guest.destroy", "g"))
	r := must.Get(w.gate.Request(w.ctx, j.Steps[1].ID))(t)
	must.Get(w.approve(r))(t)
	w.run()
	require.False(t, w.back.has("x"), "nothing of it is done while it can be stopped")
	p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
	must.Fail(w.back.execute(w.ctx, p))(t, refusal.Unavailable)

	w.Pass(20 * time.Hour)
	w.wakes("x")
	require.NoError(t, w.gate.Tick(w.ctx))
	require.True(t, w.wakes("x"), "the first step is on another target than the one that cooled off")
	w.run()
	require.True(t, w.back.has("x"))
	require.False(t, w.back.has("g"))
}

// If a step waits in the middle of a job, what the job made before stays for its
// users.
func TestAWaitingJobKeepsWhatItMade(t *testing.T) {
	w := people(t)
	j := w.mustSubmit(ask("guest.create", "x"), ask("guest.destroy", "g"))
	r := must.Get(w.gate.Request(w.ctx, j.Steps[1].ID))(t)
	must.Get(w.approve(r))(t)
	require.NoError(t, w.execute(j.Steps[0].ID))
	require.NoError(t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(nil), w.gate.Policy()))
	w.run()
	require.True(t, w.back.has("g") && w.back.has("x"))
	require.NoError(t, w.gate.Tick(w.ctx))

	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, bob)))(t, "it can be stopped all the same")
	w.run()
	require.True(t, w.back.has("x"), "others may use it by now")
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "its compensation asks")
}

func TestUnreadableRevocationsEndNoRotation(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	r, waits := w.request(rotate(2, nil, []string{bob.print()})), w.request(rotate(2, nil, []string{carol2.print()}))
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.NoError(t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(nil), w.gate.Policy()))
	o := must.Get(w.observer.Observe(w.ctx, op.At(signers)))(t)
	require.ErrorIs(t, p.Use(w.ctx, o), refusal.Unavailable)
	w.Pass(25 * time.Hour)
	require.NoError(t, w.gate.Tick(w.ctx))
	for id, state := range map[op.StepID]op.State{r.ID: op.StateAuthorized, waits.ID: op.StatePending} {
		require.Equal(t, state, must.Get(w.gate.Request(w.ctx, id))(t).Step.State, id)
	}
}

// carol2 is a second coordinator, so that one may go.
var carol2 = newKey("carol2")

func TestRotationsAreBounded(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	var many []string
	for range op.MaxLines + 1 {
		many = append(many, newKey("dave").line("operational@gated"))
	}
	must.Fail(w.submit(rotate(2, many, nil)))(t, refusal.BadParams)
	must.Fail(w.submit(rotate(2, []string{strings.Repeat("x", op.MaxPayload)}, nil)))(t, refusal.Oversized)
	for range 4 {
		w.request(rotate(2, []string{newKey("dave").line("operational@gated")}, nil))
	}
	must.Fail(w.submit(rotate(2, []string{newKey("dave").line("operational@gated")}, nil)))(t, refusal.OverLimit)
}

func TestASuccessorThatIsSoonOverIsNone(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	until := func(d time.Duration) string {
		return strings.Replace(newKey("dora").line("recovery@gated"), "namespaces", `valid-before="`+w.Now().Add(d).Format("20060102150405Z")+`",namespaces`, 1)
	}
	must.Fail(w.submit(rotate(2, []string{until(time.Minute)}, []string{rita.print()})))(t, refusal.BadParams)
	w.request(rotate(2, []string{until(48 * time.Hour)}, []string{rita.print()}))
}

// A person with two roles can still sign in the other role after signing in the
// first.
func TestAPersonWithTwoRolesSignsInTheOneThatIsNeeded(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Role: "manager", Threshold: 1})
	w.setTrust(alice.line("operational@gated") + bob.line("operational@gated") + mona.line("operational@gated,manager@gated"))
	r := w.request(ask("guest.destroy", "g"))
	must.Get(w.approveAs(r, op.Operational, mona))(t)
	r = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Equal(t, []string{"mona"}, r.Could["manager"])
	_, err := w.approveAs(r, "manager", mona)
	require.ErrorIs(t, err, refusal.ThresholdUnmet, "it would be no step forward: the operator would be missing then")
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	r = must.Get(w.approveAs(r, "manager", mona))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.Len(t, r.Signatures, 2)
	w.verifyLog()
}

func TestWhatPeopleSeeIsWhatCounts(t *testing.T) {
	w := people(t, two())
	r := w.request(ask("guest.destroy", "g"))
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	w.setTrust(bob.line("operational@gated") + newKey("alice").line("operational@gated"))
	r = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Empty(t, r.Signatures)
	require.Equal(t, 2, r.Missing())
	require.Equal(t, []string{"bob", "alice"}, r.Could[op.Operational])
}
