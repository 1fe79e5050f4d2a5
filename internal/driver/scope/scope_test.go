package scope_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func TestObserve(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**", "a.go")
	o := w.look()
	require.True(t, o.Present)
	require.Equal(t, w.scope(), o.Target)
	require.Equal(t, w.repo.Incarnation(), o.Incarnation)
	require.Equal(t, op.Params{"last_step": ""}, o.Spec)
	require.Equal(t, op.Fact{Name: "path", Text: w.repo.Path}, o.Facts[0])
	require.Equal(t, op.Fact{Name: "reservations", Text: "1"}, o.Facts[2])
	require.Contains(t, o.Facts[3].Text, `exclusive "a.go" "src/**" by builder (uid 1000, alive)`)
	require.Contains(t, o.Facts[3].Text, `in the holder's words: "work of builder"`)

	same := w.look()
	require.Equal(t, o.Fingerprint, same.Fingerprint)
	w.mustReserve("tester", "b.go")
	require.NotEqual(t, o.Fingerprint, w.look().Fingerprint)
	list := must.Get(w.Driver.List(t.Context()))(t)
	require.Len(t, list, 1)
	require.Equal(t, w.look(), list[0])

	for _, other := range []op.Target{{Kind: op.KindScope, Name: "s999"}, {Kind: op.KindScope, Name: "builder"}, {Kind: "guest", Name: w.scope().Name}} {
		require.Equal(t, op.Observed{Target: other}, must.Get(w.Observe(t.Context(), op.At(other)))(t))
	}
	must.Fail(w.Task(t.Context(), "x"))(t, refusal.UnknownTarget)
	require.Equal(t, op.KindScope, w.Kind())
}

// TestRenewingIsNoChange: a holder who renews does not make the operators' signatures stale.
func TestRenewingIsNoChange(t *testing.T) {
	w := newWorld(t)
	r := w.mustReserve("builder", "src/**")
	before := w.look()
	w.wall = w.wall.Add(1e9)
	must.Get(w.Renew(t.Context(), by("builder"), r.ID, 7200e9))(t)
	after := w.look()
	require.Equal(t, before.Fingerprint, after.Fingerprint)
	require.NotEqual(t, before.Facts, after.Facts, "people see it")
}

// lookFor looks at the scope for a transfer to tester.
func (w *world) lookFor(id string) op.Observed {
	o, err := w.Observe(w.ctx, op.Look{Target: w.scope(), Op: op.ForceTransfer, Params: op.Params{"reservation": id, "to": "tester"}})
	require.NoError(w.t, err)
	return o
}

// TestOneOfThem: the signature of a transfer covers the reservation that it names. The operator
// sees it first, beside any number of others.
func TestOneOfThem(t *testing.T) {
	w := newWorld(t)
	r := w.mustReserve("builder", "src/**")
	before := w.lookFor(r.ID.String())
	require.Empty(t, before.Missing)
	require.Equal(t, r.Handover(w.agents["tester"]), before.Fingerprint)
	require.Len(t, before.Facts, 4)
	require.Equal(t, "r1", before.Facts[0].Name)
	require.Contains(t, before.Facts[0].Text, `exclusive "src/**" by builder`)
	require.Equal(t, "goes to", before.Facts[1].Name)
	require.Equal(t, op.Fact{Name: "path", Text: w.repo.Path}, before.Facts[2])
	w.mustReserve("tester", "docs/**")
	require.Equal(t, before, w.lookFor("r1"))
	require.NotEqual(t, before.Fingerprint, w.look().Fingerprint)
	for _, none := range []string{"r3", "", "1", "src/**", "builder"} {
		require.Contains(t, w.lookFor(none).Missing, "there is no "+none+" in "+w.scope().String())
	}
	here := w.repo
	w.repo = w.place(here.Path + "-other")
	other := w.mustReserve("tester", "**")
	w.repo = here
	require.NotEmpty(t, w.lookFor(other.ID.String()).Missing, "another scope's")
}

func TestObserveOfAnotherDirectory(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	target := w.scope()
	require.NoError(t, os.Rename(w.repo.Path, w.repo.Path+".old"))
	require.NoError(t, os.Mkdir(w.repo.Path, 0o755))
	require.False(t, must.Get(w.Observe(t.Context(), op.At(target)))(t).Present)
	require.Empty(t, must.Get(w.Driver.List(t.Context()))(t))

	// A directory that is made again is another scope.
	w.repo = w.place(w.repo.Path)
	require.NotEqual(t, target, w.scope())
	require.Equal(t, op.Fact{Name: "reservations", Text: "0"}, w.look().Facts[2])
}

