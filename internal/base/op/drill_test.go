package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestWhatADrillMayRehearse(t *testing.T) {
	s := lookup(t, op.Drill)
	for _, as := range op.Catalogue() {
		p := op.Params{"as": as.Name, "target": as.Kind + "/x"}
		err := s.Check(op.Drilled, p)
		if as.Kind == op.KindTrust || as.Kind == op.KindDrill {
			requireRefusal(t, err, refusal.BadParams, as.Name)
			requireRefusal(t, s.Check(op.Drilled, op.Params{"as": as.Name}), refusal.BadParams, as.Name)
			continue
		}
		require.NoError(t, err, as.Name)
		spec, target, err := op.Rehearsed(p)
		require.NoError(t, err)
		require.Equal(t, as.Name, spec.Name)
		require.Equal(t, op.Target{Kind: as.Kind, Name: "x"}, target)
		_, target, err = op.Rehearsed(op.Params{"as": as.Name})
		require.NoError(t, err)
		require.Equal(t, op.Target{Kind: as.Kind}, target)
	}
	for _, c := range []struct {
		params op.Params
		want   refusal.Code
	}{
		{op.Params{}, refusal.BadParams},
		{op.Params{"as": ""}, refusal.BadParams},
		{op.Params{"as": int64(1)}, refusal.BadParams},
		{op.Params{"as": "guest.fly"}, refusal.BadParams},
		{op.Params{"as": "Guest.destroy"}, refusal.BadParams},
		{op.Params{"as": "guest.destroy", "target": "command/x"}, refusal.BadParams},
		{op.Params{"as": "guest.destroy", "target": ""}, refusal.Malformed},
		{op.Params{"as": "guest.destroy", "target": "guest/*"}, refusal.Malformed},
		{op.Params{"as": "guest.destroy", "target": "guest/a\u202eb"}, refusal.Malformed},
		{op.Params{"as": "guest.destroy", "labels": map[string]any{}}, refusal.BadParams},
	} {
		requireRefusal(t, s.Check(op.Drilled, c.params), c.want, string(c.params.Canonical()))
	}
	for _, name := range []string{"signature", "Signatures", "x"} {
		requireRefusal(t, s.Check(op.Target{Kind: op.KindDrill, Name: name}, op.Params{"as": "guest.destroy"}), refusal.BadParams, name)
	}
	require.True(t, s.Always())
	require.True(t, s.Once)
	require.Empty(t, s.Takes)
	must.Get(op.ParseTarget(op.Drilled.String()))(t)
}

func TestADrillInWords(t *testing.T) {
	require.Equal(t, "guest.destroy of guest/db-1", op.Rehearses(op.Params{"as": "guest.destroy", "target": "guest/db-1"}))
	require.Equal(t, "guest.destroy", op.Rehearses(op.Params{"as": "guest.destroy"}))
	require.NotContains(t, op.Rehearses(op.Params{"as": "a\nb", "target": "c\x1b[2Jd"}), "\n")
}
