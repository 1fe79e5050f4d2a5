package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
)

// grown is a gate in this process that gets more and more rows.
type grown struct {
	*bench
	*world
	made int // guests so far
	past *history
}

// axis is one thing of which a gate gets more and more.
type axis struct {
	name, what string
	sizes      []int
	more       func(g *grown, n int) ([]op.Observed, error) // adds n, and returns guests to destroy
	sound      bool                                         // fsck finds no problem afterwards
}

// growth measures whether a decision costs more in a gate that has a long history,
// many requests that wait for a signature, or many guests. It calls the gate in this
// process, one call at a time, because CPU time is then known to the microsecond.
func (b *bench) growth() error {
	rows := slices.Clone(b.size.growRows)
	if last := rows[len(rows)-1]; b.Rows > last {
		rows = append(rows, b.Rows)
	}
	for _, a := range []axis{
		// The history has placeholders instead of signatures, so fsck is left out.
		{"rows", "rows of history", rows, (*grown).addHistory, false},
		{"waiting", "requests that wait", b.size.growWaiting, (*grown).addWaiting, true},
		{"guests", "guests", b.size.growGuests, (*grown).addGuests, true},
	} {
		if err := b.along(a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// along adds a row for each size of an axis.
func (b *bench) along(a axis) (err error) {
	dir, err := b.gateDir("growth-" + a.name)
	if err != nil {
		return err
	}
	w, err := newWorld(b.ctx, worldOptions{dir: dir})
	if err != nil {
		return err
	}
	g := &grown{bench: b, world: w}
	if g.past, err = newHistory(b.ctx, w.store); err != nil {
		return errors.Join(err, w.store.Close())
	}
	// The first decisions also prepare SQL statements, so they are not measured.
	if _, err := g.at(axis{what: "guests", more: (*grown).addGuests}, 1); err != nil {
		return errors.Join(err, w.store.Close())
	}
	var first decisionCost
	for i, n := range a.sizes {
		have := 0
		if i > 0 {
			have = a.sizes[i-1]
		}
		cost, err := g.at(a, n-have)
		if err != nil {
			return errors.Join(err, w.store.Close())
		}
		if i == 0 {
			first = cost
		}
		b.addf(fmt.Sprintf("a signed decision, %s: %d", a.what, n), cost.signed, plain, 0,
			"%.2f × as much as with %d; CPU %.0f µs; a benign one %.2f × a verification, %.2f × as much",
			cost.signed/first.signed, a.sizes[0], cost.signed*cost.verify, cost.benign, cost.benign/first.benign)
	}
	if err = w.store.Close(); err != nil || !a.sound {
		return err
	}
	return b.sound(dir)
}

// decisionCost is the CPU of decisions in verifications, and that of one
// verification in microseconds.
type decisionCost struct{ signed, benign, verify float64 }

// at adds n more to the gate, and measures decisions.
func (g *grown) at(a axis, n int) (c decisionCost, err error) {
	began := now()
	guests, err := a.more(g, n)
	if err != nil {
		return c, err
	}
	fmt.Fprintf(g.Progress, "  %d more %s in %.0f s\n", n, a.what, now().Sub(began).Seconds())
	var ends []signed
	for _, o := range guests {
		s, err := destroy(o, now(), g.keys.plain)
		if err != nil {
			return c, err
		}
		ends = append(ends, s)
	}
	_, before, err := verifications(g.size.limitTime / 5)
	if err != nil {
		return c, err
	}
	c.signed, err = each(ends, func(s signed) error {
		_, err := g.gate.ApproveOffline(g.ctx, caller, authz.Envelope{Payload: s.payload, Signatures: s.armors})
		return err
	})
	if err != nil {
		return c, err
	}
	c.benign, err = each(guests, func(o op.Observed) error {
		fresh := op.Ask{Op: "guest.create", Target: op.Target{Kind: "guest", Name: "new-" + o.Target.Name}, Params: op.Params{}}
		_, err := g.gate.Submit(g.ctx, op.Submission{Requester: caller, Steps: []op.Ask{fresh}})
		return err
	})
	if err != nil {
		return c, err
	}
	_, after, err := verifications(g.size.limitTime / 5)
	c.verify = (before + after) / 2
	c.signed, c.benign = c.signed/c.verify, c.benign/c.verify
	return c, err
}

// each does all jobs, and returns the microseconds of CPU for one.
func each[T any](jobs []T, do func(T) error) (float64, error) {
	before, err := used()
	if err != nil {
		return 0, err
	}
	for _, j := range jobs {
		if err := do(j); err != nil {
			return 0, err
		}
	}
	after, err := used()
	return inMicros(after-before) / float64(len(jobs)), err
}

// addGuests makes n guests, and returns as many of them as a row needs.
func (g *grown) addGuests(n int) ([]op.Observed, error) {
	out := make([]op.Observed, 0, n)
	for _, p := range alike(n) {
		out = append(out, g.driver.Put(guestName(g.made), p))
		g.made++
	}
	return out[:min(n, g.size.growOps)], nil
}

// addHistory writes n rows of operations that ended.
func (g *grown) addHistory(n int) ([]op.Observed, error) {
	if _, err := g.past.past(n/rowsPerStep, now().Add(time.Hour)); err != nil {
		return nil, err
	}
	return g.addGuests(g.size.growOps)
}

// addWaiting asks for the ends of n guests. Each uid asks for as many as it may have
// open.
func (g *grown) addWaiting(n int) ([]op.Observed, error) {
	from := g.made
	if _, err := g.addGuests(n); err != nil {
		return nil, err
	}
	_, _, err := share(clients, n, func(_, k int) error {
		t := op.Target{Kind: "guest", Name: guestName(from + k)}
		by := op.Requester{Source: op.SourceAPI, UID: uint32(100_000 + (from+k)/100), PID: 1}
		_, err := g.gate.Submit(g.ctx, op.Submission{Requester: by,
			Steps: []op.Ask{{Op: "guest.destroy", Target: t, Params: op.Params{}}}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return g.addGuests(g.size.growOps)
}