func TestObserveWhenNothingIsKnown(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	target, broken := w.scope(), errors.New("disk")
	w.shows = func(*reserve.View) error { return broken }
	must.Fail(w.Observe(t.Context(), op.At(target)))(t, broken)
	must.Fail(w.Driver.List(t.Context()))(t, broken)
}

func TestReleasesAll(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	w.mustReserve("tester", "docs/**")
	elsewhere := w.repo
	w.repo = w.place(w.repo.Path + "-other")
	w.mustReserve("writer", "**")
	w.repo = elsewhere
	p := w.permit(w.releaseAll())
	require.NoError(t, w.execute(p))
	require.Equal(t, []string{"r3 writer **"}, w.held(), "another scope is nobody's business")
	require.Equal(t, op.Params{"last_step": p.Step().ID.String()}, w.look().Spec)
	require.Equal(t, op.StateSucceeded, w.record(p).State)
	w.mustReserve("writer", "**")
	require.Error(t, w.execute(p), "a permit works once")
	require.Equal(t, []string{"r3 writer **", "r4 writer **"}, w.held())
}

func TestReleasesWhatIsEmpty(t *testing.T) {
	w := newWorld(t)
	p := w.permit(w.releaseAll())
	require.NoError(t, w.execute(p))
	require.Equal(t, op.StateSucceeded, w.record(p).State)
}

func TestTransfers(t *testing.T) {
	w := newWorld(t)
	r := w.mustReserve("builder", "src/**")
	w.mustReserve("tester", "docs/**")
	p := w.permit(w.transfer(r.ID.String(), "writer"))
	require.NoError(t, w.execute(p))
	require.Equal(t, []string{"r1 writer src/**", "r2 tester docs/**"}, w.held())
	require.Equal(t, op.Params{"last_step": p.Step().ID.String()}, w.look().Spec)
	require.Equal(t, op.StateSucceeded, w.record(p).State)
	must.Fail(w.Release(t.Context(), by("builder"), r.ID))(t, refusal.NotHolder, "it is the other's now")
}

// TestRefusesBeforeThePermitIsUsed: a caller can ask for the step again, and the journal says
// refused.
func TestRefusesBeforeThePermitIsUsed(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	// A change of another reservation does not matter; a change of the named one does.
	p, q := w.permit(w.transfer("r1", "writer")), w.permit(w.releaseAll())
	w.mustReserve("tester", "docs/**")
	require.ErrorIs(t, w.execute(q), refusal.StaleTarget)
	must.Get(w.Transfer(t.Context(), by("builder"), 1, "tester"))(t)
	require.ErrorIs(t, w.execute(p), refusal.StaleTarget)
	require.Equal(t, op.StateRefused, must.Get(w.gate.Request(t.Context(), p.Step().ID))(t).Step.State)

	p = w.permit(w.transfer("r1", "writer"))
	must.Get(w.Release(t.Context(), by("tester"), 1))(t)
	require.ErrorIs(t, w.execute(p), refusal.StaleTarget)
	require.Equal(t, []string{"r2 tester docs/**"}, w.held())
}

// TestRefusesWhatIsNotThere: the gate refuses the request.
func TestRefusesWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	here := w.repo
	w.repo = w.place(here.Path + "-other")
	r := w.mustReserve("tester", "**")
	w.repo = here
	for _, id := range []string{"r99", r.ID.String()} {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{w.transfer(id, "writer")}})
		require.ErrorIs(t, err, refusal.UnknownTarget)
		require.ErrorContains(t, err, "there is no "+id+" in scope/s1: it has ended, or is another scope's")
	}
}

// TestRefusesWhatCannotSucceed: nobody is asked to sign, the code is that of the transfer, and nothing is kept of the request.
func TestRefusesWhatCannotSucceed(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	w.mustReserve("builder", "src/x*")
	w.mustReserve("tester", "docs/**")
	for _, c := range []struct {
		id, to string
		want   refusal.Code
		says   string
	}{
		{"r3", "nobody", refusal.UnknownTarget, `no agent "nobody" is registered`},
		{"r3", "tester", refusal.BadParams, "tester has r3 already"},
		{"r1", "writer", refusal.Conflict, `writer would have what overlaps with another's: "src/**" overlaps "src/x*" of r2`},
		{"r2", "tester", refusal.Conflict, `"src/x*" overlaps "src/**" of r1`},
	} {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{w.transfer(c.id, c.to)}})
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.says)
	}
	require.Empty(t, must.Get(w.gate.OpenTargets(w.ctx))(t))
	must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{w.transfer("r3", "writer")}}))(t)
}

