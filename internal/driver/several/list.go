package several

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// claim is a name that several back ends have.
type claim struct {
	name string
	by   []string
}

// listing is the answer of one back end to a List.
type listing struct {
	all []op.Observed
	err error
}

// List returns every guest of every back end, by name. If a back end is away, its last guests
// are unknown and the error is *driver.Incomplete, because it may have others. A name that two
// back ends have is unknown. If there is only one back end, List returns its guests unchanged.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	all, _, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	return all.guests, all.missing()
}

// whole is one look at all back ends.
type whole struct {
	guests []op.Observed
	away   []string // the reason for each back end that is away
}

func (w whole) missing() error {
	if len(w.away) == 0 {
		return nil
	}
	return &driver.Incomplete{Why: strings.Join(w.away, "; ")}
}

// look lists all back ends at the same time. Its error is the reason why ctx ended.
func (d *Driver) look(ctx context.Context) (whole, []claim, error) {
	got := make([]listing, len(d.members))
	var wg sync.WaitGroup
	for i, m := range d.members[1:] {
		wg.Go(func() { got[i+1].all, got[i+1].err = m.list(ctx) })
	}
	got[0].all, got[0].err = d.members[0].list(ctx)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return whole{}, nil, err
	}
	if only := got[0]; len(got) == 1 && only.err == nil && (len(only.all) == 0 || only.all[0].Backend != "") {
		return whole{guests: only.all}, nil, nil
	}
	w, claims := d.merge(got)
	return w, claims, nil
}

