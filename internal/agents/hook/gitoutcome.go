package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// The messages of git's hooks.
const (
	wordsPushDenied  = "gated: nothing was pushed: the push changes what another agent has reserved.\n"
	wordsChangedMore = "  and there are more\n"
	wordsPushNext    = "What to do: push again when they are free. gated reservation list shows who has what.\n"
)

// maxPaths is how many changed paths are listed.
const maxPaths = 10

// exitRefused makes git stop, as does every code but 0.
const exitRefused = 1

// GitHook judges commits and pushes before they are made.
type GitHook struct {
	Guard
	Repository
}

// Commit judges the commit that git is about to make.
func (h GitHook) Commit(ctx context.Context) Outcome {
	a, err := h.PreCommit(ctx, h.Repository)
	return h.outcome(a, err, "gated: nothing was committed: the commit changes what another agent has reserved.\n",
		"What to do: leave these paths out of the commit, or wait until they are free (gated reservation reserve --wait-for). Do not commit them by other means.\n")
}

// Push judges a push to a remote; refs is git's input to the hook.
func (h GitHook) Push(ctx context.Context, remote string, refs io.Reader) Outcome {
	a, err := h.PrePush(ctx, h.Repository, remote, refs)
	return h.outcome(a, err, wordsPushDenied, wordsPushNext)
}

func (h GitHook) outcome(a GitAnswer, err error, denied, next string) Outcome {
	held := len(a.Held) > 0 || a.More
	switch {
	case err != nil:
		text := fmt.Sprintf("gated: whether another agent has reserved what this changes could not be checked: %s.\n",
			bounded(shownOr(whatFailed(err)), maxField))
		if held {
			text += "These reservations may be in the way:\n" + holders(a.found())
		}
		if because, refused := h.refuses(err); refused {
			return Outcome{Stderr: text + because, Code: exitRefused}
		}
		return Outcome{Stderr: text + "git goes on (--on-failure warn). gated hook status lists such failures.\n"}
	case held:
		return Outcome{Stderr: denied + a.changed() + holders(a.found()) + next, Code: exitRefused}
	default:
		return Outcome{}
	}
}

// whatFailed returns an error's text and its hint.
func whatFailed(err error) string {
	var r *refusal.Refusal
	if errors.As(err, &r) && r.Hint != "" {
		return err.Error() + "; " + r.Hint
	}
	return err.Error()
}

// shownOr returns a text of the daemon or the system in printable form, because another user may have chosen a name in
// it.
func shownOr(text string) string {
	if n := neutral(text, maxField); n != `"`+text+`"` {
		return n
	}
	return text
}

// changed lists the changed paths that are reserved.
func (a GitAnswer) changed() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, h := range a.Held {
		if seen[h.Path] {
			continue
		}
		if len(seen) == maxPaths {
			b.WriteString(wordsChangedMore)
			break
		}
		seen[h.Path] = true
		fmt.Fprintf(&b, "  changed: %s\n", neutral(h.Path, maxField))
	}
	return b.String()
}

// found has each reservation once.
func (a GitAnswer) found() api.Checked {
	out := api.Checked{More: a.More}
	seen := map[string]bool{}
	for _, h := range a.Held {
		if !seen[h.Reservation.ID] {
			seen[h.Reservation.ID] = true
			out.Conflicts = append(out.Conflicts, h.Conflict)
		}
	}
	return out
}
