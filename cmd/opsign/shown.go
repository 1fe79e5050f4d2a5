package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/shown"
	"gated/internal/wire/cli"
)

const flagPayload = "sign these bytes alone: the `DIGEST` that opsign show prints, sha256:...; for each request one"

// digestPattern is what --payload takes.
var digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

func (t *tool) payloadFlag(c *cobra.Command, digests *[]string) {
	c.Flags().StringArrayVar(digests, "payload", nil, flagPayload)
	_ = c.RegisterFlagCompletionFunc("payload", cobra.NoFileCompletions) // the flag was just added
}

// checkDigests refuses what is no digest of a payload.
func checkDigests(digests []string) error {
	for _, d := range digests {
		if !digestPattern().MatchString(d) {
			return cli.Usage(fmt.Sprintf("--payload %s is not sha256: and 64 lower-case hex digits; opsign show prints it", op.Shown(d)))
		}
	}
	return nil
}

// digest is how opsign names the bytes that a signature is over.
func (q question) digest() string { return "sha256:" + op.SHA256(q.bytes) }

// shownDir has what opsign showed last of each request.
func (t *tool) shownDir() shown.Dir { return shown.DirOf(t.Getenv) }

// keep remembers what was just shown of a request. Without beside that is its payload alone.
func (t *tool) keep(q question, way shown.Way, beside bool) error {
	var more *shown.Beside
	if r := q.request; beside {
		more = &shown.Beside{Facts: r.Facts, FactsAt: r.FactsAt.UTC(), Labels: r.Labels, Rule: r.Rule, Why: r.Why}
	}
	r, err := shown.RecordOf(q.request.ID, q.bytes, more, way, t.now())
	if err == nil {
		err = t.shownDir().Keep(r)
	}
	return err
}

// keepOrSay is keep in a run that nobody's signature follows. A request that cannot be remembered
// was shown all the same.
func (t *tool) keepOrSay(q question, way shown.Way, beside bool) {
	if !q.request.State.Open() {
		return // nothing of it can be signed any more
	}
	err, then := t.keep(q, way, beside), "without it, --yes wants --payload"
	if was, r, _ := t.before(q); err == nil && was != nil && r.Way != shown.ToProgram && differs(*was, q) != "" {
		err = shown.ErrPersonSawOther // the same bytes, with something else beside them
	}
	if errors.Is(err, shown.ErrPersonSawOther) {
		then = "--yes signs nothing of it until opsign show showed this on a terminal"
	}
	if err != nil {
		t.Say("%s", cli.Told(fmt.Sprintf("warning: what was shown of %s is not remembered: %s\n  %s\n",
			cli.Inline(q.request.ID), cli.Inline(cli.ProblemOf(err).Detail), then), t.Stderr))
	}
}

// before returns what was shown of a request the last time, as a question, and when. It is nil if
// nothing is kept.
func (t *tool) before(q question) (*question, *shown.Record, error) {
	id, err := op.ParseStepID(q.request.ID)
	if err != nil {
		return nil, nil, err
	}
	r, err := t.shownDir().Last(q.payload.Gate, id)
	if err != nil || r == nil {
		return nil, nil, err
	}
	was := question{request: q.request, bytes: []byte(r.Payload)}
	if b := r.Beside; b != nil {
		was.request.Facts, was.request.FactsAt, was.request.Labels = b.Facts, b.FactsAt, b.Labels
		was.request.Rule, was.request.Why = b.Rule, b.Why
	}
	was.payload, err = op.DecodePayload(was.bytes)
	was.request.Op = was.payload.Op
	return &was, r, err
}

// allowed refuses, in the place of a person's yes, to sign a request that is not the one that was
// shown. Its error is *changed if something else was shown, and NotAllowed if nothing was. With
// --payload the bytes have to be among those that it names, also if a person is asked.
func (a *asker) allowed(q question) (question, error) {
	named := slices.Contains(a.payloads, q.digest())
	other := len(a.payloads) > 0 && !named
	if a.tty != nil && !other {
		return q, nil
	}
	was, r, err := a.before(q)
	switch {
	case err != nil:
		return q, err
	case other && was == nil:
		return q, otherPayload(q.request.ID)
	case other:
		return q, &changed{otherPayload(q.request.ID), q, differs(*was, q)}
	case was == nil && !named:
		return q, notShown(q.request.ID)
	}
	if named {
		q.moving = true // who names the bytes lets counters go on
	}
	if was == nil {
		return q, nil
	}
	was.moving = named
	if what := differs(*was, q); what != "" || !r.Is(q.bytes) {
		return q, &changed{notAsShown(q, *was, r), q, what}
	}
	return q, nil
}

// sinceShown says what of a request a person should look at twice: what differs from what opsign
// showed of it the last time, but for counters, and for times and nonce of a payload that was issued
// anew. It is empty if nothing does, or nothing is known.
func (t *tool) sinceShown(q question) string {
	was, r, err := t.before(q)
	if err != nil || was == nil {
		return ""
	}
	what := difference(*was, q, true, func(f op.Fact) bool { return f.Name == "nonce" || f.Name == "valid" })
	if what == "" {
		return ""
	}
	return fmt.Sprintf("%s is not as opsign showed it at %s. What differs:\n%s", cli.Inline(q.request.ID), cli.Moment(r.Shown), what)
}

func notShown(id string) error {
	return refusal.New(refusal.NotAllowed, "%s was not shown yet, and --yes signs only what was: nothing was signed", id).
		WithHint("read it: opsign show %s, then --yes; or say which bytes you mean: --payload, with the digest that opsign show prints", id)
}

func otherPayload(id string) error {
	return refusal.New(refusal.StaleTarget, "the bytes to sign of %s are not those that --payload names: nothing was signed", id).
		WithHint("read it again: opsign show %s prints its digest", id)
}

// notAsShown refuses a request that differs from what was shown of it.
func notAsShown(q, was question, r *shown.Record) error {
	hint := "read it again: opsign show " + q.request.ID
	if r.Way != shown.ToProgram {
		hint = "read it again, on a terminal: opsign show " + q.request.ID
	}
	if moves(was, q) {
		hint = fmt.Sprintf("only counts, sizes and times move: --yes --payload DIGEST lets them, with the digest that opsign show %s prints",
			q.request.ID)
	}
	return refusal.New(refusal.StaleTarget, "%s is not as opsign showed it at %s, and was not signed", q.request.ID, cli.Moment(r.Shown)).
		WithHint("%s", hint)
}

// sayChanged shows what differs of a request that changed. Its error is that of showing.
func (a *asker) sayChanged(c *changed, since string) error {
	if c.what == "" {
		return nil
	}
	return a.show(fmt.Sprintf("%s changed %s, and nothing was signed. What differs:\n", cli.Inline(c.now.request.ID), since) + c.what)
}

const (
	sinceShownNow    = "after it was shown"
	sinceShownBefore = "since opsign showed it"
)

// digestText says what a signature is over, for --payload.
func (q question) digestText() string {
	if !q.request.State.Open() {
		return ""
	}
	return "  payload:\n    " + q.digest() + "\n"
}
