package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

var fleetSet = op.Requester{Source: op.SourceDesired, Set: "fleet"}

// trashed makes web for creator and destroys it for all askers. The operator signs
// if needed.
func (w *world) trashed(creator op.Requester, askers ...op.Requester) op.Observed {
	w.t.Helper()
	if creator == fleetSet {
		must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.create", "web")))(w.t)
	} else if creator.Source != "" {
		w.submitAs(creator, ask("guest.create", "web"))
	} else {
		w.back.put("web")
	}
	w.run()
	was := w.back.get("web")
	require.True(w.t, was.Present)
	var id op.RequestID
	for _, by := range askers {
		if by == fleetSet {
			j := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.destroy", "web")))(w.t)
			id = j.Steps[0].ID
			continue
		}
		id = w.submitAs(by, ask("guest.destroy", "web")).Steps[0].ID
	}
	r := must.Get(w.gate.Request(w.ctx, id))(w.t)
	must.Get(w.approve(r))(w.t)
	w.run()
	require.False(w.t, w.back.has("web"))
	return was
}

// class says how a step would be classified for a requester.
func (w *world) class(by op.Requester, a op.Ask) op.Verdict {
	w.t.Helper()
	s, _ := must.Two(w.gate.Explain(w.ctx, by, a))(w.t)
	return s.Verdict
}

// TestOwnerOfADestroyedGuest: a requester that may bring a guest back unsigned may
// use its name unsigned. No other requester may.
func TestOwnerOfADestroyedGuest(t *testing.T) {
	none := op.Requester{}
	agentOfRoot := op.Requester{Source: op.SourceAPI, UID: 0, Agent: "builder"}
	for name, c := range map[string]struct {
		creator op.Requester
		askers  []op.Requester
		may     []op.Requester
		mayNot  []op.Requester
	}{
		"the one who asked, the creator, operators": {hub, []op.Requester{other}, []op.Requester{other, hub, root, daemon},
			[]op.Requester{builder, neighbour, agentOfRoot, fleetSet}},
		"of two who asked, neither": {none, []op.Requester{other, hub}, []op.Requester{root}, []op.Requester{other, hub, builder}},
		"of two who asked, the creator": {hub, []op.Requester{other, neighbour}, []op.Requester{hub, root},
			[]op.Requester{other, neighbour, builder}},
		"an operator asked: operators alone":          {hub, []op.Requester{root}, []op.Requester{root, daemon}, []op.Requester{hub, other, builder}},
		"an operator asked as well":                   {hub, []op.Requester{other, root}, []op.Requester{root, daemon}, []op.Requester{hub, other}},
		"desired state asked: that set and operators": {hub, []op.Requester{fleetSet}, []op.Requester{fleetSet, root}, []op.Requester{hub, other, {Source: op.SourceDesired, Set: "else"}}},
		"desired state made it":                       {fleetSet, []op.Requester{other}, []op.Requester{fleetSet, other, root}, []op.Requester{hub, builder}},
		"the gate did not make it":                    {none, []op.Requester{hub}, []op.Requester{hub, root}, []op.Requester{other, builder}},
		"an agent and its user are two":               {none, []op.Requester{builder}, []op.Requester{builder, root}, []op.Requester{hub, neighbour}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.trashed(c.creator, c.askers...)
			for _, a := range []op.Ask{ask("guest.undelete", "web"), ask("guest.undelete", "back", "from", "web"), ask("guest.create", "web")} {
				for _, by := range c.may {
					require.Equal(t, op.Benign, w.class(by, a).Class, "%s of %s", a.Op, by)
				}
				for _, by := range c.mayNot {
					v := w.class(by, a)
					require.Equal(t, op.Destructive, v.Class, "%s of %s", a.Op, by)
					require.Contains(t, v.Why, c.askers[0].String())
				}
				for _, by := range []op.Requester{{Source: op.SourceHub, Set: "hub"}, {Source: op.SourceOffline, UID: other.UID}} {
					require.Equal(t, op.Destructive, w.class(by, a).Class, "what is carried is signed")
				}
			}
			require.Equal(t, op.Benign, w.class(builder, ask("guest.create", "web-2")).Class, "other names are free")
		})
	}
}

// TestACarrierOwnsNothing: the carrier of a payload that an operator signed has the
// name of a requester, and owns nothing.
func TestACarrierOwnsNothing(t *testing.T) {
	w, r := newRequest(t, "web")
	p := must.Get(op.DecodePayload(r.Payload))(t)
	p.Nonce = op.NewNonce(time.Now())
	b := must.Get(p.Encode())(t)
	must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(t)
	must.Get(w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, b)))(t)
	w.run()
	require.False(t, w.back.has("web"))
	require.Equal(t, op.Destructive, w.class(hub, ask("guest.undelete", "web")).Class)
	require.Equal(t, op.Benign, w.class(root, ask("guest.undelete", "web")).Class)
}

