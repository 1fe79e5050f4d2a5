package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// others is another requester than that of the request.
var others = op.Requester{Source: op.SourceAPI, UID: 1001}

// add asks for a benign step that changes what a signature covers.
func (w *world) add(a op.Ask) op.Job {
	w.t.Helper()
	j := must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: others, Steps: []op.Ask{a}}))(w.t)
	require.Equal(w.t, op.StatePlanned, j.State())
	return j
}

// A loop of benign steps does not change a request while an operator reads it.
func TestWhatAnOperatorReadsStaysAsItIs(t *testing.T) {
	for name, a := range map[string]op.Ask{
		"a snapshot": ask("guest.snapshot", "web", "snapshot", "s"),
		"a label":    ask("guest.set-config", "web", "labels", map[string]any{"a": "b"}),
		"protection": ask("guest.set-config", "web", "protected", true),
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newRequest(t, "web")
			require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
			j := w.add(a)
			w.run()
			require.Equal(t, op.StatePlanned, w.job(j.ID).State(), "it waits")
			require.ErrorIs(t, w.execute(j.Steps[0].ID), refusal.Unavailable, "also for a driver that has its permit")
			wait, waits := must.Two(w.gate.WaitsFor(w.ctx, w.job(j.ID).Steps[0]))(t)
			require.True(t, waits)
			require.Equal(t, r.ID, wait.For)
			require.Contains(t, wait.Why(), r.ID.String())
			w.restart()
			w.run()
			require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
			require.Equal(t, op.StatePlanned, w.job(j.ID).State(), "after a restart, too")

			must.Get(w.approve(r))(t, "what was signed is what is there")
			require.Equal(t, []op.StepID{r.ID}, w.runnable("web"), "what was signed is first")
			w.run()
			require.False(t, w.back.has("web"))
			require.Equal(t, op.StateRefused, w.job(j.ID).State(), "there is nothing any more to change")
		})
	}
}

// runnable returns the steps of a guest that may run next.
func (w *world) runnable(name string) (out []op.StepID) {
	w.t.Helper()
	id, ok := must.Two(w.gate.Runnable(w.ctx, op.Target{Kind: "guest", Name: name}))(w.t)
	if ok {
		out = append(out, id)
	}
	return out
}

func TestStartsAndLimitsDoNotWait(t *testing.T) {
	w, r := newRequest(t, "web")
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	for _, a := range []op.Ask{ask("guest.start", "web"), ask("guest.set-config", "web", "memory", int64(7), "cpus", int64(2)), ask("guest.stop", "web")} {
		j := w.add(a)
		w.run()
		require.Equal(t, op.StateSucceeded, w.job(j.ID).State(), a.Op)
	}
	w.back.put("db")
	j := w.add(ask("guest.snapshot", "db", "snapshot", "s"))
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State(), "another guest")
}

// The wait ends: five minutes after the last showing, and half an hour after the
// first, however often the payload is shown.
func TestShowingHoldsNothingForEver(t *testing.T) {
	w, r := newRequest(t, "web")
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	j := w.add(ask("guest.snapshot", "web", "snapshot", "s"))
	w.Pass(5*time.Minute - time.Second)
	require.Empty(t, w.runnable("web"))
	w.Pass(time.Second)
	require.Equal(t, []op.StepID{j.Steps[0].ID}, w.runnable("web"), "five minutes after the last showing")

	for range 24 {
		require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
		require.Empty(t, w.runnable("web"))
		w.Pass(time.Minute)
		require.NoError(t, w.gate.Tick(w.ctx))
	}
	w.Pass(59 * time.Second)
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	require.Empty(t, w.runnable("web"))
	w.wakes("web")
	w.Pass(time.Second)
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	require.Equal(t, []op.StepID{j.Steps[0].ID}, w.runnable("web"), "half an hour after the first")
	require.NoError(t, w.gate.Tick(w.ctx))
	require.True(t, w.wakes("web"), "the tick wakes what waited")
	w.run()
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.NotEqual(t, r.Payload, again.Payload)

	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	w.add(ask("guest.snapshot", "web", "snapshot", "s2"))
	require.Empty(t, w.runnable("web"), "a new payload can be read, too")
}

// An operator reads a create, which is about a name. Another requester's create of
// that name waits, even if the trash was swept since and it needs no signature.
func TestACreateThatIsReadHoldsOthersOfItsName(t *testing.T) {
	w := newWorld(t)
	w.back.mu.Lock()
	w.back.trash["web"] = op.Observed{Incarnation: "of another"}
	w.back.mu.Unlock()
	r := w.request(ask("guest.create", "web"))
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	w.back.mu.Lock()
	delete(w.back.trash, "web")
	w.back.mu.Unlock()
	j := w.submitAs(builder, ask("guest.create", "web", "memory", int64(64)))
	require.Equal(t, op.StatePlanned, j.State())
	require.Empty(t, w.runnable("web"))
	w.Pass(5 * time.Minute)
	require.Equal(t, []op.StepID{j.Steps[0].ID}, w.runnable("web"))
}

// An operator who reads a request again hours later has the same time to sign it.
func TestAShowingHoldsAgainAfterAPause(t *testing.T) {
	w, r := newRequest(t, "web")
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	w.Pass(time.Hour - time.Second)
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	j := w.add(ask("guest.snapshot", "web", "snapshot", "s"))
	require.Equal(t, []op.StepID{j.Steps[0].ID}, w.runnable("web"), "benign steps have as long as they waited")
	w.Pass(time.Second)
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	require.Empty(t, w.runnable("web"))
	must.Get(w.approve(r))(t)
}

// If a delay lies between an approval and its step, no benign step makes the
// approval useless.
func TestASignedStepKeepsItsTarget(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	j := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.set-config", "web", "labels", map[string]any{"a": "b"})))(t)
	require.ErrorIs(t, w.execute(j.Steps[0].ID), refusal.Unavailable, "desired state waits like everybody")
	require.NoError(t, w.execute(r.ID))
	require.False(t, w.back.has("web"))
}

// A closed request keeps no step waiting.
func TestARejectedRequestHoldsNothing(t *testing.T) {
	w, r := newRequest(t, "web")
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID))
	j := w.add(ask("guest.snapshot", "web", "snapshot", "s"))
	require.Empty(t, w.runnable("web"))
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice)))(t)
	require.Equal(t, []op.StepID{j.Steps[0].ID}, w.runnable("web"))
	require.NoError(t, w.gate.ShowPayload(w.ctx, r.ID), "it can still be read")
	require.NotEmpty(t, w.runnable("web"))
	require.NoError(t, w.gate.Tick(w.ctx))
}

// Without a showing, a loop of snapshots still makes the gate issue the request
// anew, because no operator reads it.
func TestUnreadRequestsHoldNothing(t *testing.T) {
	w, r := newRequest(t, "web")
	for i := range 3 {
		j := w.add(ask("guest.snapshot", "web", "snapshot", fmt.Sprint("s", i)))
		w.run()
		require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	}
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	must.Fail(w.approve(r))(t, refusal.Superseded)
}
