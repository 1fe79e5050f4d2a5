package gate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// withDrills looks at the target of drills too.
type withDrills struct{ op.Observer }

// drilled is the target of drills.
var drilled = op.Observed{Target: op.Drilled, Present: true, Incarnation: op.Incarnation(testGate), Fingerprint: op.FingerprintOf([]byte("drill"))}

func (o withDrills) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if l.Target == op.Drilled {
		return drilled, nil
	}
	return o.Observer.Observe(ctx, l)
}

// drillWorld is a world with drills, in which alice and bob are operators.
func drillWorld(t *testing.T, rules ...policy.Rule) *world {
	t.Helper()
	t.Parallel()
	back := newBackend()
	w := newWorldOn(t, withDrills{back})
	w.back = back
	back.put("g")
	w.setTrust(string(w.trust.Text()) + bob.line("operational@gated") + mona.line("manager@gated"))
	w.setRules(rules...)
	return w
}

func drillAsk(as, target string) op.Ask {
	p := op.Params{"as": as}
	if target != "" {
		p["target"] = target
	}
	return op.Ask{Op: op.Drill, Target: op.Drilled, Params: p}
}

// drill is the request of a drill that root asks for.
func (w *world) drill(as, target string) op.Request {
	w.t.Helper()
	return w.requestOf(w.submitAs(root, drillAsk(as, target)), 1)
}

// runDrill runs an authorized drill, as reconcile would, and returns its step.
func (w *world) runDrill(id op.StepID) op.Step {
	w.t.Helper()
	p := must.Get(w.gate.Permit(w.ctx, id))(w.t)
	require.NoError(w.t, p.Use(w.ctx, drilled))
	return must.Get(w.gate.Record(w.ctx, id, gate.Outcome{Detail: "nothing was changed", After: &drilled}))(w.t)
}

func (w *world) drillsRead() (d journal.Drills) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) { d, err = journal.ReadDrills(tx); return err }))
	return d
}

func TestADrillIsSignedAndChangesNothing(t *testing.T) {
	w := drillWorld(t, two())
	require.Equal(t, journal.Drills{}, w.drillsRead())
	r := w.drill("guest.destroy", "guest/g")
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, 2, r.Missing())
	require.Equal(t, map[op.Role][]string{op.Operational: {"alice", "bob"}}, r.Could)
	require.Equal(t, r.ID, w.drillsRead().Open.Step.ID)
	require.Zero(t, w.drillsRead().Open.Took())

	w.Pass(time.Minute)
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StatePending, r.Step.State)
	w.Pass(time.Minute)
	r = must.Get(w.approveAs(r, op.Operational, bob))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	w.Pass(time.Minute) // what comes after the last signature does not count
	s := w.runDrill(r.ID)
	require.Equal(t, op.StateSucceeded, s.State)
	require.Equal(t, "nothing was changed", s.Detail)
	require.True(t, w.back.has("g"))
	require.Empty(t, w.back.did())

	d := w.drillsRead()
	require.Nil(t, d.Open)
	require.Nil(t, d.Unanswered)
	require.Equal(t, 2*time.Minute, d.Signed.Took())
	require.Len(t, d.Signed.Signed, 2)
	require.Equal(t, "alice", d.Signed.Signed[0].Principal)
	require.Equal(t, []op.Requester{{Source: op.SourceAPI}}, d.Signed.Requesters)
	w.verifyLog()
}

