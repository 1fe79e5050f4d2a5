package matrix_test

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// stops is a rule that wants stop and restart of production signed.
func stops() policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Labels: map[string]string{"tier": "prod"}, Signed: []string{"guest.stop", "guest.restart"}, Threshold: 1}
}

// production labels the victim and starts it.
func production(w *world) {
	w.t.Helper()
	w.do("guest.set-config", "victim", "labels", labels("tier", "prod"))
	startVictim(w)
}

func startVictim(w *world) {
	w.t.Helper()
	w.mustApprove(w.request(ask("guest.set-config", "victim", "command", "idle"))) // it holds data
	require.NoError(w.t, w.runAll())
	w.do("guest.start", "victim")
}

// stopping is a row in which a caller wants the victim to end although a rule wants
// that signed. The victim still runs afterwards.
func stopping(id, what string, run func(w *world) error) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		production(w)
		w.rule(stops())
		was := w.observe("victim")
		require.Equal(w.t, local.Running, was.Running)
		w.arm()
		err := run(w)
		_ = w.runAll()
		now := w.observe("victim")
		require.Equal(w.t, local.Running, now.Running, "it was stopped")
		require.Equal(w.t, "prod", now.Labels["tier"], "it lost its label")
		return err
	}}
}

// plannedStop is a row in which the stop was planned before the rule was in force, or
// before the victim had the label.
func plannedStop(id, what string, before, meanwhile func(w *world)) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		before(w)
		j := must.Get(w.submit(hub, ask("guest.stop", "victim")))(w.t)
		require.Equal(w.t, op.StatePlanned, j.State())
		permit := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(w.t)
		meanwhile(w)
		w.arm()
		err := permit.Use(w.ctx, w.observe("victim"))
		_ = w.runAll()
		require.Equal(w.t, op.StatePending, w.stepOf(j.Steps[0].ID).State)
		require.Equal(w.t, local.Running, w.observe("victim").Running, "it was stopped")
		return err
	}}
}

var signedRuleRows = []attack{
	stopping("P19a", "a job stops a guest of production, which a rule wants signed", func(w *world) error {
		return w.waits(w.submit(hub, ask("guest.stop", "victim")))
	}),
	stopping("P19b", "an agent restarts it", func(w *world) error { return w.waits(w.submit(builder, ask("guest.restart", "victim"))) }),
	stopping("P19c", "desired state wants it stopped", func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: victim\n    state: stopped\n")})
		return w.planned("victim")
	}),
	stopping("P19d", "the label is taken away first, and the stop comes in the same job and in a job of its own", func(w *world) error {
		must.Fail(w.submit(hub, ask("guest.set-config", "victim", "labels", labels()), ask("guest.stop", "victim")))(w.t, refusal.Conflict)
		require.ErrorIs(w.t, w.waits(w.submit(hub, ask("guest.set-config", "victim", "labels", labels("tier", "test")))), refusal.PendingSignature)
		_ = w.runAll()
		return w.waits(w.submit(hub, ask("guest.stop", "victim")))
	}),
	plannedStop("P19e", "a stop was planned and has its permit, and then the policy is read again", production, func(w *world) { w.rule(stops()) }),
	plannedStop("P19f", "a stop was planned and has its permit, and then the guest gets the label", func(w *world) {
		w.rule(stops())
		startVictim(w)
	}, func(w *world) { w.first("guest.set-config", "victim", "labels", labels("tier", "prod")) }),
	{id: "P19g", what: "an agent destroys its own scratch, which a rule wants signed", want: refusal.PendingSignature, run: func(w *world) error {
		scratch(w)
		w.rule(policy.Rule{Where: "gated.yaml:3", Target: "guest/t*", Signed: []string{"guest.destroy"}, Threshold: 1})
		w.arm()
		w.allow.finale = []string{"tmp"}
		return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
	}},
}
