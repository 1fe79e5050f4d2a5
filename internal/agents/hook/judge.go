package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/agents/shell"
	"gated/internal/agents/steer"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Outcome is the end of a hook's process: its output and its exit code.
type Outcome struct {
	Stdout, Stderr string
	Code           int
}

// exitDenied is the exit code that tells a harness, even one that reads no answer, that a call is refused. The reason
// is on standard error.
const exitDenied = 2

// ToolHook judges tool calls before they happen.
type ToolHook struct {
	Guard
	For Dialect // nil: Claude
	// Steering asks for the commands of a shell for which the gate has an operation. Nil: the hook does not steer.
	Steering func(context.Context) (api.Steering, error)
	UserHome string // the user's; empty if it is not known
	ExitCode bool   // answer with an exit code instead of JSON, where the product knows that
}

// Run reads one tool call and judges it. It returns within twice the deadline,
// whatever its input and the daemon do.
func (h ToolHook) Run(ctx context.Context, in io.Reader) Outcome {
	w, err := within(ctx, h.Deadline, func(context.Context) (wish, error) { return h.read(in) })
	if w.by != nil {
		h.For = w.by
	}
	if err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = &Failure{Kind: KindInput, Err: err} // it came too late
		}
		return h.unjudged(h.Failed(f.Kind, f.Err))
	}
	end := h.Now().Add(h.Deadline)
	found, err := h.ask(ctx, w, end)
	if len(found.Conflicts) > 0 || found.More {
		return h.deny(denied(found))
	}
	there, unsteered := h.steer(ctx, w, end)
	if err == nil {
		err = unsteered
	}
	switch {
	case len(there) > 0:
		return h.deny(steered(there))
	case err != nil:
		return h.unjudged(err)
	case w.failed != nil:
		return h.unjudged(h.Failed(w.failed.Kind, w.failed.Err))
	default:
		return h.speaks().silent()
	}
}

func (h ToolHook) speaks() Dialect { return orClaude(h.For) }

// wish is the change that a call would make.
type wish struct {
	by     Dialect // whose call it is; nil if that is not known
	checks []api.Check
	paths  map[asked]string // in the call's words
	failed *Failure         // why one of the paths is not among the checks
	runs   []steer.Command  // what a shell would run; none if the hook does not steer
}

// asked is a pattern in a scope.
type asked struct{ scope, pattern string }

// read finds out which paths a call would change. Its errors are *Failure.
func (h ToolHook) read(in io.Reader) (wish, error) {
	call, err := ParseCall(h.speaks(), in)
	w := wish{by: call.By, paths: map[asked]string{}}
	failed := func(err error) *Failure {
		return &Failure{Kind: KindInput, Err: fmt.Errorf("a call of %s: %w", call.By.Product(), err)}
	}
	if err != nil {
		return w, failed(err)
	}
	if h.Steering != nil && call.Runs {
		w.runs = shell.Commands(call.Line, shell.Place{Dir: call.Dir, Home: h.UserHome})
		switch {
		case call.Line == "":
			w.failed = &Failure{Kind: KindInput, Err: refusal.New(refusal.Malformed, "a call of %s has no %s", call.By.Product(), shellMember)}
		case call.Unsure != nil:
			w.failed = failed(call.Unsure)
		}
	}
	if call.Unread != nil && w.failed == nil {
		w.failed = failed(call.Unread)
	}
	for _, path := range call.Paths {
		if err := w.add(path); err != nil && w.failed == nil {
			w.failed = &Failure{Kind: KindPath, Err: err}
		}
	}
	return w, nil
}

// add adds a path to the check of its scope.
func (w *wish) add(path string) error {
	place, rel, err := checkout.File(path)
	if err != nil {
		return err
	}
	if !utf8.ValidString(place.Path) { // on its way to the daemon it would become another path
		return refusal.New(refusal.Malformed, "the path %s is not valid UTF-8", op.Shown(place.Path))
	}
	pattern := change{path: rel}.pattern(glob.Options{Scope: place.Path, FoldCase: place.Fold})
	if _, twice := w.paths[asked{place.Path, pattern}]; twice {
		return nil
	}
	w.paths[asked{place.Path, pattern}] = path
	at := slices.IndexFunc(w.checks, func(c api.Check) bool { return c.Scope.Path == place.Path })
	if at < 0 {
		at = len(w.checks)
		w.checks = append(w.checks, api.Check{Scope: place})
	}
	w.checks[at].Patterns = append(w.checks[at].Patterns, pattern)
	return nil
}

