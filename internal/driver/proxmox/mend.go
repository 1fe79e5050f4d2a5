package proxmox

import (
	"context"
	"errors"
	"sync"

	"gated/internal/op"
)

// working counts the steps that this process runs, by the names of their guests.
type working struct {
	mu    sync.Mutex
	names map[string]int
}

// begin says that a step on a guest begins, and returns what ends it.
func (w *working) begin(name string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]int{}
	}
	w.names[name]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.names[name]--; w.names[name] == 0 {
			delete(w.names, name)
		}
	}
}

// unless does a short piece of work on a guest if no step is running on it, and
// reports whether it did. No step begins meanwhile.
func (w *working) unless(name string, work func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[name] > 0 {
		return false
	}
	work()
	return true
}

// unmended has the next Mend look at every guest.
func (d *Driver) unmended() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole = false
}

// Mend puts Proxmox VE's protection flag back on guests with the gate's mark that
// lost it: to a crash of this daemon between two requests of a step, or because
// the cluster did not answer. It leaves alone a guest that busy says a step is
// under way for: that step needs the flag off, and puts it back. Once it has seen
// every guest with its flag, it does nothing until a step of this process fails to
// put one back. So an administrator can take a flag off for work of their own; the
// next step on the guest, or the next start, puts it back.
func (d *Driver) Mend(ctx context.Context, busy func(op.Target) bool) error {
	d.mu.Lock()
	whole := d.whole
	d.whole = true // a step that fails to put a flag back meanwhile says so
	d.mu.Unlock()
	if whole {
		return nil
	}
	left, err := d.mendAll(ctx, busy)
	if left || err != nil {
		d.unmended()
	}
	return err
}

// owes reports whether a task of this process is under way on a guest, as far as
// steps do not wait for it.
func (d *Driver) owes(vmid int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.owing {
		if o.vmid == vmid {
			return true
		}
	}
	return false
}

// mendAll reports whether a guest is left that has to be looked at again.
func (d *Driver) mendAll(ctx context.Context, busy func(op.Target) bool) (left bool, err error) {
	rows, err := d.rows(ctx)
	if err != nil {
		return true, unreachable(err)
	}
	for _, r := range rows {
		g, e := d.details(ctx, r)
		switch {
		case e != nil:
		case !g.marker.there || g.protection:
		case g.lock != "", busy(op.Target{Kind: op.KindGuest, Name: g.name}), !d.working.unless(g.name, func() {
			if d.owes(r.vmid) {
				left = true
				return
			}
			// With the digest of the look: a step that ran since has changed it.
			e = d.configure(ctx, g, values{"protection": "1"})
			d.seen.forget(r.vmid)
		}):
			left = true
		}
		if e != nil && !errors.Is(e, errGone) {
			left, err = true, errors.Join(err, worked("put the protection back", e))
		}
	}
	return left, err
}