// TestADrillAsksForWhatItRehearses: under any rules the requirement of a drill is that of
// the operation and the target that it rehearses.
func TestADrillAsksForWhatItRehearses(t *testing.T) {
	w := drillWorld(t)
	w.back.put("db-1")
	rapid.Check(t, func(rt *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) policy.Rule {
			return policy.Rule{Where: "f:1",
				Op:        rapid.SampledFrom([]string{"", "*", "guest.*", "guest.destroy", "guest.wipe"}).Draw(rt, "op"),
				Target:    rapid.SampledFrom([]string{"", "guest/*", "guest/db-*", "guest/g"}).Draw(rt, "target"),
				Role:      rapid.SampledFrom([]op.Role{"", op.Operational, "manager"}).Draw(rt, "role"),
				Threshold: rapid.IntRange(1, 3).Draw(rt, "threshold"),
				Touch:     rapid.SampledFrom([]op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified}).Draw(rt, "touch"),
				NoPasskey: rapid.Bool().Draw(rt, "no passkey"), Apart: rapid.Bool().Draw(rt, "apart"), Single: rapid.Bool().Draw(rt, "single"),
				CoolOff:     time.Duration(rapid.IntRange(0, 2).Draw(rt, "cool-off")) * time.Minute,
				MaxValidity: time.Duration(rapid.IntRange(0, 2).Draw(rt, "validity")) * time.Hour}
		}), 0, 4).Draw(rt, "rules")
		p := w.gate.Policy()
		if p.Rules, p.People = rules, crew; p.Validate() != nil {
			rt.Skip("rules that are refused")
		}
		require.NoError(t, w.gate.Reload(w.ctx, nil, p))
		name := rapid.SampledFrom([]string{"guest.destroy", "guest.wipe"}).Draw(rt, "name")
		target := rapid.SampledFrom([]string{"g", "db-1"}).Draw(rt, "target")
		real := w.requestOf(w.submitAs(root, ask(name, target)), 1)
		drill := w.drill(name, "guest/"+target)
		require.Equal(t, real.Need, drill.Need)
		require.Equal(t, real.Could, drill.Could)
		require.Equal(t, real.ExpiresAt.Sub(real.IssuedAt), drill.ExpiresAt.Sub(drill.IssuedAt))
		for _, r := range []op.Request{real, drill} {
			must.Get(w.gate.Cancel(w.ctx, root, r.ID.Job))(t)
		}
	})
}

func TestNoRuleIsAboutADrill(t *testing.T) {
	for _, r := range []policy.Rule{{Op: "drill.*"}, {Op: op.Drill}, {Target: "drill/*"}, {Signed: []string{"drill.sign"}}} {
		r.Where, r.Threshold = "f:1", 2
		p := policy.Default()
		p.Rules = []policy.Rule{r}
		require.ErrorIs(t, p.Validate(), refusal.BadParams, "%v", r)
	}
	w := drillWorld(t, policy.Rule{Where: "f:1", Op: "*", Target: "guest/db-*", Threshold: 2})
	r := w.drill("guest.destroy", "") // the rule is for some guests
	require.Equal(t, 1, r.Missing())
	must.Get(w.gate.Cancel(w.ctx, root, r.ID.Job))(t)
	require.Equal(t, 2, w.drill("guest.destroy", "guest/db-7").Missing(), "a guest that is not there is rehearsed too")
}

func TestTheRolesOfADrillAreThoseOfWhatItRehearses(t *testing.T) {
	w := drillWorld(t)
	r := w.drill(op.ReleaseAll, "scope/s1")
	require.ElementsMatch(t, []op.Role{op.Operational, op.Coordination}, r.Need.Roles())
	require.Equal(t, op.StateAuthorized, must.Get(w.approveAs(r, op.Coordination, carol))(t).Step.State)
	require.Equal(t, op.StateSucceeded, w.runDrill(r.ID).State)
	r = w.drill("guest.destroy", "guest/g")
	must.Fail(w.approveAs(r, op.Coordination, carol))(t, refusal.RoleDenied)
	must.Fail(w.approveAs(r, op.Recovery, rita))(t, refusal.RoleDenied)
}

func TestWhoAsksForADrillAndForWhich(t *testing.T) {
	w := drillWorld(t)
	submit := func(by op.Requester, asks ...op.Ask) error {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks})
		return err
	}
	good := drillAsk("guest.destroy", "guest/g")
	agent := root
	agent.Agent = "builder#1"
	for _, by := range []op.Requester{hub, agent} {
		require.ErrorIs(t, submit(by, good), refusal.NotAllowed)
		_, _, err := w.gate.Explain(w.ctx, by, good)
		require.ErrorIs(t, err, refusal.NotAllowed)
	}
	must.Fail(w.gate.Want(w.ctx, "web", good))(t, refusal.NotAllowed)
	for _, bad := range []op.Ask{drillAsk(op.Rotate, "trust/signers"), drillAsk(op.Rotate, ""), drillAsk(op.Drill, ""), drillAsk("guest.fly", ""),
		drillAsk("", ""), drillAsk("guest.destroy", "scope/s1"), {Op: op.Drill, Target: op.Drilled, Params: op.Params{}},
		{Op: op.Drill, Target: op.Target{Kind: op.KindDrill, Name: "others"}, Params: good.Params},
		{Op: op.Drill, Target: op.Drilled, Params: op.Params{"as": "guest.destroy", "labels": map[string]any{}}}} {
		require.ErrorIs(t, submit(root, bad), refusal.BadParams, "%v", bad)
	}
	require.ErrorIs(t, submit(root, drillAsk("guest.destroy", "guest/../x")), refusal.Malformed)
	require.ErrorIs(t, submit(root, good, ask("guest.destroy", "g")), refusal.BadParams)
	require.ErrorIs(t, submit(root, good, good), refusal.BadParams)

	r := w.drill("guest.destroy", "guest/g")
	require.Equal(t, r.ID, w.drill("guest.destroy", "guest/g").ID, "the same drill is the open one")
	require.ErrorIs(t, submit(root, drillAsk("guest.wipe", "guest/g")), refusal.OverLimit)
	require.ErrorIs(t, submit(daemon, drillAsk("guest.destroy", "")), refusal.OverLimit)
	must.Get(w.gate.Cancel(w.ctx, root, r.ID.Job))(t)
	require.NoError(t, submit(daemon, drillAsk("guest.wipe", "guest/g")))
}

