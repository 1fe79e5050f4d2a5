package cli

import (
	"context"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// usage is a command line that was not understood.
type usage string

func (u usage) Error() string { return string(u) }

// CommandExit is 2.
func (usage) CommandExit() int { return api.ExitUsage }

// Usage returns the error for a command line that was not understood.
func Usage(text string) error { return usage(text) }

// exit ends a command that has said everything with an exit code.
type exit int

func (exit) Error() string { return "" }

// CommandExit is the code itself.
func (e exit) CommandExit() int { return int(e) }

// Ended returns the error of a command that has said everything and ends with
// an exit code: nil for 0.
func Ended(code int) error {
	if code == api.ExitDone {
		return nil
	}
	return exit(code)
}

// Fail prints how the command of that path failed, and returns its exit code.
func (t *Tool) Fail(path string, err error) int {
	var silent exit
	switch {
	case err == nil:
		return api.ExitDone
	case errors.As(err, &silent):
		return silent.CommandExit()
	case errors.Is(err, context.Canceled):
		const interrupted = "interrupted"
		t.Say("%s\n", interrupted)
		t.emitFailure(failure{problem{Code: refusal.Cancelled, Detail: interrupted}})
		return api.ExitRefused
	}
	t.Say("%s", explain(path, err))
	code := api.Exit(err)
	if code != api.ExitUsage {
		t.emitFailure(failureOf(err))
	}
	return code
}

// emitFailure tells a program why a command failed.
func (t *Tool) emitFailure(f failure) {
	if !t.JSON {
		return
	}
	if err := t.Emit(f); err != nil {
		t.Say("%v\n", err)
	}
}

// WhyEnded words how a step or a job of that state ended that did not succeed, as
// Why does a refusal; job is the job's id. It is empty where nothing is known.
func WhyEnded(state op.State, job string, e *api.Error) string {
	if e == nil {
		return ""
	}
	hint := e.Hint
	if hint == "" {
		hint = api.HintOfEnd(state, Inline(job), e.Code)
	}
	return explain("", &refusal.Refusal{Code: e.Code, Detail: e.Detail, Hint: hint})
}

// SayEnded says how a step or a job of that state ended that did not succeed.
func (t *Tool) SayEnded(state op.State, job string, e *api.Error) {
	t.Say("%s", WhyEnded(state, job, e))
}
