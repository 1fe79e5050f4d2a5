package drill_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drill"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

var rehearsal = op.Params{"as": "guest.destroy", "target": "guest/db-1"}

func TestTheTargetIsAlwaysTheSame(t *testing.T) {
	d := drill.New(gateworld.ID)
	require.Equal(t, op.KindDrill, d.Kind())
	o := must.Get(d.Observe(t.Context(), op.At(op.Drilled)))(t)
	require.True(t, o.Present)
	require.Equal(t, op.Incarnation(gateworld.ID), o.Incarnation)
	require.True(t, o.Fingerprint.Valid())
	require.Empty(t, o.Facts)
	require.Equal(t, []op.Observed{o}, must.Get(d.List(t.Context()))(t))

	asked := must.Get(d.Observe(t.Context(), op.Look{Target: op.Drilled, Op: op.Drill, Params: rehearsal}))(t)
	require.Equal(t, []op.Fact{{Name: "rehearses", Text: "guest.destroy of guest/db-1"}, {Name: "changes", Text: "nothing"}}, asked.Facts)
	require.Equal(t, o.Fingerprint, asked.Fingerprint)

	restored := must.Get(drill.New("f123456789abcdef0123456789abcdef").Observe(t.Context(), op.At(op.Drilled)))(t)
	require.NotEqual(t, o.Incarnation, restored.Incarnation)
	require.NotEqual(t, o.Fingerprint, restored.Fingerprint)
}

func TestThereIsNoOtherTargetAndNoOtherWork(t *testing.T) {
	d := drill.New(gateworld.ID)
	other := must.Get(d.Observe(t.Context(), op.At(op.Target{Kind: op.KindDrill, Name: "others"})))(t)
	require.False(t, other.Present)
	_, _, err := d.Prepare(t.Context(), op.Step{Op: "guest.destroy", Target: op.Drilled}, nil)
	require.ErrorIs(t, err, refusal.UnknownOp)
	must.Fail(d.Task(t.Context(), "x"))(t, refusal.UnknownTarget)
}
