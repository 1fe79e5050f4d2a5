package proxmox

import (
	"context"
	"errors"
	"strings"
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
			e = d.reguard(ctx, g)
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

// owed is what a guest must get when a task of this process has ended. One part is Proxmox VE's
// flag: a clone of an unmanaged guest lacks it, and a rollback may remove it. The other part is
// the mark, if the task removed it.
type owed struct {
	vmid   int64
	before *guest // nil for a guest that the task makes
}

func (d *Driver) owe(task string, o owed) {
	if task == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owing[task] = o
}

// settle gives a guest the flag and the mark that a task removed. If an earlier process began
// the task, the task's id names its guest, except for a clone. After a successful destroy there
// is no guest left.
func (d *Driver) settle(ctx context.Context, task string, failed bool) error {
	d.mu.Lock()
	o, ours := d.owing[task]
	delete(d.owing, task)
	d.mu.Unlock()
	kind := typeOf(task)
	isDestroy := strings.HasSuffix(kind, "destroy")
	switch {
	case isDestroy && !failed:
		return nil
	case ours:
	case isDestroy, strings.HasSuffix(kind, "rollback"), strings.HasSuffix(kind, "restore"):
		if o.vmid = numberOf(task); o.vmid == 0 {
			return nil
		}
	default:
		return nil
	}
	r, err := d.rowOf(ctx, o.vmid)
	if err != nil || r == nil {
		return err
	}
	return d.mend(ctx, *r, o.before, isDestroy)
}

// mend looks at a guest and sets its missing flag and mark. It tries a second time if the
// configuration changed meanwhile. If same is true, it leaves a guest with another incarnation
// than before alone.
func (d *Driver) mend(ctx context.Context, r row, before *guest, same bool) error {
	var err error
	for range 2 {
		var now *guest
		now, err = d.details(ctx, r)
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			continue
		}
		if same && before != nil && now.incarnation() != before.incarnation() {
			return nil
		}
		v := now.lacks(before)
		if len(v) == 0 {
			return nil
		}
		if err = d.configure(ctx, now, v); err == nil {
			d.seen.forget(r.vmid)
			return nil
		}
	}
	return err
}

// lacks are the settings that restore the earlier mark, and the flag.
func (g *guest) lacks(before *guest) values {
	v := values{}
	if before != nil && before.marker.there && !g.marker.params().Equal(before.marker.params()) {
		if text, err := before.marker.in(g.text); err == nil {
			v["description"] = text
		}
	}
	if !g.protection && (g.marker.there || v["description"] != "" || before != nil && before.protection) {
		v["protection"] = "1"
	}
	return v
}

// guarded returns the guest of a step with the flag on. A guest with the mark may have lost it
// in a crash or to another user.
func (d *Driver) guarded(ctx context.Context, g *guest) (*guest, error) {
	if err := d.reguard(ctx, g); err != nil {
		return nil, worked("put the protection back", err)
	}
	return d.again(ctx, g)
}

// foundBare returns the mark of a guest that the driver found without the flag. It proves no disk from then on, because other hands may
// have exchanged one meanwhile. Without a birth no mark proves one, so there is nothing to write.
func (g *guest) foundBare() (m marker, ok bool) {
	m = g.marker
	if m.birth != "" {
		m.disks = noDisk
	}
	return m, m.birth != ""
}

// reguard sets the flag of a guest that the driver found without it.
func (d *Driver) reguard(ctx context.Context, g *guest) error {
	v := values{"protection": "1"}
	if m, ok := g.foundBare(); ok {
		text, err := m.in(g.text)
		if err != nil {
			return err
		}
		v["description"] = text
	}
	return d.configure(ctx, g, v)
}

// bare reports if the guest lacks the flag and can get it.
func (g *guest) bare() bool { return g != nil && g.marker.there && !g.protection && g.lock == "" }
