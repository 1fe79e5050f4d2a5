package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// stops is the rule that wants stop and restart of production signed.
func stops() policy.Rule {
	return policy.Rule{Where: "gated.yaml:12", Labels: map[string]string{"tier": "prod"}, Signed: []string{"guest.stop", "guest.restart"}, Threshold: 1}
}

// production is a world with that rule, a running guest of production and a running
// guest without the label.
func production(t *testing.T, rules ...policy.Rule) *world {
	w := newWorld(t, "prod", "test")
	w.setRules(rules...)
	w.back.change("prod", func(o *op.Observed) { o.Spec = op.Params{"labels": map[string]any{"tier": "prod"}} })
	w.mustSubmit(ask("guest.start", "prod"))
	w.mustSubmit(ask("guest.start", "test"))
	w.run()
	return w
}

func (w *world) running(name string) bool { return w.back.get(name).Running == op.Running }

func TestARuleHasAStopSigned(t *testing.T) {
	w := production(t, stops())
	require.Equal(t, op.StatePlanned, w.mustSubmit(ask("guest.stop", "test")).State())
	r := w.request(ask("guest.stop", "prod"))
	require.Equal(t, op.Verdict{Class: op.Destructive, Rule: op.SignedByRule,
		Why: "asked for by rule gated.yaml:12; without it the step would run: the guest's state survives it"}, r.Step.Verdict)
	w.run()
	require.False(t, w.running("test"))
	require.True(t, w.running("prod"))
	j := must.Get(w.submit(ask("guest.stop", "prod")))(t)
	require.Equal(t, r.ID.Job, j.ID, "the same wish is the same request")
	w.mustApprove(r)
	w.run()
	require.False(t, w.running("prod"))
	require.Equal(t, []op.State{op.StateSucceeded}, w.states(r.ID.Job))
	must.Fail(w.approve(r))(t, refusal.Replayed)
	w.verifyLog()
}

// TestARuleIsAskedAgainAtTheDispatch: a step that was benign when it was planned waits
// if the rule matches when it would run.
func TestARuleIsAskedAgainAtTheDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		before []policy.Rule
		target string
		then   func(w *world)
	}{
		"the policy was read again": {nil, "prod", func(w *world) { w.setRules(stops()) }},
		"the guest got the label": {[]policy.Rule{stops()}, "test", func(w *world) {
			w.back.change("test", func(o *op.Observed) { o.Spec = op.Params{"labels": map[string]any{"tier": "prod"}} })
		}},
		"the daemon began with another policy": {nil, "prod", func(w *world) { w.restart(); w.setRules(stops()) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := production(t, c.before...)
			j := w.mustSubmit(ask("guest.stop", c.target))
			require.Equal(t, op.StatePlanned, j.State())
			c.then(w)
			require.ErrorIs(t, w.execute(j.Steps[0].ID), refusal.PendingSignature)
			w.run()
			require.True(t, w.running(c.target))
			r := w.requestOf(j, 1)
			require.Equal(t, op.SignedByRule, r.Step.Verdict.Rule)
			w.setRules() // a step that asked for a signature goes on asking
			w.run()
			require.True(t, w.running(c.target))
			w.mustApprove(r)
			w.run()
			require.False(t, w.running(c.target))
		})
	}
}

