package driver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// stage is a driver that records each call.
type stage struct {
	Driver
	did    []string
	panics string // the call that panics
}

func (s *stage) note(what string) {
	s.did = append(s.did, what)
	if s.panics == what {
		panic(what)
	}
}

func (s *stage) Prepare(_ context.Context, _ op.Step, cleanup func(func())) (op.Observed, Action, error) {
	cleanup(func() { s.note("end 1") })
	cleanup(func() { s.note("end 2") })
	s.note("prepare")
	return op.Observed{}, Does(func(context.Context) (Result, error) { s.note("act"); return Result{}, nil }), nil
}

// Without a permit of a gate, Run does not call the driver.
func TestNoPermitNoEffect(t *testing.T) {
	s := &stage{}
	must.Fail(Run(t.Context(), gate.Permit{}, s))(t, refusal.NotAllowed)
	require.Empty(t, s.did)
}

// destroys is a permit for a destroy. The test chooses what its Use returns.
type destroys struct{ answer error }

func (destroys) Step() op.Step {
	return op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web"}, Params: op.Params{}}
}
func (d destroys) Use(context.Context, op.Observed) error { return d.answer }

func TestActionsRunAfterTheirPermitWasUsed(t *testing.T) {
	no := errors.New("no")
	for what, c := range map[string]struct {
		answer error
		panics string
		did    []string
	}{
		"a permit that may be used":   {nil, "", []string{"prepare", "act", "end 2", "end 1"}},
		"a permit that is refused":    {no, "", []string{"prepare", "end 2", "end 1"}},
		"a driver that panics":        {nil, "prepare", []string{"prepare", "end 2", "end 1"}},
		"an action that panics":       {nil, "act", []string{"prepare", "act", "end 2", "end 1"}},
		"a panic as it is cleaned up": {nil, "end 2", []string{"prepare", "act", "end 2", "end 1"}},
	} {
		s := &stage{panics: c.panics}
		var log bytes.Buffer
		_, err := run(t.Context(), destroys{c.answer}, Contain(s, slog.New(slog.NewTextHandler(&log, nil))), gate.Permit{})
		require.Equal(t, c.did, s.did, what)
		switch c.panics {
		case "":
			require.Equal(t, c.answer, err, what)
			require.Empty(t, log.String(), what)
		case "end 2":
			require.NoError(t, err, "what was done was done")
			require.Contains(t, log.String(), "panic=\"end 2\"", what)
		default:
			require.ErrorIs(t, err, ErrPanic, what)
			require.Contains(t, log.String(), "run_test.go", "the stack")
		}
	}
}

func TestAnActionAroundAnother(t *testing.T) {
	s := &stage{}
	_, act := must.Two(s.Prepare(t.Context(), op.Step{}, func(func()) {}))(t)
	twice := Around(act, func(ctx context.Context, do Work) (Result, error) {
		s.note("before")
		must.Get(do(ctx))(t)
		return do(ctx)
	})
	must.Fail(twice.do(t.Context(), gate.Permit{}))(t, refusal.Internal)
	require.Equal(t, []string{"prepare", "before", "act"}, s.did, "what a permit is for is done once")
	require.Nil(t, Around(Action{}, nil).do)
	require.Nil(t, Does(nil).do, "Run refuses it before it uses the permit")
}

// If a driver returns no action, Run does not use the permit.
func TestNoActionUsesNoPermit(t *testing.T) {
	must.Fail(run(t.Context(), destroys{errors.New("it was used")}, forgetful{}, gate.Permit{}))(t, refusal.Internal)
}

type forgetful struct{}

func (forgetful) Prepare(context.Context, op.Step, func(func())) (op.Observed, Action, error) {
	return op.Observed{}, Action{}, nil
}
