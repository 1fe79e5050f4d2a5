package gate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// scratch makes a scratch guest for the agent builder.
func (w *world) scratch(name string) op.Observed {
	w.t.Helper()
	w.submitAs(builder, ask("guest.create", name, "scratch", true))
	w.run()
	require.True(w.t, w.back.has(name))
	return w.back.get(name)
}

// waits asserts that a destroy by the agent that made the guest needs a signature,
// and that nothing ran.
func (w *world) waits(name string, by op.Requester) {
	w.t.Helper()
	j := w.submitAs(by, ask("guest.destroy", name))
	require.Equal(w.t, op.StatePending, j.State())
	w.run()
	require.True(w.t, w.back.has(name))
}

func TestScratchIsDestroyedUnsignedByItsCreatorOnly(t *testing.T) {
	w := newWorld(t)
	w.scratch("tmp")
	w.waits("tmp", neighbour) // P03
	w.waits("tmp", hub)       // P18: the same uid, no agent
	w.scratch("tmp2")
	j := w.submitAs(builder, ask("guest.destroy", "tmp2"))
	require.Equal(t, op.StatePlanned, j.State())
	w.run()
	require.False(t, w.back.has("tmp2"))
}

func TestWhatEndsScratch(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]func(op.Observed){
		"P02: made again": func(op.Observed) { w.back.remove("tmp"); w.back.put("tmp") },
		"P03: too old":    func(op.Observed) { w.Pass(policy.ScratchMaxAge) },
		"P03: adopted":    func(o op.Observed) { require.NoError(t, w.gate.Adopt(w.ctx, "fleet", o)) },
		"P06: protected": func(op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
		},
		"P16: foreign disk": func(op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Storage = append(o.Storage, "disk:9") })
		},
		"adopted while it was known by something else": func(o op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Incarnation += "+disk" })
			require.NoError(t, w.gate.Adopt(w.ctx, "fleet", w.back.get("tmp")))
			w.back.change("tmp", func(now *op.Observed) { now.Incarnation = o.Incarnation })
		},
		"adopted while nothing proved who made it": func(o op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Incarnation, o.Birth, o.Marked = o.Incarnation+"+disk", "", o.Birth })
			require.NoError(t, w.gate.Adopt(w.ctx, "fleet", w.back.get("tmp")))
			w.back.change("tmp", func(now *op.Observed) { now.Incarnation, now.Birth = o.Incarnation, o.Birth })
		},
		"protected while it was known by something else": func(o op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Incarnation += "+disk" })
			w.submitAs(neighbour, ask("guest.set-config", "tmp", "protected", true))
			w.run()
			require.True(t, w.back.get("tmp").Protected)
			w.back.change("tmp", func(now *op.Observed) {
				now.Incarnation, now.Protected = o.Incarnation, false
				now.Spec["protected"] = false
			})
		},
		"a dependent": func(op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Dependent = []op.Target{{Kind: "guest", Name: "x"}} })
		},
		"protected by a step and freed": func(op.Observed) {
			w.submitAs(builder, ask("guest.set-config", "tmp", "protected", true))
			w.run()
			w.back.change("tmp", func(o *op.Observed) { o.Spec = op.Params{"protected": false} })
		},
		"destroyed and brought back": func(op.Observed) {
			w.submitAs(builder, ask("guest.destroy", "tmp"))
			w.run()
			w.submitAs(builder, ask("guest.undelete", "tmp"))
			w.run()
		},
		"restored into": func(op.Observed) {
			w.submitAs(builder, ask("guest.restore", "tmp", "snapshot", "s"))
			w.run()
		},
		"a stricter policy": func(op.Observed) {
			p := w.gate.Policy()
			p.ScratchMaxAge = 0
			require.NoError(t, w.gate.Reload(w.ctx, nil, p))
		},
		"a clock in doubt": func(op.Observed) { w.Set(-48 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w.back.remove("tmp")
			o := w.scratch("tmp")
			_, _, err := w.gate.Explain(w.ctx, builder, ask("guest.destroy", "tmp"))
			require.NoError(t, err)
			c(o)
			w.waits("tmp", builder)
			if name == "a clock in doubt" {
				w.Set(48 * time.Hour)
			}
			p := w.gate.Policy()
			p.ScratchMaxAge = policy.ScratchMaxAge
			require.NoError(t, w.gate.Reload(w.ctx, nil, p))
		})
	}
	w.verifyLog()
}

