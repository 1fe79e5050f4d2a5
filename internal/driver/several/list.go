package several

import (
	"context"
	"slices"
	"strings"
	"sync"

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
