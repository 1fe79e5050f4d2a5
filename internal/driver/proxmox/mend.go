package proxmox

import (
	"context"
	"errors"
	"sync"

	"gated/internal/base/op"
)

// working counts the running steps of this process, by the names of their guests.
type working struct {
	mu    sync.Mutex
	names map[string]int
}

// begin records that a step on a guest begins. The returned function records its end.
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

// unless calls work if no step runs on the guest, and reports whether it did. No step begins
// meanwhile.
func (w *working) unless(name string, work func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[name] > 0 {
		return false
	}
	work()
	return true
}

// unmended makes the next Mend look at every guest.
func (d *Driver) unmended() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole = false
}

// Mend sets Proxmox VE's protection flag again on guests with the gate's mark that lost it.
// That happens if this daemon crashed between two requests of a step, or if the cluster did not
// answer. Mend leaves a guest alone if busy says that a step is under way, because that step
// needs the flag off and sets it again. After Mend saw every guest with its flag, it does
// nothing until a step of this process fails to set a flag. So an administrator can take a flag
// off for other work. The next step on the guest, or the next start of the daemon, sets it
// again.
func (d *Driver) Mend(ctx context.Context, busy func(op.Target) bool) error {
	d.mu.Lock()
	whole := d.whole
	d.whole = true // a step that fails to set a flag meanwhile sets this to false
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

// owes reports whether a task of this process is under way on a guest, if steps do not wait for
// that task.
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

// mendAll reports whether the next Mend must look at some guest again.
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
			// It sends the digest of the look, because a step that ran since has changed the
			// configuration.
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