// TestASignedDrillIsNothingElse: its bytes count for no other request, and those of a real
// step count for no drill.
func TestASignedDrillIsNothingElse(t *testing.T) {
	w := drillWorld(t)
	real, drill := w.request(ask("guest.destroy", "g")), w.drill("guest.destroy", "guest/g")
	must.Fail(w.gate.Approve(w.ctx, hub, real.ID, alice.envelope(t, drill.Payload)))(t, refusal.BindingMismatch)
	must.Fail(w.gate.Approve(w.ctx, hub, drill.ID, alice.envelope(t, real.Payload)))(t, refusal.BindingMismatch)
	p := must.Get(op.DecodePayload(drill.Payload))(t)
	require.Equal(t, op.Drill, p.Op)
	require.Equal(t, op.Drilled, p.Target)
	p.Nonce = op.NewNonce(w.Now())
	must.Fail(w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, must.Get(p.Encode())(t))))(t, refusal.NotAllowed)
	must.Fail(w.gate.ApproveOffline(w.ctx, op.Requester{Source: op.SourceHub, Set: "hub"}, alice.envelope(t, must.Get(p.Encode())(t))))(t, refusal.NotAllowed)
	require.True(t, w.back.has("g"))
}

// TestADrillThatNobodyAnswersEnds: the gate issues no new payload for it.
func TestADrillThatNobodyAnswersEnds(t *testing.T) {
	w := drillWorld(t, two())
	r := w.drill("guest.destroy", "guest/g")
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	w.Pass(r.ExpiresAt.Sub(w.Now()) + gate.Skew + time.Second)
	require.NoError(t, w.gate.Tick(w.ctx))
	s := must.Get(w.gate.Request(w.ctx, r.ID))(t).Step
	require.Equal(t, op.StateExpired, s.State)
	require.Equal(t, "too few people signed in time", s.Detail)
	d := w.drillsRead()
	require.Nil(t, d.Open)
	require.Nil(t, d.Signed)
	require.Equal(t, r.ID, d.Unanswered.Step.ID)
	require.True(t, slices.Contains(w.kinds(), audit.Expired))
	must.Fail(w.approveAs(r, op.Operational, bob))(t, refusal.Expired)

	// A later one that is rejected is the newest.
	r = w.drill("guest.destroy", "guest/g")
	w.mustReject(r)
	require.Equal(t, r.ID, w.drillsRead().Unanswered.Step.ID)
	require.Equal(t, op.StateRejected, w.drillsRead().Unanswered.Step.State)
	w.verifyLog()
}

// TestADrillCoolsOff: the time until the last signature counts, and an operator may still
// stop it.
func TestADrillCoolsOff(t *testing.T) {
	slow := policy.Rule{Where: "f:1", Op: "guest.destroy", Threshold: 1, CoolOff: time.Hour}
	w := drillWorld(t, slow)
	r := w.drill("guest.destroy", "guest/g")
	w.Pass(time.Minute)
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.Equal(t, time.Minute, w.drillsRead().Open.Took())
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.ErrorIs(t, p.Use(w.ctx, drilled), refusal.Unavailable)
	w.Pass(time.Hour)
	require.Equal(t, op.StateSucceeded, w.runDrill(r.ID).State)
	require.Equal(t, time.Minute, w.drillsRead().Signed.Took())
}
