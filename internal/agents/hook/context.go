package hook

import (
	"cmp"
	"context"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
)

const (
	// maxContext is the most that ContextHook says, in bytes. An agent pays for each of them.
	maxContext = 2 << 10
	// maxBehind is how many entries of the audit log one hook looks through.
	maxBehind = 5000
	// maxContextField is the most of a text of others that is said here, in bytes of its printable form.
	maxContextField = 160
	// maxFates is how many steps are kept to be said: more than have room.
	maxFates = 48
)

// ContextHook says at the start of a session, or at a prompt, what became of the requests of an agent since the last
// such hook.
type ContextHook struct {
	Guard         // its Check is not used
	For   Dialect // the product that runs the hook; nil: Claude

	// Self is the agent's registration, builder#7, or uid:1000. Head is the number of the newest entry of the audit log.
	// Events calls its function with each entry above after that concerns a name, builder or uid:1000. Requesters are
	// those of a job, as api.Job has them.
	Self       func(context.Context) (string, error)
	Head       func(context.Context) (int64, error)
	Events     func(ctx context.Context, holder string, after int64, fn func(api.Entry) error) error
	Requesters func(ctx context.Context, job string) ([]string, error)
}

// Run returns what to say, and a function that remembers that it was said. If the daemon cannot be asked, Run says
// nothing and records that. The first hook of an agent says nothing: all before it is old.
//
// Its failures do not count for the circuit: it reads the log, and a slow answer to that must not stop the checks of
// edits. While the circuit is open, it does not ask.
func (h ContextHook) Run(ctx context.Context) (o Outcome, said func()) {
	none := func() {}
	if h.Home.circuit().state(h.Now(), h.Home.socket()) == open {
		_ = h.recorded(KindOpen, errOpen)
		return Outcome{}, none
	}
	type told struct {
		text string
		seen
	}
	now, err := within(ctx, h.Deadline, func(ctx context.Context) (t told, err error) {
		t.text, t.seen, err = h.news(ctx)
		return t, err
	})
	if err != nil {
		_ = h.recorded(kindOf(err), err)
		return Outcome{}, none
	}
	return orClaude(h.For).context().tell(now.text), func() {
		// If it cannot be kept, the next hook says the same again.
		_ = h.Home.keepSeen(now.seen)
	}
}

// news asks the daemon for what happened, and words it.
func (h ContextHook) news(ctx context.Context) (text string, now seen, err error) {
	self, err := h.Self(ctx)
	if err != nil {
		return "", now, err
	}
	now, ok := h.Home.seenBy(self)
	last := now.head
	if now.head, err = h.Head(ctx); err != nil {
		return "", now, err
	}
	if !ok || last >= now.head { // a log that is shorter is another one
		return "", now, nil
	}
	after := max(last, now.head-maxBehind)
	var all fates
	err = h.Events(ctx, op.AgentName(self), after, func(e api.Entry) error {
		now.head = max(now.head, e.Seq)
		all.add(e)
		return nil
	})
	if err == nil {
		all, err = h.without(ctx, all, self)
	}
	return all.words(after > last), now, err
}

// fate is what became of one step.
type fate struct {
	step, what       string
	kind, by, detail string
	approved         bool
}

// fates are those of several steps, the one that changed last at the end.
type fates []fate

// endings words the kinds of entries that end a request.
var endings = map[string]string{"succeeded": "is done", "failed": "failed", "rejected": "was rejected", "expired": "expired",
	"cancelled": "was cancelled", "superseded": "was superseded", "refused": "was refused",
	"interrupted": "ended, and the gate cannot tell whether it was done"}

// add takes an entry into account, if it decides about a destructive step.
func (f *fates) add(e api.Entry) {
	id, err := op.ParseStepID(e.Step)
	if err != nil || e.Class != op.Destructive || e.Kind != "approved" && endings[e.Kind] == "" {
		return
	}
	now := fate{step: id.String(), what: e.Op + " " + e.Target}
	for i, old := range *f {
		if old.step == now.step {
			now.approved, now.by = old.approved, old.by
			*f = append((*f)[:i], (*f)[i+1:]...)
			break
		}
	}
	now.kind, now.detail = e.Kind, e.Detail
	now.approved = now.approved || e.Kind == "approved"
	now.by = cmp.Or(strings.Join(people(e.Signers), ", "), now.by)
	if *f = append(*f, now); len(*f) > maxFates+1 { // one more than is said, so that the text says that there are more
		*f = (*f)[1:]
	}
}

// people are the principals of signers.
func people(signers []string) (out []string) {
	for _, s := range signers {
		name, _, _ := strings.Cut(s, " ")
		out = append(out, name)
	}
	return out
}

// sentence says in gated's words what became of the step.
func (f fate) sentence() string {
	switch {
	case f.kind == "approved":
		return f.step + " was approved, and has not ended.\n"
	case f.approved:
		return f.step + " was approved, and " + endings[f.kind] + ".\n"
	default:
		return f.step + " " + endings[f.kind] + ".\n"
	}
}

// words says all of it in at most maxContext bytes, the newest if it is more. It is empty if there is nothing to say.
func (f fates) words(older bool) string {
	if len(f) == 0 {
		return ""
	}
	for n := min(len(f), maxFates); ; n-- {
		text := f.newest(n, older || n < len(f))
		if len(text) <= maxContext || n == 1 { // one always has room
			return text
		}
	}
}

// newest words the last n.
func (f fates) newest(n int, more bool) string {
	var b strings.Builder
	b.WriteString("gated: what became of your requests since you last looked:\n")
	var theirs []Word
	for _, one := range f[len(f)-n:] {
		b.WriteString(one.sentence())
		theirs = append(theirs, Word{Name: one.step, Value: clip(one.what)})
		if one.by != "" {
			theirs = append(theirs, Word{Name: one.step + " by", Value: clip(one.by)})
		}
		if one.detail != "" {
			theirs = append(theirs, Word{Name: one.step + " detail", Value: clip(one.detail)})
		}
	}
	if more {
		b.WriteString("There are more: gated jobs lists all.\n")
	}
	b.WriteString(Framed(theirs))
	return b.String()
}

// clip cuts a text whose printable form has more than maxContextField bytes.
func clip(s string) string {
	n := 0
	for i, r := range s {
		if n += len(escaped(r)); n > maxContextField {
			return s[:i] + "…"
		}
	}
	return s
}
