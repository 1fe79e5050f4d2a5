package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/incident"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// greta and hans hold keys for break-glass alone.
var greta, hans = newKey("greta"), newKey("hans")

// withIncidents looks at the target of incidents too.
type withIncidents struct {
	op.Observer
	gate func() *gate.Gate
}

func (o withIncidents) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	switch l.Target {
	case op.Incidents:
		return incident.New(o.gate()).Observe(ctx, l)
	case op.Drilled:
		return drilled, nil
	}
	return o.Observer.Observe(ctx, l)
}

// afterQuarter is the way without operators: one signature, and a quarter of an hour.
func afterQuarter() *policy.BreakGlass {
	return &policy.BreakGlass{Where: "gated.yaml:9", Ops: []string{"guest.destroy", "guest.wipe"}, Threshold: 1, Delay: 15 * time.Minute, AtMost: 2}
}

// breakGlassWorld is a world with break-glass, the guests g, h and i, and the operators alice and bob.
func breakGlassWorld(t *testing.T, b *policy.BreakGlass, rules ...policy.Rule) *world {
	t.Helper()
	t.Parallel()
	back := newBackend()
	var w *world
	w = newWorldOn(t, withIncidents{back, func() *gate.Gate { return w.gate }})
	w.back = back
	for _, name := range []string{"g", "h", "i"} {
		back.put(name)
	}
	w.setTrust(string(w.trust.Text()) + bob.line("operational@gated") + mona.line("manager@gated") + greta.line("breakglass@gated") + hans.line("breakglass@gated"))
	w.setBreakGlass(b, rules...)
	return w
}

func (w *world) setBreakGlass(b *policy.BreakGlass, rules ...policy.Rule) {
	w.t.Helper()
	p := w.gate.Policy()
	p.Roles, p.Rules, p.BreakGlass = []op.Role{"manager"}, rules, b
	require.NoError(w.t, w.gate.Reload(w.ctx, nil, p))
}

// broken is a destroy that greta approved.
func (w *world) broken(guest string) op.Request {
	w.t.Helper()
	return must.Get(w.approveAs(w.request(ask("guest.destroy", guest)), op.BreakGlass, greta))(w.t)
}

// submitBy is Submit without a reason.
func (w *world) submitBy(by op.Requester, asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks})
}

func (w *world) incidentsNow() (ended, underWay int) {
	w.t.Helper()
	in := must.Get(w.gate.Incidents(w.ctx))(w.t)
	return len(in.Ended), len(in.UnderWay)
}

var review = op.Ask{Op: op.Review, Target: op.Incidents}

// reviewed signs a review as alice, and runs it as reconcile would.
func (w *world) reviewed() op.Step {
	w.t.Helper()
	r := w.requestOf(w.submitAs(root, review), 1)
	must.Get(w.approve(r))(w.t)
	return w.runReview(r.ID)
}

func (w *world) runReview(id op.StepID) op.Step {
	w.t.Helper()
	d := incident.New(w.gate)
	p := must.Get(w.gate.Permit(w.ctx, id))(w.t)
	result, err := driver.Run(w.ctx, p, d)
	after := must.Get(d.Observe(w.ctx, op.At(op.Incidents)))(w.t)
	return must.Get(w.gate.Record(w.ctx, id, gate.Outcome{Err: err, Detail: result.Detail, After: &after}))(w.t)
}

func TestBreakGlassWaitsAndOpensAnIncident(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter(), two())
	r := w.broken("g")
	require.Equal(t, op.StateAuthorized, r.Step.State, "one signature, although the rule wants two operators")
	w.run()
	require.True(t, w.back.has("g"), "the delay is not over")
	w.Pass(15*time.Minute - time.Second)
	w.run()
	require.True(t, w.back.has("g"))
	ended, underWay := w.incidentsNow()
	require.Equal(t, []int{0, 1}, []int{ended, underWay})
	must.Fail(w.submitBy(root, review))(t, refusal.Conflict)

	w.Pass(time.Second)
	w.run()
	require.False(t, w.back.has("g"))
	ended, underWay = w.incidentsNow()
	require.Equal(t, []int{1, 0}, []int{ended, underWay})

	s := w.reviewed()
	require.Equal(t, op.StateSucceeded, s.State)
	ended, underWay = w.incidentsNow()
	require.Zero(t, ended+underWay)
	must.Fail(w.submitBy(root, review))(t, refusal.Conflict)
	var closed []string
	for _, e := range must.Get(w.gate.Events(w.ctx, 0, 1000))(t) {
		if e.Kind == audit.Reviewed {
			closed = append(closed, e.Incidents...)
		}
	}
	require.Equal(t, []string{r.ID.String()}, closed)
	w.verifyLog()
}

