package gate

import (
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// turnedAway is the submission that the gate refused last. It has no id, so whoever is sent to its request finds none.
// A restart forgets it.
type turnedAway struct {
	what string // the operation and its target
	why  *refusal.Refusal
	at   time.Time
}

// turnAway keeps a submission that was refused.
func (g *Gate) turnAway(sub op.Submission, refused error) {
	t := &turnedAway{what: "a job without steps", why: refusal.As(refused), at: g.clock.Now().Now}
	if len(sub.Steps) > 0 {
		t.what = asksFor(sub.Steps[0])
	}
	if n := len(sub.Steps); n > 1 {
		t.what = fmt.Sprintf("a job of %d steps, which begins with %s", n, t.what)
	}
	g.turned.Store(t)
}

// asksFor names what was asked. It quotes words that are no names: they are a caller's, and could go on as a sentence of
// the gate.
func asksFor(a op.Ask) string {
	name, target := a.Op, a.Target.String()
	if _, err := op.Lookup(name); err != nil {
		name = op.ShownQuoted(clip(name))
	}
	if _, err := op.ParseTarget(target); err != nil {
		target = op.ShownQuoted(clip(target))
	}
	return name + " of " + target
}

// orTurnedAway is the answer for a job or a request that was looked for. If its id is above those of all jobs, the answer
// says which job is the newest, and what the gate refused since: that may be what the caller was sent to look at.
func (g *Gate) orTurnedAway(tx *store.Tx, id op.JobID, missing error) error {
	if !errors.Is(missing, refusal.UnknownTarget) {
		return missing
	}
	newest, made, err := journal.NewestJob(tx)
	switch {
	case err != nil:
		return err
	case id <= newest:
		return missing
	}
	r := *refusal.As(missing)
	if r.Detail += ": there is no job yet"; newest != 0 {
		r.Detail = fmt.Sprintf("%s: the newest job is %s", refusal.As(missing).Detail, newest)
	}
	if last := g.turned.Load(); last != nil && !last.at.Before(made) {
		r.Detail += fmt.Sprintf(". %s ago the gate refused %s: %s: %s", max(g.clock.Now().Now.Sub(last.at), 0).Truncate(time.Second),
			last.what, last.why.Code, op.Shown(clipTo(last.why.Detail, maxDetail)))
		if last.why.Hint != "" {
			r.Hint = "the gate told who asked: " + op.Shown(clipTo(last.why.Hint, maxDetail))
		}
	}
	return &r
}
