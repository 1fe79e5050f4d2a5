package hook

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
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
	ExitCode bool // answer with an exit code instead of JSON
}

// answer is the hook's answer to a harness. A call that is not refused gets no decision: "allow" would skip the user's
// own permissions.
type answer struct {
	Specific *decision `json:"hookSpecificOutput,omitempty"`
	Message  string    `json:"systemMessage,omitempty"` // for the user
}

type decision struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"` // for the agent
}

// Run reads one tool call and judges it. It returns within twice the deadline,
// whatever its input and the daemon do.
func (h ToolHook) Run(ctx context.Context, in io.Reader) Outcome {
	w, err := within(ctx, h.Deadline, func(context.Context) (wish, error) { return h.read(in) })
	if err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = &Failure{Kind: KindInput, Err: err} // it came too late
		}
		return h.unjudged(h.Failed(f.Kind, f.Err))
	}
	if w.path == "" {
		return Outcome{}
	}
	found, err := h.Ask(ctx, w.check)
	switch {
	case err != nil:
		return h.unjudged(err)
	case len(found.Conflicts) == 0 && !found.More:
		return Outcome{}
	default:
		return h.deny(denied(w.path, w.check.Patterns[0], found))
	}
}

// wish is the change that a call would make.
type wish struct {
	path  string // in the call's words
	check api.Check
}

// read finds out which path a call would change. Its errors are *Failure.
func (ToolHook) read(in io.Reader) (wish, error) {
	call, err := ParseCall(in)
	if err != nil {
		return wish{}, &Failure{Kind: KindInput, Err: err}
	}
	if call.Path == "" {
		return wish{}, nil
	}
	place, rel, err := checkout.File(call.Path)
	if err != nil {
		return wish{}, &Failure{Kind: KindPath, Err: err}
	}
	if !utf8.ValidString(place.Path) { // on its way to the daemon it would become another path
		return wish{}, &Failure{Kind: KindPath, Err: refusal.New(refusal.Malformed, "the path %s is not valid UTF-8",
			op.Shown(place.Path))}
	}
	pattern := change{path: rel}.pattern(glob.Options{Scope: place.Path, FoldCase: place.Fold})
	return wish{path: call.Path, check: api.Check{Scope: place, Patterns: []string{pattern}}}, nil
}

// unjudged returns the outcome of a call that could not be judged.
func (h ToolHook) unjudged(err error) Outcome {
	text := whyUnchecked(err)
	because, refused := h.refuses(err)
	switch {
	case refused:
		return h.deny(text + because)
	case h.ExitCode:
		return Outcome{Stderr: text + wordsGoesOn + "\n"}
	default:
		return written(answer{Message: text + wordsGoesOn})
	}
}

// deny refuses a call.
func (h ToolHook) deny(reason string) Outcome {
	if h.ExitCode {
		return Outcome{Stderr: reason, Code: exitDenied}
	}
	return written(answer{Specific: &decision{Event: preToolUse, Decision: "deny", Reason: reason}})
}

// written returns an answer as JSON. If that fails, the exit code says it.
func written(a answer) Outcome {
	b, err := json.Marshal(a)
	if err != nil {
		if a.Specific == nil {
			return Outcome{Stderr: a.Message}
		}
		return Outcome{Stderr: a.Specific.Reason, Code: exitDenied}
	}
	return Outcome{Stdout: string(b) + "\n"}
}