func TestAnyOperatorStopsBreakGlass(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter(), two())
	r := w.broken("g")
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, bob)))(t)
	w.Pass(time.Hour)
	w.run()
	require.True(t, w.back.has("g"))
	ended, _ := w.incidentsNow()
	require.Equal(t, 1, ended, "the key was used, and an operator looks at that")
	require.Equal(t, op.StateSucceeded, w.reviewed().State)
	require.True(t, w.back.has("g"))
}

// TestBreakGlassIsOnlyWhatItIsFor: no list of operations, no way; never for signers, reviews or what was signed before.
func TestBreakGlassIsOnlyWhatItIsFor(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter())
	restore := w.request(ask("guest.set-config", "g", "command", "web"))
	must.Fail(w.approveAs(restore, op.BreakGlass, greta))(t, refusal.RoleDenied)

	w.setBreakGlass(nil)
	r := w.request(ask("guest.destroy", "g"))
	must.Fail(w.approveAs(r, op.BreakGlass, greta))(t, refusal.RoleDenied)
	w.setBreakGlass(afterQuarter())
	must.Fail(w.approveAs(r, op.BreakGlass, greta))(t, refusal.RoleDenied)

	w.broken("h")
	w.Pass(15 * time.Minute)
	w.run()
	rv := w.requestOf(w.submitAs(root, review), 1)
	must.Fail(w.approveAs(rv, op.BreakGlass, greta))(t, refusal.RoleDenied)
	must.Fail(w.approveAs(rv, op.Coordination, carol))(t, refusal.RoleDenied)
	must.Fail(w.approveAs(rv, op.Recovery, rita))(t, refusal.RoleDenied)
	must.Fail(w.submitBy(hub, review))(t, refusal.NotAllowed)
	must.Fail(w.submitBy(root, review, ask("guest.stop", "i")))(t, refusal.BadParams)
}

// TestBreakGlassThreeTimesInAMinute: the third has to wait for a review of the first two.
func TestBreakGlassThreeTimesInAMinute(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter())
	w.broken("g")
	w.broken("h")
	third := w.request(ask("guest.destroy", "i"))
	must.Fail(w.approveAs(third, op.BreakGlass, greta))(t, refusal.OverLimit)
	must.Fail(w.approveAs(third, op.BreakGlass, hans))(t, refusal.OverLimit)
	require.Equal(t, op.StatePending, must.Get(w.gate.Request(w.ctx, third.ID))(t).Step.State)
	w.Pass(15 * time.Minute)
	w.run()
	must.Fail(w.approveAs(third, op.BreakGlass, greta))(t, refusal.OverLimit)
	require.Equal(t, op.StateSucceeded, w.reviewed().State)
	require.Equal(t, op.StateAuthorized, must.Get(w.approveAs(third, op.BreakGlass, greta))(t).Step.State)
}

// TestAReviewIsOfWhatWasShown: an incident that ends after the look is not closed with the others.
func TestAReviewIsOfWhatWasShown(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter())
	w.broken("g")
	w.Pass(15 * time.Minute)
	w.run()
	r := w.requestOf(w.submitAs(root, review), 1)
	second := w.broken("h")
	must.Get(w.approve(r))(t) // the second has not ended: it is not in what was signed
	must.Get(w.gate.Reject(w.ctx, hub, second.ID, w.rejection(second, bob)))(t)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	_, err := driver.Run(w.ctx, p, incident.New(w.gate))
	require.ErrorIs(t, err, refusal.StaleTarget)
	ended, _ := w.incidentsNow()
	require.Equal(t, 2, ended)
	require.ErrorIs(t, w.gate.Review(w.ctx, p), refusal.NotAllowed, "a permit that was refused closes nothing")
	require.ErrorIs(t, w.gate.Review(w.ctx, gate.Permit{}), refusal.NotAllowed)
}

// TestAPolicyTightensBreakGlassWhileItWaits: what is gone from gated.yaml no longer counts, and the longer delay holds.
func TestAPolicyTightensBreakGlassWhileItWaits(t *testing.T) {
	longer, shorter := afterQuarter(), afterQuarter()
	longer.Delay, shorter.Delay = time.Hour, time.Minute
	for name, c := range map[string]struct {
		then  *policy.BreakGlass
		after time.Duration
	}{
		"a longer delay":                   {longer, 15 * time.Minute},
		"a shorter delay does not shorten": {shorter, time.Minute},
		"no break-glass":                   {nil, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := breakGlassWorld(t, afterQuarter())
			r := w.broken("g")
			w.setBreakGlass(c.then)
			w.Pass(c.after)
			w.run()
			require.True(t, w.back.has("g"))
			if c.then == nil {
				require.Equal(t, op.StateRefused, must.Get(w.gate.Request(w.ctx, r.ID))(t).Step.State)
			}
		})
	}
}