// TestAnUndeleteIsOfOneGuest: the step keeps the incarnation that was in the trash
// when it was submitted, and brings back no other.
func TestAnUndeleteIsOfOneGuest(t *testing.T) {
	w := newWorld(t)
	was := w.trashed(hub, hub)
	j := w.mustSubmit(ask("guest.undelete", "back", "from", "web"))
	require.Equal(t, string(was.Incarnation), j.Steps[0].Params.Str("incarnation"))
	w.back.mu.Lock()
	another := was
	another.Incarnation = "another"
	w.back.trash["web"] = another
	w.back.mu.Unlock()
	w.run()
	require.Equal(t, op.StateRefused, w.job(j.ID).State())
	require.False(t, w.back.has("back"))
	_, err := w.submit(ask("guest.undelete", "back", "from", "web", "incarnation", string(was.Incarnation)))
	require.ErrorIs(t, err, refusal.UnknownTarget)
}

// TestATrashThatChangesBeforeTheDispatch: a step was benign when it was submitted.
// It waits for a signature if the name is that of another requester's destroyed
// guest by then.
func TestATrashThatChangesBeforeTheDispatch(t *testing.T) {
	w := newWorld(t)
	j := w.submitAs(builder, ask("guest.create", "web"))
	w.back.mu.Lock()
	w.back.trash["web"] = op.Observed{Incarnation: "of another"}
	w.back.mu.Unlock()
	w.run()
	require.Equal(t, op.StatePending, w.job(j.ID).State())
	require.False(t, w.back.has("web"))
}

// TestTheGateTakesItsOwnDestroyBack: the gate does so for every requester, and only
// in the same job.
func TestTheGateTakesItsOwnDestroyBack(t *testing.T) {
	w := newWorld(t, "web", "a")
	was := w.back.get("web")
	w.back.fail = func(s op.Step) error {
		if s.Op == "guest.start" {
			return errors.New("no")
		}
		return nil
	}
	j := w.submitAs(builder, ask("guest.destroy", "web"), ask("guest.start", "a"))
	r := must.Get(w.gate.Request(w.ctx, j.Steps[0].ID))(t)
	must.Get(w.approve(r))(t)
	w.run()
	back := w.job(j.ID).Steps[2]
	require.Equal(t, "guest.undelete", back.Op)
	require.Equal(t, op.StateSucceeded, back.State, back.Detail)
	require.Equal(t, was.Incarnation, w.back.get("web").Incarnation)
	w.verifyLog()
}

// TestDesiredStateWaitsForAName: the set makes the guest once the trash was swept.
func TestDesiredStateWaitsForAName(t *testing.T) {
	w := newWorld(t)
	w.trashed(hub, root)
	a := ask("guest.create", "web")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	require.Equal(t, op.StatePending, j.State())
	require.Equal(t, "name-in-trash", j.Steps[0].Verdict.Rule)
	require.Equal(t, j.ID, must.Get(w.gate.Want(w.ctx, "fleet", a))(t).ID)
	w.run()
	require.False(t, w.back.has("web"))

	w.back.mu.Lock()
	clear(w.back.trash) // it was swept
	w.back.mu.Unlock()
	made := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	require.NotEqual(t, j.ID, made.ID)
	w.run()
	require.True(t, w.back.has("web"))
	require.Equal(t, op.StateSuperseded, w.job(j.ID).State())
}

// TestASignedCreateTakesTheName: an operator can allow it.
func TestASignedCreateTakesTheName(t *testing.T) {
	w := newWorld(t)
	was := w.trashed(hub, root)
	r := w.request(ask("guest.create", "web"))
	must.Get(w.approve(r))(t)
	w.run()
	require.True(t, w.back.has("web"))
	require.NotEqual(t, was.Incarnation, w.back.get("web").Incarnation)
	p := must.Get(w.gate.Provenance(w.ctx, w.back.get("web").Incarnation))(t)
	require.Equal(t, hub.String(), p.Creator)
}

// TestWanted: a sweep asks whether an open step will bring a guest back.
func TestWanted(t *testing.T) {
	w := newWorld(t)
	was := w.trashed(hub, hub)
	wanted := func(name string, inc op.Incarnation) bool {
		t.Helper()
		return must.Get(w.gate.Wanted(w.ctx, op.Target{Kind: "guest", Name: name}, inc))(t)
	}
	require.False(t, wanted("web", was.Incarnation))
	for state, submit := range map[op.State]func() op.Job{
		op.StatePlanned: func() op.Job { return w.mustSubmit(ask("guest.undelete", "web")) },
		op.StatePending: func() op.Job { return w.submitAs(other, ask("guest.undelete", "back", "from", "web")) },
	} {
		j := submit()
		require.Equal(t, state, j.State())
		require.True(t, wanted("web", was.Incarnation), state)
		require.False(t, wanted("web", "another"))
		require.False(t, wanted("back", was.Incarnation))
		must.Get(w.gate.Cancel(w.ctx, root, j.ID))(t)
		require.False(t, wanted("web", was.Incarnation))
	}
	j := w.mustSubmit(ask("guest.undelete", "web"))
	w.use(j.Steps[0].ID)
	require.True(t, wanted("web", was.Incarnation), "it is under way")
	must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Unknown: true}))(t)
	require.False(t, wanted("web", was.Incarnation), "it ended")
}