// TestWhatWaitsWhileItCannotBeDone: what is in the way may go, so the request stays. An agent that ended does not come back: who gets
// its name is another one, whom nobody was shown.
func TestWhatWaitsWhileItCannotBeDone(t *testing.T) {
	w := newWorld(t)
	w.mustReserve("builder", "src/**")
	r := w.request(w.transfer("r1", "writer"))
	again := func() op.Request {
		require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		return must.Get(w.gate.Request(w.ctx, r.ID))(t)
	}
	other := w.mustReserve("builder", "src/x*")
	require.Equal(t, op.StatePending, again().Step.State)
	require.Equal(t, r.Payload, again().Payload)
	must.Get(w.Release(w.ctx, by("builder"), other.ID))(t)
	require.Equal(t, op.StatePending, again().Step.State)

	gone := w.agents["writer"]
	delete(w.agents, "writer")
	require.Equal(t, op.StateSuperseded, again().Step.State)
	gone.Registration++
	w.agents["writer"] = gone
	require.Equal(t, op.StateSuperseded, again().Step.State)
	require.NotEqual(t, r.ID, w.request(w.transfer("r1", "writer")).ID)
}

// TestFailsAfterThePermitWasUsed: after a refusal by the book, nothing has changed. After any
// other error, the result is not known.
func TestFailsAfterThePermitWasUsed(t *testing.T) {
	held := []string{"r1 builder src/**", "r2 tester docs/**"}
	for name, c := range map[string]struct {
		ask    func(w *world) op.Ask
		before func(w *world)
		after  error
		want   error
		held   []string
	}{
		"nobody of that name": {ask: func(w *world) op.Ask { return w.transfer("r1", "writer") }, want: refusal.UnknownTarget,
			before: func(w *world) { delete(w.agents, "writer") }, held: held},
		"it would overlap": {ask: func(w *world) op.Ask { return w.transfer("r1", "writer") }, want: refusal.Conflict,
			before: func(w *world) { w.mustReserve("builder", "src/x*") }, held: []string{"r1 builder src/**", "r2 tester docs/**", "r3 builder src/x*"}},
		"one more came": {ask: (*world).releaseAll, before: func(w *world) { w.mustReserve("writer", "x") }, want: refusal.StaleTarget,
			held: append(held, "r3 writer x")},
		"one went": {ask: (*world).releaseAll, before: func(w *world) {
			must.Get(w.Release(w.ctx, by("tester"), 2))(w.t)
		}, want: refusal.StaleTarget, held: held[:1]},
		"one has another holder": {ask: (*world).releaseAll, before: func(w *world) {
			must.Get(w.Transfer(w.ctx, by("builder"), 1, "writer"))(w.t)
		}, want: refusal.StaleTarget, held: []string{"r1 writer src/**", held[1]}},
		"it has another holder": {ask: func(w *world) op.Ask { return w.transfer("r1", "tester") }, before: func(w *world) {
			must.Get(w.Transfer(w.ctx, by("builder"), 1, "writer"))(w.t)
		}, want: refusal.StaleTarget, held: []string{"r1 writer src/**", held[1]}},
		"it ended": {ask: func(w *world) op.Ask { return w.transfer("r1", "tester") }, before: func(w *world) {
			must.Get(w.Release(w.ctx, by("builder"), 1))(w.t)
		}, want: refusal.StaleTarget, held: held[1:]},
		"the disk is full":  {ask: (*world).releaseAll, after: refusal.New(refusal.Unavailable, "disk"), want: refusal.Unavailable, held: []string{}},
		"something else":    {ask: (*world).releaseAll, after: errors.New("what"), held: []string{}},
		"the caller's time": {ask: (*world).releaseAll, after: context.DeadlineExceeded, want: context.DeadlineExceeded, held: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustReserve("builder", "src/**")
			w.mustReserve("tester", "docs/**")
			p := w.permit(c.ask(w))
			if c.before != nil {
				w.before = func() { c.before(w) }
			}
			if c.after != nil {
				w.after = func() error { return c.after }
			}
			err := w.execute(p)
			require.Error(t, err)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, c.after != nil, driver.IsUnknown(err), "%v", err)
			require.Equal(t, c.held, w.held())
			if c.after != nil {
				require.Equal(t, p.Step().ID.String(), w.look().Spec.Str("last_step"), "what happened shows")
			} else {
				require.Empty(t, w.look().Spec.Str("last_step"))
			}
		})
	}
}