// TestNoSequenceAroundARule: no steps that run unsigned take the label away, or stop
// the guest in another way.
func TestNoSequenceAroundARule(t *testing.T) {
	rule := stops()
	w := production(t, rule)
	unsigned := func(asks ...op.Ask) {
		t.Helper()
		_, err := w.submit(asks...)
		require.True(t, err == nil || errors.Is(err, refusal.Conflict), err)
		w.run()
		require.True(t, w.running("prod"), "%v", asks)
		require.Equal(t, map[string]string{"tier": "prod"}, w.back.get("prod").Labels, "%v", asks)
	}
	for _, labels := range []map[string]any{{}, {"tier": "test"}, {"tier": ""}, {"site": "x"}} {
		unsigned(ask("guest.set-config", "prod", "labels", labels))
		unsigned(ask("guest.set-config", "prod", "labels", labels), ask("guest.stop", "prod"))
		unsigned(ask("guest.set-config", "prod", "labels", labels, "memory", int64(8)), ask("guest.restart", "prod"))
	}
	unsigned(ask("guest.restart", "prod"))
	unsigned(ask("guest.start", "prod"), ask("guest.stop", "prod"))
	unsigned(ask("guest.snapshot", "prod", "snapshot", "s"), ask("guest.stop", "prod"))
	// The gate does not stop what ran before to take a start back.
	w.back.fail = func(s op.Step) error {
		if s.Op == "guest.snapshot" {
			return errors.New("broken")
		}
		return nil
	}
	unsigned(ask("guest.start", "prod"), ask("guest.snapshot", "test", "snapshot", "s"))
	require.NotContains(t, w.back.did(), "guest.stop prod")
}

// TestNoUnsignedStepsStopProduction draws jobs of callers, agents and a desired set,
// with steps that fail. No operator signs. The guest of production never stops, and
// keeps its label.
func TestNoUnsignedStepsStopProduction(t *testing.T) {
	w := production(t, stops())
	rapid.Check(t, func(rt *rapid.T) {
		step := func() op.Ask {
			n := rapid.SampledFrom([]string{"prod", "prod", "test", "new"}).Draw(rt, "guest")
			tier := map[string]any{"tier": rapid.SampledFrom([]string{"prod", "test", ""}).Draw(rt, "tier")}
			return rapid.SampledFrom([]op.Ask{
				ask("guest.stop", n), ask("guest.stop", n), ask("guest.restart", n), ask("guest.start", n), ask("guest.destroy", n),
				ask("guest.create", n, "scratch", true), ask("guest.create", n, "labels", tier), ask("guest.undelete", n),
				ask("guest.set-config", n, "labels", tier), ask("guest.set-config", n, "labels", map[string]any{}),
				ask("guest.set-config", n, "memory", int64(7)), ask("guest.snapshot", n, "snapshot", "s"), ask("guest.wipe", n),
			}).Draw(rt, "step")
		}
		for range rapid.IntRange(1, 4).Draw(rt, "jobs") {
			by := rapid.SampledFrom([]op.Requester{hub, root, builder, neighbour}).Draw(rt, "by")
			var asks []op.Ask
			for range rapid.IntRange(1, 4).Draw(rt, "steps") {
				asks = append(asks, step())
			}
			broken := rapid.SampledFrom([]string{"", "guest.snapshot", "guest.start", "guest.set-config"}).Draw(rt, "broken")
			w.back.fail = func(s op.Step) error {
				if s.Op == broken {
					return errors.New("broken")
				}
				return nil
			}
			if rapid.IntRange(0, 4).Draw(rt, "desired") == 0 {
				_, _ = w.gate.Want(w.ctx, "fleet", asks[0]) // many wishes do not fit the guests
			} else {
				_, _ = w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks})
			}
			w.run()
			require.True(rt, w.running("prod"), "it was stopped")
			require.Equal(rt, "prod", w.back.get("prod").Labels["tier"])
		}
	})
	for _, did := range w.back.did() {
		require.NotContains(t, []string{"guest.stop prod", "guest.restart prod", "guest.destroy prod"}, did)
	}
	w.verifyLog()
}

// TestAJobMakesAGuestAndStopsIt: the guest has the label only when the job has made it,
// so its stop waits when it would run.
func TestAJobMakesAGuestAndStopsIt(t *testing.T) {
	w := production(t, stops())
	j := w.mustSubmit(ask("guest.create", "new", "labels", map[string]any{"tier": "prod"}), ask("guest.start", "new"), ask("guest.stop", "new"))
	w.run()
	require.Equal(t, []op.State{op.StateSucceeded, op.StateSucceeded, op.StatePending}, w.states(j.ID))
	require.True(t, w.running("new"))
	w.mustApprove(w.requestOf(j, 3))
	w.run()
	require.False(t, w.running("new"))
	// By its name the guest is known at the submit, and no person could sign for it yet.
	byName := stops()
	byName.Labels, byName.Target = nil, "guest/db-*"
	w.setRules(byName)
	must.Fail(w.submit(ask("guest.create", "db-1"), ask("guest.stop", "db-1")))(t, refusal.Conflict)
}

