package several

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gated/internal/driver"
	"gated/internal/op"
)

// member is one back end, as the others are protected from it.
type member struct {
	driver.Driver // whose panics are errors
	name          string
	log           *slog.Logger
	now           func() time.Time
	lists, looks  lane
	checker       *Checker

	mu     sync.Mutex
	last   []op.Observed // as it was listed last, never changed
	listed time.Time     // when; zero before the first time
	why    string        // it cannot be listed; empty while it can
	since  time.Time     // when that began, or ended
}

func newMember(base context.Context, b driver.Backend, c Config) *member {
	m := &member{Driver: driver.Contain(b, c.Logger), name: b.Name(), log: c.Logger, now: c.Now, since: c.Now()}
	bound := c.limitOf(m.name)
	m.lists = lane{base: base, limit: bound, now: c.Now, patience: listPatience}
	m.looks = lane{base: base, limit: bound, now: c.Now, patience: lookPatience}
	m.checker = &Checker{backend: b, base: base, limit: bound, now: c.Now, log: c.Logger}
	return m
}

// list lists the back end and remembers what came of it.
func (m *member) list(ctx context.Context) ([]op.Observed, error) {
	all, err := ask(ctx, &m.lists, m.Driver.List)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // nobody wants to know
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if err == nil {
		if m.why != "" {
			m.log.Info("a back end is back", "backend", m.name, "away_since", m.since)
			m.since = now
		}
		m.last, m.listed, m.why = all, now, ""
		return all, nil
	}
	why := reason(err)
	if m.why == "" {
		m.log.Warn("a back end is away", "backend", m.name, "error", err)
		m.since = now
	} else if m.why != why {
		m.log.Info("a back end is away for another reason", "backend", m.name, "error", err)
	}
	m.why = why
	return nil, errors.New(why)
}

// reason is what people are told of an error of a back end.
func reason(err error) string {
	if r := (*op.Refusal)(nil); errors.As(err, &r) {
		return r.Detail
	}
	return op.Shown(err.Error())
}

// away says that nothing of a back end is known, in the words that everybody
// gets.
func (m *member) away(why string) error {
	return op.Refuse(op.Unavailable, "the back end %s is away: %s", m.name, why).
		WithHint("gated doctor says what to do; what was asked for stays")
}

// had reports whether the back end listed a guest of that name when it was
// listed last.
func (m *member) had(name string) bool {
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	return slices.ContainsFunc(last, func(o op.Observed) bool { return o.Target.Name == name })
}

// neverListed reports whether nothing is known of what the back end has: it was
// away at the start, and ever since.
func (m *member) neverListed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed.IsZero()
}

// mayHave refuses to say which guest a name means that another back end has, while
// this one is away.
func (m *member) mayHave(t op.Target, by string) error {
	why := "was in " + m.name + ", which is away"
	if m.neverListed() {
		why = "may be in " + m.name + ", which is away since the start"
	}
	return op.Refuse(op.Unavailable, "%s is in %s, and %s: nobody can say which one is meant", t, by, why).
		WithHint("it can be said when %s is back", m.name)
}

// remembered returns what was listed last, each as unknown for a reason.
func (m *member) remembered(why string) []op.Observed {
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	out := make([]op.Observed, 0, len(last))
	for i := range last {
		out = append(out, unknown(last[i].Target, m.name, m.away(why)))
	}
	return out
}

// unknown is a guest of which nothing is known but its name.
func unknown(t op.Target, backend string, err error) op.Observed {
	return op.Observed{Target: t, Present: true, Running: unknownState, Backend: backend,
		Facts: []op.Fact{{Name: unknownState, Text: op.AsRefusal(err).Detail}}}
}

// unknownState is Observed.Running of what nobody can vouch for.
const unknownState = "unknown"

// isAway reports whether an error of a look says nothing of the target: the back
// end could not be asked. Every other refusal is about something that is there.
func isAway(err error) bool {
	code := op.CodeOf(err)
	return code == op.Unavailable || code == op.Internal || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lied is the error of an answer that is none.
func (m *member) lied(format string, args ...any) error {
	return op.Refuse(op.StaleTarget, "the back end %s %s", m.name, fmt.Sprintf(format, args...))
}