// refused is what others have reserved of a call's paths.
type refused struct {
	api.Checked
	held []heldPath // each once
}

// heldPath is a path of a call and its pattern.
type heldPath struct{ path, pattern string }

// ask asks about all paths, in one question for each scope. All questions together have one deadline. If one of them
// fails, ask still returns what others found.
func (h ToolHook) ask(ctx context.Context, w wish, end time.Time) (out refused, err error) {
	for _, c := range w.checks {
		for rest := c.Patterns; len(rest) > 0; {
			n := fitting(rest)
			c.Patterns, rest = rest[:n], rest[n:]
			failed := h.askOnce(ctx, w, c, end, &out)
			if err == nil {
				err = failed
			}
			if failed != nil && !refusedToSay(failed) {
				return out, err
			}
		}
	}
	return out, err
}

// askOnce asks one question. If the daemon refuses to answer it, because of one of the paths, askOnce asks about each
// half. Otherwise a call could hide a path behind another that the daemon refuses.
func (h ToolHook) askOnce(ctx context.Context, w wish, c api.Check, end time.Time, out *refused) error {
	g := h.Guard
	if g.Deadline = min(end.Sub(h.Now()), h.Deadline); g.Deadline <= 0 {
		return h.Failed(KindTimeout, fmt.Errorf("no answer within %s", h.Deadline))
	}
	found, err := g.Ask(ctx, c)
	if err == nil {
		out.add(w, c, found)
		return nil
	}
	if n := len(c.Patterns); n > 1 && refusedToSay(err) {
		first, second := c, c
		first.Patterns, second.Patterns = c.Patterns[:n/2], c.Patterns[n/2:]
		err = h.askOnce(ctx, w, first, end, out)
		if failed := h.askOnce(ctx, w, second, end, out); err == nil {
			err = failed
		}
	}
	return err
}

// refusedToSay reports whether the daemon answered, and refused to say.
func refusedToSay(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Kind == KindRefused
}

// add adds the daemon's answer to one question.
func (r *refused) add(w wish, c api.Check, found api.Checked) {
	r.Conflicts = append(r.Conflicts, found.Conflicts...)
	r.More = r.More || found.More
	for _, pattern := range c.Patterns {
		mine := func(other api.Conflict) bool { return other.Pattern == pattern }
		alone := len(c.Patterns) == 1 && (found.More || len(found.Conflicts) > 0)
		if alone || slices.ContainsFunc(found.Conflicts, mine) {
			r.held = append(r.held, heldPath{w.paths[asked{c.Scope.Path, pattern}], pattern})
		}
	}
}

// unjudged returns the outcome of a call that could not be judged.
func (h ToolHook) unjudged(err error) Outcome {
	text := whyUnchecked(err)
	because, refused := h.refuses(err)
	switch {
	case refused:
		return h.deny(text + because)
	case h.ExitCode && h.speaks().CanExit():
		return Outcome{Stderr: text + wordsGoesOn + "\n"}
	default:
		return h.speaks().warn(text + wordsGoesOn)
	}
}

// deny refuses a call.
func (h ToolHook) deny(reason string) Outcome {
	if h.ExitCode && h.speaks().CanExit() {
		return Outcome{Stderr: reason, Code: exitDenied}
	}
	return h.speaks().refuse(reason)
}

// decision is a refusal in the form of Claude Code. A call that is not refused gets no decision: "allow" would skip the
// user's own permissions.
type decision struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"` // for the agent
}

// denyByDecision refuses in the form of Claude Code.
func denyByDecision(reason string) Outcome {
	return written(struct {
		Specific decision `json:"hookSpecificOutput"`
	}{decision{Event: preToolUse, Decision: "deny", Reason: reason}}, reason)
}

// sayToUser tells the user something, and decides nothing.
func sayToUser(text string) Outcome {
	return written(struct {
		Message string `json:"systemMessage"`
	}{text}, "")
}

// written returns an answer as JSON. If that fails, the exit code refuses with a reason, if there is one.
func written(answer any, reason string) Outcome {
	b, err := json.Marshal(answer)
	switch {
	case err == nil:
		return Outcome{Stdout: string(b) + "\n"}
	case reason == "":
		return Outcome{Stderr: err.Error()}
	default:
		return Outcome{Stderr: reason, Code: exitDenied}
	}
}