func TestNotScratchIsNeverDestroyedUnsigned(t *testing.T) { // P04
	w := newWorld(t)
	w.submitAs(builder, ask("guest.create", "a"))
	w.run()
	w.waits("a", builder)
}

func TestUnprotectAndRelabelWait(t *testing.T) { // P06
	w := newWorld(t, "a")
	w.back.change("a", func(o *op.Observed) {
		o.Spec = op.Params{"protected": true, "labels": map[string]any{"tier": "prod"}}
	})
	for _, a := range []op.Ask{ask("guest.set-config", "a", "protected", false), ask("guest.set-config", "a", "labels", map[string]any{}),
		ask("guest.set-config", "a", "labels", map[string]any{"tier": "dev"}), ask("guest.destroy", "a")} {
		require.Equal(t, op.StatePending, w.mustSubmit(a).State())
	}
	w.run()
	require.Empty(t, w.back.did())
	require.Equal(t, op.StatePlanned, w.mustSubmit(ask("guest.set-config", "a", "labels", map[string]any{"tier": "prod", "more": "x"})).State())
}

// TestProvenanceIsWhatTheGateMade: the record of a create is in the journal and in
// the log.
func TestProvenanceIsWhatTheGateMade(t *testing.T) {
	w := newWorld(t)
	o := w.scratch("tmp")
	p := must.Get(w.gate.Provenance(w.ctx, o.Incarnation))(t)
	require.Equal(t, "agent:builder", p.Creator)
	require.Equal(t, "builder", p.Agent)
	require.True(t, p.Scratch)
	require.Equal(t, p.CreatedAt.Add(policy.ScratchMaxAge), p.ScratchUntil)
	require.Equal(t, []op.StorageOrigin{{ID: o.Storage[0], Job: p.Job}}, p.Storage)
	es := must.Get(w.gate.Events(w.ctx, 0, 100))(t)
	last := es[len(es)-1]
	require.Equal(t, audit.Succeeded, last.Kind)
	require.Equal(t, o.Incarnation, last.Incarnation)
	require.Equal(t, o.Storage, last.Made.Storage)
	require.True(t, last.Made.Scratch)
	for _, inc := range []op.Incarnation{"", "unknown"} {
		p = must.Get(w.gate.Provenance(w.ctx, inc))(t)
		require.Nil(t, p)
	}
}

// TestRecordedLateIsNotYoung: a create's end is recorded days later, after a crash.
// Its age counts from the dispatch.
func TestRecordedLateIsNotYoung(t *testing.T) {
	w := newWorld(t)
	j := w.submitAs(builder, ask("guest.create", "tmp", "scratch", true))
	s := j.Steps[0]
	w.use(s.ID)
	w.back.mu.Lock()
	after := w.back.make("tmp", s.Birth, s.Params)
	w.back.mu.Unlock()
	w.Pass(policy.ScratchMaxAge + time.Hour)
	w.restart()
	must.Get(w.gate.Record(w.ctx, s.ID, gate.Outcome{After: &after}))(t)
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	w.waits("tmp", builder)
}

// TestStorageOfAnotherIsNotMade: storage that the gate recorded for another
// incarnation was moved into the new one before the look.
func TestStorageOfAnotherIsNotMade(t *testing.T) {
	w := newWorld(t)
	theirs := w.scratch("theirs")
	j := w.submitAs(neighbour, ask("guest.create", "tmp", "scratch", true))
	s := j.Steps[0]
	w.use(s.ID)
	w.back.mu.Lock()
	w.back.make("tmp", s.Birth, s.Params)
	w.back.mu.Unlock()
	w.back.change("tmp", func(o *op.Observed) { o.Storage = append(o.Storage, theirs.Storage...) })
	after := w.back.get("tmp")
	must.Get(w.gate.Record(w.ctx, s.ID, gate.Outcome{After: &after}))(t)
	w.waits("tmp", neighbour)
}