// TestATouchIsAskedOfBreakGlassToo: rules about keys hold, rules about people do not.
func TestATouchIsAskedOfBreakGlassToo(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter(), policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Role: "manager", Threshold: 2, Touch: op.TouchPresent})
	r := w.request(ask("guest.destroy", "g"))
	must.Fail(w.approveAs(r, op.BreakGlass, greta))(t, refusal.TouchRequired)
}

// TestRevokedBreakGlassDoesNotRun: as of every signature, what was revoked during the delay counts no more.
func TestRevokedBreakGlassDoesNotRun(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter())
	r := w.broken("g")
	w.setTrust(alice.line("operational@gated") + hans.line("breakglass@gated"))
	w.Pass(15 * time.Minute)
	w.run()
	require.True(t, w.back.has("g"))
	require.Equal(t, op.StateRefused, must.Get(w.gate.Request(w.ctx, r.ID))(t).Step.State)
}

// TestOperatorsAndBreakGlassDoNotAddUp: whatever keys sign, in whatever order, a step of two operators runs at once only by
// two operators, and after the delay only if as many signed as break-glass asks for.
func TestOperatorsAndBreakGlassDoNotAddUp(t *testing.T) {
	b := afterQuarter()
	b.Threshold, b.AtMost = 2, policy.MaxIncidents
	w := breakGlassWorld(t, b, two())
	rapid.Check(t, func(rt *rapid.T) {
		w.back.put("g")
		r := w.request(ask("guest.destroy", "g"))
		operators, others := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 4).Draw(rt, "signatures") {
			who := rapid.SampledFrom([]key{alice, bob, greta, hans}).Draw(rt, "who")
			role := op.Operational
			if who.name == greta.name || who.name == hans.name {
				role = op.BreakGlass
				others[who.name] = true
			} else {
				operators[who.name] = true
			}
			got, err := w.approveAs(r, role, who)
			if err == nil {
				r = got
			}
			if r.Step.State != op.StatePending {
				break
			}
		}
		met := len(operators) == 2 || len(others) == 2
		require.Equal(rt, met, r.Step.State == op.StateAuthorized)
		w.run()
		require.Equal(rt, len(operators) == 2 && len(others) == 0, !w.back.has("g"), "%v %v", operators, others)
		if met && w.back.has("g") {
			w.Pass(15 * time.Minute)
			w.run()
			require.False(rt, w.back.has("g"))
		}
		if !met {
			must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, bob)))(rt)
			w.Pass(2 * time.Hour) // the wish may be asked again
		}
		if ended, _ := w.incidentsNow(); ended > 0 {
			require.Equal(rt, op.StateSucceeded, w.reviewed().State)
		}
	})
}

// TestADrillRehearsesBreakGlass: it waits and opens an incident as the operation would.
func TestADrillRehearsesBreakGlass(t *testing.T) {
	w := breakGlassWorld(t, afterQuarter(), two())
	r := must.Get(w.approveAs(w.drill("guest.destroy", "guest/g"), op.BreakGlass, greta))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	d := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.ErrorIs(t, d.Use(w.ctx, drilled), refusal.Unavailable)
	w.Pass(15 * time.Minute)
	require.Equal(t, op.StateSucceeded, w.runDrill(r.ID).State)
	require.Equal(t, op.StateSucceeded, w.reviewed().State)
}

// TestALateBreakGlassThatNoNewPayloadHelpsKeepsTheOthersSignatures: whoever has such a key cannot have operators sign again for nothing.
func TestALateBreakGlassThatNoNewPayloadHelpsKeepsTheOthersSignatures(t *testing.T) {
	b := afterQuarter()
	b.Delay = 50 * time.Minute
	rule, window := two(), must.Get(op.ParseWindow("12:30-13:00Z"))(t)
	rule.MaxValidity, rule.Window = time.Hour, &window
	w := breakGlassWorld(t, b, rule)
	r := must.Get(w.approveAs(w.request(ask("guest.destroy", "g")), op.Operational, alice))(t)
	require.Equal(t, 1, r.Missing())
	w.Pass(20 * time.Minute)
	must.Fail(w.approveAs(r, op.BreakGlass, greta))(t, refusal.Expired) // its wait ends after the window, as with a new payload
	now := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Equal(t, r.Payload, now.Payload)
	require.Equal(t, 1, now.Missing(), "alice need not sign again")
	require.Equal(t, op.StateAuthorized, must.Get(w.approveAs(r, op.Operational, bob))(t).Step.State)
}
