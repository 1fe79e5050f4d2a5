package page

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// groupWish is what the page of a group asks the terminal for.
type groupWish struct {
	kind   kind
	named  []Named
	reason string
}

// ended is the page that says what became of a group in the terminal.
type ended struct {
	Back    string
	Outcome []outcome
}

// outcome is what became of one request of a group.
type outcome struct{ Gate, ID, Text string }

// togetherInTerminal has the terminal ask for a group. The form names the requests. Each of them has to be in the group as the gates
// have it now: a form cannot put another one among those that are confirmed as one.
func (c Config) togetherInTerminal(asked *sync.Mutex, members ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, err := readGroupWish(r, members)
		if err == nil {
			err = c.inGroup(r, in)
		}
		var done []api.Request
		var why error
		if err == nil {
			err = oneQuestion(asked, func() error {
				done, why = c.Terminal.Together(r.Context(), in.named, in.reason)
				return nil
			})
		}
		if err == nil && len(done) == 0 {
			err = why // nothing was decided, so there is one thing to say
		}
		if err != nil {
			c.Wall.Refuse(w, r, err)
			return
		}
		c.render(w, r, frame{Title: "Decided", Tab: "waiting"}, "ended", ended{Back: in.kind.link(), Outcome: outcomes(in.named, done, why)})
	}
}

// inGroup refuses, as StaleTarget, a request that is not in the group, or that the session may not read.
func (c Config) inGroup(r *http.Request, in groupWish) error {
	_, all, err := c.groupOf(r, in.kind)
	if err != nil {
		return err
	}
	for _, n := range in.named {
		if !slices.ContainsFunc(all, func(l like) bool { return l.gate.Name == n.Gate && l.request.ID == n.ID }) {
			return refusal.New(refusal.StaleTarget, "%s at %s is not one of this group, or waits no more, and nothing was signed", n.ID, n.Gate).
				WithHint("load the page of the group again, and read it")
		}
	}
	return nil
}

// outcomes says what became of each request: those that were decided, the one at which it ended, and those after it.
func outcomes(named []Named, done []api.Request, why error) []outcome {
	var out []outcome
	for i, n := range named {
		one := outcome{Gate: n.Gate, ID: n.ID, Text: "Not signed: it ended before."}
		switch {
		case i < len(done) && done[i].State == op.StatePending:
			one.Text = "Signed. It needs more signatures."
		case i < len(done):
			one.Text = "Signed. It is " + cli.Inline(string(done[i].State)) + "."
		case i == len(done) && why != nil:
			one.Text = inLines(refusal.As(why).Sentence())
		}
		out = append(out, one)
	}
	return out
}

// readGroupWish reads a form strictly: op and key once, from one to maxTogether members, each another one, and nothing else.
func readGroupWish(r *http.Request, members []string) (groupWish, error) {
	bad := func(format string, args ...any) (groupWish, error) {
		return groupWish{}, refusal.New(refusal.Malformed, format, args...).WithHint("load the page of the group again")
	}
	if err := r.ParseForm(); err != nil {
		return bad("the form cannot be read")
	}
	for name, values := range r.PostForm {
		if !slices.Contains(members, name) || len(values) != 1 && name != "member" {
			return bad("the form has %q, which does not belong there once", name)
		}
	}
	in := groupWish{kind: kind{r.PostForm.Get("op"), r.PostForm.Get("key")}, reason: r.PostForm.Get("reason")}
	if n := len(r.PostForm["member"]); n == 0 || n > maxTogether {
		return bad("the form names %d requests, and has to name from 1 to %d", n, maxTogether)
	}
	for _, text := range r.PostForm["member"] {
		gate, rest, _ := strings.Cut(text, " ")
		id, digest, _ := strings.Cut(rest, " ")
		one := Named{gate, id, digest}
		if _, err := op.ParseStepID(id); err != nil {
			return bad("%q is no request", id)
		}
		if _, ok := op.ParseDigest(digest); !ok {
			return bad("the form does not say which payload was shown")
		}
		if slices.ContainsFunc(in.named, func(n Named) bool { return n.Gate == gate && n.ID == id }) {
			return bad("the form names %s at %s twice", id, gate)
		}
		in.named = append(in.named, one)
	}
	if slices.Contains(members, "reason") && in.reason == "" {
		return groupWish{}, refusal.New(refusal.Malformed, "a rejection needs a reason").WithHint("say why, for the requesters")
	}
	return in, nil
}
