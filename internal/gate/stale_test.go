package gate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// A command is neither destroyed nor made, so the words are about its program and
// entry.
func TestStaleSaysWhatBecameOfTheTarget(t *testing.T) {
	guest := op.Step{Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web"}, Incarnation: "one", Fingerprint: "a"}
	command := op.Step{Op: op.Run, Target: op.Target{Kind: op.KindCommand, Name: "drop-db"}, Incarnation: "one", Fingerprint: "a"}
	for _, c := range []struct {
		step             op.Step
		says, hint, over string
	}{
		{guest, "destroyed or made again", "a new request names the new one", "not what is there any more"},
		{command, "its program, interpreter, probe, user or entry in gated.yaml is another one now", "gated commands drop-db",
			"its program, interpreter, probe, user or entry in gated.yaml is another one now: ask again"},
	} {
		now := op.Observed{Incarnation: "two", Fingerprint: "a"}
		err := gate.Stale(c.step, now)
		require.ErrorIs(t, err, refusal.StaleTarget)
		require.ErrorContains(t, err, c.says)
		require.Contains(t, refusal.As(err).Hint, c.hint)
		require.Contains(t, gate.Overtaken(c.step, now), c.over)
		require.NoError(t, gate.Stale(c.step, op.Observed{Incarnation: "one", Fingerprint: "a"}))
	}
	require.NotContains(t, gate.Overtaken(command, op.Observed{Incarnation: "one", Missing: "it"}), "gated.yaml")
}

// lengthy is a back end with looks that take long: what is to happen meanwhile does.
type lengthy struct {
	*backend
	meanwhile func()
}

func (s *lengthy) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := s.backend.Observe(ctx, l)
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	return o, err
}

// Of two looks at the same time that see the same change, one issues the request anew. The other one would take it from an
// operator who is reading it.
func TestTwoLooksIssueARequestAnewOnce(t *testing.T) {
	t.Parallel()
	back := &lengthy{backend: newBackend()}
	back.put("web")
	w := newWorldOn(t, back)
	w.back = back.backend
	r := w.request(ask("guest.destroy", "web"))
	w.back.change("web", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
	var read op.Request
	back.meanwhile = func() {
		require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		read = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	}
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	require.NotEqual(t, r.Nonce, read.Nonce, "it was issued anew")
	require.Equal(t, read.Payload, must.Get(w.gate.Request(w.ctx, r.ID))(t).Payload, "and no second time")
	must.Get(w.approve(read))(t)
}