// TestStorageInDoubtProvesNothing: what was in doubt at the end of its making has the same id when other hands exchanged it.
func TestStorageInDoubtProvesNothing(t *testing.T) {
	for _, doubted := range []bool{true, false} {
		t.Run(strconv.FormatBool(doubted), func(t *testing.T) {
			w := newWorld(t)
			s := w.submitAs(neighbour, ask("guest.create", "tmp", "scratch", true)).Steps[0]
			w.use(s.ID)
			w.back.mu.Lock()
			w.back.make("tmp", s.Birth, s.Params)
			w.back.mu.Unlock()
			w.back.change("tmp", func(o *op.Observed) { o.Doubted = doubted })
			after := w.back.get("tmp")
			must.Get(w.gate.Record(w.ctx, s.ID, gate.Outcome{After: &after}))(t)
			require.Equal(t, doubted, len(must.Get(w.gate.Provenance(w.ctx, after.Incarnation))(t).Storage) == 0)
			if doubted {
				w.waits("tmp", neighbour)
			}
		})
	}
}

// TestCreateThatMadeNothingNew: under the name, the back end shows another guest
// than the one with the step's token.
func TestCreateThatMadeNothingNew(t *testing.T) {
	w := newWorld(t)
	old := w.scratch("old")
	for name, change := range map[string]func(*op.Observed){
		"no token":                func(o *op.Observed) { o.Birth = "" },
		"another token":           func(o *op.Observed) { o.Birth = old.Birth },
		"no identity":             func(o *op.Observed) { o.Incarnation = "" },
		"an identity from before": func(o *op.Observed) { o.Incarnation = old.Incarnation },
		"nothing":                 func(o *op.Observed) { o.Present = false },
	} {
		w.back.remove("tmp")
		j := w.submitAs(builder, ask("guest.create", "tmp", "scratch", true))
		s := j.Steps[0]
		w.use(s.ID)
		w.back.mu.Lock()
		after := w.back.make("tmp", s.Birth, s.Params)
		w.back.mu.Unlock()
		change(&after)
		must.Get(w.gate.Record(w.ctx, s.ID, gate.Outcome{After: &after}))(t, name)
		require.Equal(t, op.StateFailed, w.job(j.ID).State(), name)
		w.waits("tmp", builder)
	}
	w.verifyLog()
}

// TestBackEndThatShowsAnother: the back end reports success, and shows another
// incarnation (H09).
func TestBackEndThatShowsAnother(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		ask   op.Ask
		after func() *op.Observed
		want  op.State
	}{
		"gone":             {ask("guest.start", "a"), func() *op.Observed { return &op.Observed{} }, op.StateFailed},
		"another":          {ask("guest.start", "a"), func() *op.Observed { o := w.back.get("a"); o.Incarnation += "x"; return &o }, op.StateFailed},
		"not looked at":    {ask("guest.start", "a"), func() *op.Observed { return nil }, op.StateInterrupted},
		"the same":         {ask("guest.start", "a"), func() *op.Observed { o := w.back.get("a"); return &o }, op.StateSucceeded},
		"trash, no return": {ask("guest.undelete", "gone"), func() *op.Observed { return &op.Observed{} }, op.StateFailed},
		"trash, another":   {ask("guest.undelete", "gone"), func() *op.Observed { o := w.back.get("a"); o.Incarnation += "x"; return &o }, op.StateFailed},
	} {
		w.back.put("a")
		w.back.trash["gone"] = w.back.get("a")
		j := w.submitAs(daemon, c.ask)
		w.use(j.Steps[0].ID)
		must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{After: c.after()}))(t, name)
		require.Equal(t, c.want, w.job(j.ID).State(), name)
		_, err := w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Err: refusal.Conflict})
		require.ErrorIs(t, err, refusal.Conflict, "an end is recorded once")
		require.Equal(t, c.want, w.job(j.ID).State(), name)
	}
	must.Fail(w.gate.Record(w.ctx, op.StepID{Job: 99, Index: 1}, gate.Outcome{}))(t, refusal.UnknownTarget)
}
