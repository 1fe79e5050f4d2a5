package faults

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// live makes decisions with the fault, then without it, and returns what kind of
// call failed first, 0 if none did.
func (h *host) live() Kind {
	require.NoError(h.t, Arm(h.fault))
	h.story()
	kind := must.Get(Disarm())(h.t)
	h.doubt = kind == Sync && h.fault.Lasting
	if h.fault.Lasting {
		h.afterAKill() // of one that does not last, it was looked at right then
	}
	// It goes on without a restart, and what was spent stays spent.
	h.count(h.compare(h.gate))
	h.signed("later")
	h.replays(h.gate)
	require.NoError(h.t, h.store.Close())
	h.store, h.gate = h.open(h.path)
	h.judge(h.store, h.gate, false)
	h.replays(h.gate)
	require.NoError(h.t, h.store.Close())
	require.NoError(h.t, os.RemoveAll(h.dir))
	require.NoError(h.t, os.RemoveAll(h.beside))
	return kind
}

func (h *host) story() {
	h.signed("signed")
	h.benign("guest.start", "benign")
	h.reject("rejected")
	h.cancel("cancelled")
}

// again decides until it is decided: at the second try, unless nothing works.
// What was refused is on disk as it was before: a look at what a kill would
// leave says so.
func (h *host) again(what string, decide func() error) bool {
	for try := range 2 {
		err := decide()
		if err == nil {
			return true
		}
		if try == 1 && (errors.Is(err, refusal.Replayed) || errors.Is(err, refusal.Conflict)) {
			h.twice++ // the first try was kept although it was said not to be
		}
		require.ErrorIs(h.t, err, refusal.Unavailable, "%s, %+v", what, h.fault)
		if h.fault.Lasting {
			return false
		}
		require.Zero(h.t, try, "%s, %+v: %v", what, h.fault, err)
		h.afterAKill()
	}
	return false
}

func (h *host) submit(name, target string) (step op.Step, ok bool) {
	ask := op.Ask{Op: name, Target: op.Target{Kind: "guest", Name: target}, Params: op.Params{}}
	var job op.Job
	ok = h.again("submit", func() (err error) {
		job, err = h.gate.Submit(context.Background(), op.Submission{Requester: hub, Steps: []op.Ask{ask}, Reason: "test",
			IdempotencyKey: name + " " + target})
		return err
	})
	if !ok {
		return step, false
	}
	h.jobs++
	step = job.Steps[0]
	h.told[step.ID] = step.State
	return step, true
}

func (h *host) benign(name, target string) {
	if step, ok := h.submit(name, target); ok {
		require.Equal(h.t, op.StatePlanned, step.State)
		h.run(step)
	}
}

// run executes a step that may run, as reconcile does.
func (h *host) run(step op.Step) {
	ok := h.again("dispatch", func() error {
		p, err := h.gate.Permit(context.Background(), step.ID)
		if err != nil {
			return err
		}
		return h.execute(context.Background(), p)
	})
	if !ok {
		require.Zero(h.t, h.acted[step.ID], "nothing runs that was not written")
		return
	}
	require.Equal(h.t, 1, h.acted[step.ID])
	h.told[step.ID] = op.StateDispatched
	after := must.Get(h.guests.Observe(context.Background(), step.Look()))(h.t)
	if h.again("record", func() error {
		_, err := h.gate.Record(context.Background(), step.ID, gate.Outcome{After: &after})
		return err
	}) {
		h.told[step.ID] = op.StateSucceeded
	}
}

func (h *host) sign(payload []byte) authz.Envelope { return gateworld.Signed(h.t, payload, h.alice) }

// ask submits a guest's end, and returns its request.
func (h *host) ask(target string) (r op.Request, ok bool) {
	step, ok := h.submit("guest.destroy", target)
	if !ok {
		return r, false
	}
	require.Equal(h.t, op.StatePending, step.State)
	ok = h.again("look", func() (err error) { r, err = h.gate.Request(context.Background(), step.ID); return err })
	return r, ok
}

func (h *host) signed(target string) {
	r, ok := h.ask(target)
	if !ok {
		return
	}
	e := h.sign(r.Payload)
	if !h.again("approve", func() error {
		_, err := h.gate.Approve(context.Background(), hub, r.ID, e)
		return err
	}) {
		return
	}
	h.told[r.ID], h.spent[r.ID] = op.StateAuthorized, e
	h.run(r.Step)
}

func (h *host) reject(target string) {
	r, ok := h.ask(target)
	if !ok {
		return
	}
	e := gateworld.Rejection(h.t, h.gate, r, noon, h.alice)
	if h.again("reject", func() error {
		_, err := h.gate.Reject(context.Background(), hub, r.ID, e)
		return err
	}) {
		h.told[r.ID], h.spent[r.ID] = op.StateRejected, h.sign(r.Payload)
	}
}

func (h *host) cancel(target string) {
	r, ok := h.ask(target)
	if !ok {
		return
	}
	if h.again("cancel", func() error {
		_, err := h.gate.Cancel(context.Background(), hub, r.ID.Job)
		return err
	}) {
		h.told[r.ID], h.spent[r.ID] = op.StateCancelled, h.sign(r.Payload)
	}
}

// replays sends every envelope again whose nonce is spent.
func (h *host) replays(g *gate.Gate) {
	for id, e := range h.spent {
		_, err := g.Approve(context.Background(), hub, id, e)
		if err == nil {
			h.twice++
			h.t.Errorf("%+v: %s counted again", h.fault, id)
			continue
		}
		code := string(refusal.As(err).Code)
		require.True(h.t, strings.Contains("replayed rejected cancelled", code), "%+v: %s: %v", h.fault, id, err)
	}
}
