package driver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// broken is a back end that panics or fails in each call.
type broken struct{ with any }

func (b broken) fail() error {
	if err, ok := b.with.(error); ok {
		return err
	}
	panic(b.with)
}

func (broken) Kind() string { return "guest" }
func (b broken) Observe(context.Context, op.Look) (op.Observed, error) {
	return op.Observed{}, b.fail()
}
func (b broken) List(context.Context) ([]op.Observed, error)    { return nil, b.fail() }
func (b broken) Task(context.Context, string) (Progress, error) { return Progress{}, b.fail() }
func (b broken) Prepare(context.Context, op.Step, func(func())) (op.Observed, Action, error) {
	return op.Observed{}, Action{}, b.fail()
}

// A panic of a back end becomes the error of that call, and the stack is in the log. Errors
// stay as they are.
func TestContain(t *testing.T) {
	calls := map[string]func(Driver) error{
		"a look at guest/web": func(d Driver) error {
			_, err := d.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: "web"}))
			return err
		},
		"a look at every guest": func(d Driver) error { _, err := d.List(t.Context()); return err },
		"step ":                 func(d Driver) error { _, _, err := d.Prepare(t.Context(), op.Step{}, nil); return err },
		"a look at task t7":     func(d Driver) error { _, err := d.Task(t.Context(), "t7"); return err },
	}
	plain := errors.New("plain")
	for what, call := range calls {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		err := call(Contain(broken{"boom"}, logger))
		require.ErrorIs(t, err, ErrPanic)
		require.ErrorContains(t, err, "boom")
		require.Contains(t, log.String(), what)
		require.Contains(t, log.String(), "contain_test.go", "the stack")
		log.Reset()
		require.Equal(t, plain, call(Contain(broken{plain}, logger)))
		require.Empty(t, log.String())
	}
	require.Equal(t, "guest", Contain(broken{}, nil).Kind())
	once := Contain(broken{}, nil)
	require.Equal(t, once, Contain(once, slog.Default()), "one that is contained stays as it is")
}