// TestACompensationWaitsForTheRule: a failed job's start is taken back by a stop, and
// that waits too.
func TestACompensationWaitsForTheRule(t *testing.T) {
	w := production(t)
	w.mustSubmit(ask("guest.stop", "prod"))
	w.run()
	w.Pass(time.Second)
	require.False(t, w.running("prod"))
	w.setRules(stops())
	w.back.fail = func(s op.Step) error {
		if s.Op == "guest.snapshot" {
			return errors.New("broken")
		}
		return nil
	}
	j := w.mustSubmit(ask("guest.start", "prod"), ask("guest.snapshot", "test", "snapshot", "s"))
	w.run()
	require.Equal(t, []op.State{op.StateSucceeded, op.StateFailed, op.StatePending}, w.states(j.ID))
	require.True(t, w.running("prod"))
	r := w.requestOf(j, 3)
	require.Equal(t, "guest.stop", r.Step.Op)
	w.mustApprove(r)
	w.run()
	require.False(t, w.running("prod"))
}

// TestScratchWaitsForTheRule: an agent's own scratch is no exception.
func TestScratchWaitsForTheRule(t *testing.T) {
	w := newWorld(t)
	w.scratch("tmp")
	w.setRules(policy.Rule{Where: "gated.yaml:12", Target: "guest/t*", Signed: []string{"guest.destroy"}, Threshold: 1})
	j := w.submitAs(builder, ask("guest.destroy", "tmp"))
	require.Equal(t, op.StatePending, j.State())
	w.run()
	require.True(t, w.back.has("tmp"))
	facts := must.Get(w.gate.CanGo(w.ctx, w.back.get("tmp")))(t)
	require.Empty(t, facts, "no caller may end it unsigned")
	w.setRules()
	facts = must.Get(w.gate.CanGo(w.ctx, w.back.get("tmp")))(t)
	require.NotEmpty(t, facts)
}

// TestAnOperatorsOwnPayloadMeetsTheRule: a payload for a stop needs what the rule asks.
func TestAnOperatorsOwnPayloadMeetsTheRule(t *testing.T) {
	rule := stops()
	rule.Threshold = 2
	w := people(t, rule)
	w.back.change("g", func(o *op.Observed) { o.Spec = op.Params{"labels": map[string]any{"tier": "prod"}} })
	w.mustSubmit(ask("guest.start", "g"))
	w.run()
	r := must.Get(w.offline(w.signedBy(w.payload(ask("guest.stop", "g")), op.Operational, alice)))(t)
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, op.SignedByRule, r.Step.Verdict.Rule)
	w.run()
	require.True(t, w.running("g"))
	must.Get(w.approveAs(r, op.Operational, bob))(t)
	w.run()
	require.False(t, w.running("g"))
}

// TestDesiredStateWaitsForTheRule: a set that wants a guest stopped asks as a caller does.
func TestDesiredStateWaitsForTheRule(t *testing.T) {
	w := production(t, stops())
	j := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.stop", "prod")))(t)
	require.Equal(t, op.StatePending, j.State())
	again := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.stop", "prod")))(t)
	require.Equal(t, j.ID, again.ID)
	w.run()
	require.True(t, w.running("prod"))
	w.mustReject(w.requestOf(j, 1))
	must.Fail(w.gate.Want(w.ctx, "fleet", ask("guest.stop", "prod")))(t, refusal.Rejected)
	require.Contains(t, w.kinds(), audit.Rejected)
}