// merge joins the lists.
func (d *Driver) merge(got []listing) (whole, []claim) {
	var w whole
	n := 0
	for i := range got {
		n += len(got[i].all)
	}
	w.guests = make([]op.Observed, 0, n)
	for i, m := range d.members {
		if err := got[i].err; err != nil {
			why := err.Error()
			w.away = append(w.away, refusal.As(m.away(why)).Detail)
			w.guests = append(w.guests, m.remembered(why)...)
			continue
		}
		for _, o := range got[i].all {
			if !o.Present {
				continue
			}
			if o.Target.Kind != guestKind || op.CheckName(o.Target.Name) != nil {
				d.log.Warn("a back end lists what is no guest", "backend", m.name, "target", op.Shown(o.Target.String()))
				continue
			}
			o.Backend = m.name
			w.guests = append(w.guests, o)
		}
	}
	slices.SortStableFunc(w.guests, func(a, b op.Observed) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return w, d.settleNames(&w)
}

// settleNames replaces guests of one name by one unknown guest, and returns the names that
// several back ends have. If a back end is away, its last guests count.
func (d *Driver) settleNames(w *whole) []claim {
	var claims []claim
	kept := w.guests[:0]
	for from := 0; from < len(w.guests); {
		to := from + 1
		for to < len(w.guests) && w.guests[to].Target.Name == w.guests[from].Target.Name {
			to++
		}
		same := w.guests[from:to]
		from = to
		if len(same) == 1 {
			kept = append(kept, same[0])
			continue
		}
		c := claim{name: same[0].Target.Name}
		for _, o := range same {
			if !slices.Contains(c.by, o.Backend) {
				c.by = append(c.by, o.Backend)
			}
		}
		o := unknown(same[0].Target, "", claimed(same[0].Target, c.by))
		if len(c.by) > 1 {
			claims = append(claims, c)
		} else {
			o.Backend = c.by[0]
		}
		kept = append(kept, o)
	}
	clear(w.guests[len(kept):])
	w.guests = kept
	return claims
}

// claimed refuses a name that several back ends have, because a step could mean any of them.
func claimed(t op.Target, by []string) *refusal.Refusal {
	if len(by) == 1 {
		return refusal.New(refusal.StaleTarget, "the back end %s has %s twice", by[0], t)
	}
	return refusal.New(refusal.StaleTarget, "%s is in %s, and the name does not say which one is meant", t,
		strings.Join(by, " and in ")).
		WithHint("rename or remove one of them with the back end's own tools")
}

// member is one back end. Its faults do not reach the others.
type member struct {
	driver.Driver // its panics become errors
	name          string
	log           *slog.Logger
	now           func() time.Time
	lists, looks  lane
	checker       *Checker

	mu     sync.Mutex
	last   []op.Observed // the last list, never changed
	listed time.Time     // the time of last; zero before the first list
	why    string        // why it cannot be listed; empty if it can
	since  time.Time     // when that began or ended
	moved  bool          // a step ran since the last list began
}

func newMember(base context.Context, b driver.Backend, c Config) *member {
	m := &member{Driver: driver.Contain(b, c.Logger), name: b.Name(), log: c.Logger, now: c.Now, since: c.Now()}
	bound := c.limitOf(m.name)
	m.lists = lane{base: base, limit: bound, now: c.Now, patience: listPatience}
	m.looks = lane{base: base, limit: bound, now: c.Now, patience: lookPatience}
	m.checker = &Checker{backend: b, base: base, limit: bound, now: c.Now, log: c.Logger}
	return m
}

// list lists the back end and remembers the result.
func (m *member) list(ctx context.Context) ([]op.Observed, error) {
	m.moves(false)
	all, err := ask(ctx, &m.lists, m.Driver.List)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // the caller no longer waits
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

func (m *member) moves(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = yes
}

// recently is how old a list may be that stands for a look. A plan looks at hundreds of free names.
const recently = 10 * time.Second

// recent returns the last list if it is recent and no step ran since, else a new one.
func (m *member) recent(ctx context.Context) ([]op.Observed, error) {
	m.mu.Lock()
	last, ok := m.last, m.why == "" && !m.moved && !m.listed.IsZero() && m.now().Sub(m.listed) < recently
	m.mu.Unlock()
	if ok {
		return last, nil
	}
	return m.list(ctx)
}

// reason is the text for people of a back end's error.
func reason(err error) string {
	if r := (*refusal.Refusal)(nil); errors.As(err, &r) {
		return r.Detail
	}
	return op.Shown(err.Error())
}

// away is the error for a back end that does not answer. All callers get the same words.
func (m *member) away(why string) error {
	return refusal.New(refusal.Unavailable, "the back end %s is away: %s", m.name, why).
		WithHint("gated doctor says what to do; what was asked for stays")
}

// had reports whether the last list of the back end had that name.
func (m *member) had(name string) bool {
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	return slices.ContainsFunc(last, func(o op.Observed) bool { return o.Target.Name == name })
}

// neverListed reports whether the back end has been away since the start, so that its guests
// are not known.
func (m *member) neverListed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed.IsZero()
}

// mayHave refuses a name that another back end has, because this one is away and may have it
// too.
func (m *member) mayHave(t op.Target, by string) error {
	why := "was in " + m.name + ", which is away"
	if m.neverListed() {
		why = "may be in " + m.name + ", which is away since the start"
	}
	return refusal.New(refusal.Unavailable, "%s is in %s, and %s: the name does not say which one is meant", t, by, why).
		WithHint("it can be said when %s is back", m.name)
}

// remembered returns the last list, with each guest as unknown and the reason.
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

// unknown is a guest of which only the name is known.
func unknown(t op.Target, backend string, err error) op.Observed {
	return op.Observed{Target: t, Present: true, Running: unknownState, Backend: backend,
		Facts: []op.Fact{{Name: unknownState, Text: refusal.As(err).Detail}}}
}

// unknownState is Observed.Running of a guest whose state no back end can report.
const unknownState = "unknown"

// isAway reports whether the error of a look says nothing about the target, because the back
// end did not answer. Every other refusal is about a target that exists.
func isAway(err error) bool {
	code := refusal.CodeOf(err)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return ended || code == refusal.Unavailable || code == refusal.Internal
}

// lied is the error for an answer that makes no sense.
func (m *member) lied(format string, args ...any) error {
	return refusal.New(refusal.StaleTarget, "the back end %s %s", m.name, fmt.Sprintf(format, args...))
}
