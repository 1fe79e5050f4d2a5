package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// failure is how a program sees why a command failed.
type failure struct {
	Error Problem `json:"error"`
}

// Problem is how a program sees a refusal.
type Problem struct {
	Code    refusal.Code  `json:"code"`
	Detail  string        `json:"detail"`
	Hint    string        `json:"hint,omitempty"`
	Stage   refusal.Stage `json:"stage,omitempty"`
	Request string        `json:"request,omitempty"`
	State   op.State      `json:"state,omitempty"`
}

// unanswered is an error that says that no daemon answers, with what became of
// what was asked before.
type unanswered struct {
	error
	known string
}

func (u unanswered) Unwrap() error { return u.error }

// Unanswered adds to an error that says that no daemon answers what is known of
// what it was asked before: known where nothing of it hung on the last answer,
// and doubtful where the connection broke before that; "" adds nothing. Any other
// error, and nil, is returned as it is.
func Unanswered(err error, known, doubtful string) error {
	var gone *client.Unreachable
	if !errors.As(err, &gone) {
		return err
	}
	if gone.Asked && doubtful != "" {
		known = doubtful
	}
	if known == "" {
		return err
	}
	return unanswered{err, known}
}

// Unheard adds to an error what is known of what a daemon accepted before, where nobody says now how that ended: no daemon answers, or
// one that cannot decide, such as one that cannot start. Any other error, and nil, is returned as it is.
func Unheard(err error, known string) error {
	var r *refusal.Refusal
	if errors.As(err, &r) && r.Code == refusal.Unavailable {
		more := *r
		more.Hint = hintOf(r.Code, r.Hint) + "\n" + known
		return &more
	}
	return Unanswered(err, known, "")
}

func failureOf(err error) failure {
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		var asked unanswered
		_ = errors.As(err, &asked) // else it has no hint
		return failure{Problem{Code: refusal.Unavailable, Detail: gone.Error(), Hint: asked.known}}
	}
	p := api.ProblemOf(err)
	if p.Code == refusal.Internal && !errors.As(err, new(*refusal.Refusal)) {
		p.Detail = err.Error() // it came about here, and no daemon has it in its log
	}
	return failure{Problem{Code: p.Code, Detail: p.Detail, Hint: hintOf(p.Code, p.Hint), Stage: p.Stage,
		Request: p.Request, State: p.State}}
}

// ProblemOf returns an error that does not end the command as a program sees it, nil for none.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	p := failureOf(err).Error
	return &p
}

// Why words an error that does not end the command of that path: a refusal, and
// on lines of their own what to do about it.
func Why(path string, err error) string { return explain(path, err) }

// SayWhy says what an error that does not end the command is about.
func (t *Tool) SayWhy(err error) { t.Say("%s", Why("", err)) }

// explain words how the command of that path failed. A refusal is "code:
// detail" and, on lines of its own, what to do.
func explain(path string, err error) string {
	var misused usage
	var gone *client.Unreachable
	var r *refusal.Refusal
	switch {
	case errors.As(err, &misused):
		return fmt.Sprintf("usage: %s\n  hint: %s --help\n", Lines(misused.Error()), path)
	case errors.As(err, &gone):
		text := "the daemon cannot be reached\n"
		for _, a := range gone.Tried {
			text += fmt.Sprintf("  tried %s: %s\n", op.Shown(a.Path), Lines(a.Err.Error()))
			if a.Hint != "" {
				text += fmt.Sprintf("  hint: %s\n", Lines(a.Hint))
			}
		}
		var asked unanswered
		if errors.As(err, &asked) {
			text += fmt.Sprintf("  hint: %s\n", Lines(asked.known))
		}
		return text
	case errors.As(err, &r):
		text := op.Shown(string(r.Code)) + "\n"
		if r.Detail != "" { // a step that was cancelled, say, has none
			text = fmt.Sprintf("%s: %s\n", op.Shown(string(r.Code)), Lines(r.Detail))
		}
		if hint := hintOf(r.Code, r.Hint); hint != "" {
			text += fmt.Sprintf("  hint: %s\n", Lines(hint))
		}
		return text
	default:
		// It came about here, and no daemon has it in its log.
		return fmt.Sprintf("%s: %s\n", refusal.Internal, Lines(err.Error()))
	}
}

// hintOf returns what to do about a refusal: what it says itself, else what is
// so of its code. A code of a newer daemon's has neither.
func hintOf(code refusal.Code, own string) string {
	if own != "" {
		return own
	}
	return api.HintOf(code)
}

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
		t.emitFailure(failure{Problem{Code: refusal.Cancelled, Detail: interrupted}})
		return api.ExitRefused
	}
	err = denied(path, err)
	t.Say("%s", explain(path, err))
	code := api.Exit(err)
	if code != api.ExitUsage {
		t.emitFailure(failureOf(err))
	}
	return code
}

// denied makes a refusal of a file of this host that the user of the command of that path may not use. Any other error stays.
func denied(path string, err error) error {
	var file *fs.PathError
	if errors.As(err, new(*refusal.Refusal)) || errors.As(err, new(*client.Unreachable)) || !errors.Is(err, fs.ErrPermission) || !errors.As(err, &file) {
		return err
	}
	return refusal.New(refusal.NotAllowed, "%v", err).
		WithHint("ls -ld %s says whose it is: run this as that user, or as root, sudo %s", op.Shown(file.Path), path)
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
