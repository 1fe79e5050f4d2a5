// Package memory is a driver whose guests only exist in memory. Tests of the packages above
// drivers use it, and benchmarks that measure the gate and not a disk.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Driver is the memory driver. It is safe for concurrent use. It never changes a value that it
// returned.
type Driver struct {
	// Before, if not nil, is called after the permit was used and before the step takes effect.
	// Its error ends the step. The marks of the driver package count.
	Before func(op.Step) error

	now    func() time.Time
	ops    []string
	mu     sync.Mutex
	guests map[string]op.Observed
	trash  map[string][]thrown // by name, oldest first
	wrote  map[op.Incarnation]bool
	made   int
	taken  map[op.StorageID]time.Time // the time of each snapshot
	list   []op.Observed              // all guests by name; nil after a change
}

type thrown struct {
	guest op.Observed
	until time.Time
}

// TrashKeep is how long a destroyed guest can be undeleted, by its record. In fact the driver
// keeps it for ever.
const TrashKeep = 24 * time.Hour

var _ driver.Driver = (*Driver)(nil)

// New returns a driver without guests.
func New(now func() time.Time) *Driver {
	return &Driver{now: now, ops: slices.Sorted(maps.Keys(actions)), guests: map[string]op.Observed{}, trash: map[string][]thrown{},
		wrote: map[op.Incarnation]bool{}, taken: map[op.StorageID]time.Time{}}
}

// Put makes or replaces a guest, as a program other than the gate would. The guest gets a new
// incarnation and the parameters of guest.create.
func (d *Driver) Put(name string, p op.Params) op.Observed {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.create(op.Target{Kind: d.Kind(), Name: name}, "", p)
	return d.guests[name]
}

// Alter changes fields of a guest, as a program other than the gate would. The guest keeps its
// incarnation. Alter reports whether the guest exists.
func (d *Driver) Alter(name string, fields op.Params) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.guests[name]
	if ok {
		d.set(o, fields)
	}
	return ok
}

// Write writes into a guest, as a program other than the gate would. It reports whether the
// guest exists.
func (d *Driver) Write(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.guests[name]
	if ok {
		d.wrote[o.Incarnation] = true
		d.set(o, nil)
	}
	return ok
}

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Observe looks at one guest.
func (d *Driver) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if t.Kind != d.Kind() {
		return op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.look(l)
	d.aboutCopy(l, &o)
	return o, nil
}

// aboutCopy adds facts for people on the snapshot that the look's step restores or deletes.
func (d *Driver) aboutCopy(l op.Look, o *op.Observed) {
	name := l.Params.Str("snapshot")
	if spec, err := op.Lookup(l.Op); err != nil || spec.Copy != "snapshot" || !o.Present {
		return
	}
	if !slices.Contains(o.Snapshots, name) {
		o.Missing = fmt.Sprintf("%s has no snapshot %q", l.Target, name)
		return
	}
	i := slices.IndexFunc(o.Storage, func(id op.StorageID) bool { return strings.HasPrefix(string(id), "snapshot:"+name+":") })
	o.Copy = &op.Copy{Kind: "snapshot", Name: name, Made: d.taken[o.Storage[i]]}
	over := ""
	if l.Op == "guest.restore" {
		over = "nothing: this guest exists in memory alone"
	}
	o.Facts = append(o.Copy.Facts("nothing: this guest exists in memory alone", over), o.Facts...)
}

func (d *Driver) look(l op.Look) op.Observed {
	t := l.Target
	o, ok := d.guests[t.Name]
	if !ok {
		o = op.Observed{Target: t, Running: "absent", Ops: d.ops, Fingerprint: op.FingerprintOf([]byte(t.Name))}
	}
	for _, x := range d.trash[l.TrashName()] {
		o.Trash = append(slices.Clip(o.Trash), op.Trashed{Incarnation: x.guest.Incarnation, Until: x.until})
	}
	if name := l.NewName(); name != "" {
		for _, x := range d.trash[name] {
			o.Trash = append(slices.Clip(o.Trash), op.Trashed{Incarnation: x.guest.Incarnation, Until: x.until, Name: name})
		}
	}
	return o
}

// List returns every guest by name, without its trash. The caller must not
// change the slice.
func (d *Driver) List(context.Context) ([]op.Observed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = slices.SortedFunc(maps.Values(d.guests), func(a, b op.Observed) int {
			return strings.Compare(a.Target.Name, b.Target.Name)
		})
	}
	return d.list, nil
}

// Prepare looks at the guest. Its action is done when it returns.
func (d *Driver) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	act, ok := actions[step.Op]
	if !ok {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.UnknownOp, "the memory driver does not know %q", step.Op)
	}
	now, err := d.Observe(ctx, step.Look())
	if err == nil {
		err = fits(step, now)
	}
	return now, driver.Does(func(context.Context) (driver.Result, error) {
		return driver.Result{}, d.do(step, now, act)
	}), err
}

// do refuses a guest that is not as the step's own look saw it: a hand may have come after the permit was used.
func (d *Driver) do(step op.Step, seen op.Observed, act func(*Driver, op.Step) error) error {
	if d.Before != nil {
		if err := d.Before(step); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.guests[step.Target.Name]
	switch {
	case o.Incarnation != seen.Incarnation:
		return refusal.New(refusal.StaleTarget, "%s became another one", step.Target)
	case o.Present && (o.Fingerprint != seen.Fingerprint || !o.Spec.Equal(seen.Spec)):
		return refusal.New(refusal.StaleTarget, "%s changed while the step was under way", step.Target)
	}
	return act(d, step)
}

// fits refuses a step that could not work, before the permit is used.
func fits(s op.Step, now op.Observed) error {
	name := s.Params.Str("snapshot")
	there := slices.Contains(now.Snapshots, name)
	switch {
	case s.Params.Has("template"):
		return refusal.New(refusal.BadParams, "the memory driver has no templates")
	case now.Incarnation != s.Incarnation:
		return nil // Permit.Use refuses it
	case s.Op == "guest.snapshot" && there:
		return refusal.New(refusal.Conflict, "%s has a snapshot %q already", s.Target, name)
	case s.Op != "guest.snapshot" && name != "" && !there:
		return refusal.New(refusal.UnknownTarget, "%s has no snapshot %q", s.Target, name)
	}
	return nil
}

// Task reports that there is no such task, because all work is done when an action returns.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "the memory driver has no task %q", task)
}

// actions are the work of each operation. The caller holds d.mu.
var actions = map[string]func(*Driver, op.Step) error{
	"guest.create":          func(d *Driver, s op.Step) error { d.create(s.Target, s.Birth, s.Params); return nil },
	"guest.undelete":        (*Driver).undelete,
	"guest.destroy":         (*Driver).destroy,
	"guest.start":           func(d *Driver, s op.Step) error { return d.run(s, "running") },
	"guest.restart":         func(d *Driver, s op.Step) error { return d.run(s, "running") },
	"guest.stop":            func(d *Driver, s op.Step) error { return d.run(s, "stopped") },
	"guest.set-config":      (*Driver).setConfig,
	"guest.snapshot":        (*Driver).snapshot,
	"guest.snapshot-delete": (*Driver).snapshotDelete,
	"guest.restore":         (*Driver).newData,
	"guest.wipe":            (*Driver).newData,
}

func (d *Driver) create(t op.Target, birth string, p op.Params) {
	d.made++
	o := op.Observed{Target: t, Present: true, Birth: birth, Running: "stopped", Ops: d.ops,
		Incarnation: op.Incarnation(fmt.Sprintf("%s:%d", birth, d.made)),
		Storage:     []op.StorageID{op.StorageID(fmt.Sprintf("data:%d", d.made))},
		Spec:        op.Params{"command": "", "labels": map[string]any{}, "protected": false}}
	if p.Str("state") == "running" {
		o.Running = "running"
	}
	d.set(o, p)
}

// set stores a guest with some fields of its spec replaced.
func (d *Driver) set(o op.Observed, fields op.Params) {
	o.Spec = maps.Clone(o.Spec)
	for _, name := range []string{"memory", "cpus", "command", "labels", "protected"} {
		if fields.Has(name) {
			o.Spec[name] = fields[name]
		}
	}
	o.Protected, o.Labels = o.Spec.Bool("protected"), o.Spec.Labels("labels")
	covered := op.Guarded(o.Spec).Canonical()
	for _, id := range o.Storage {
		covered = append(append(covered, ' '), id...)
	}
	o.Fingerprint = op.FingerprintOf(append(covered, strings.Join(append([]string{string(o.Incarnation)}, o.Snapshots...), " ")...))
	o.Facts = []op.Fact{{Name: "files", Text: "none: this guest exists in memory alone"}}
	if o.Content = "nothing"; o.Running != "stopped" || d.wrote[o.Incarnation] {
		o.Content = ""
	}
	d.guests[o.Target.Name] = o
	d.list = nil
}

func (d *Driver) run(s op.Step, state string) error {
	o := d.guests[s.Target.Name]
	o.Running = state
	d.set(o, nil)
	return nil
}

func (d *Driver) setConfig(s op.Step) error {
	d.set(d.guests[s.Target.Name], s.Params)
	return nil
}

func (d *Driver) destroy(s op.Step) error {
	name := s.Target.Name
	d.trash[name] = append(d.trash[name], thrown{d.guests[name], d.now().Add(TrashKeep)})
	delete(d.guests, name)
	d.list = nil
	return nil
}

func (d *Driver) undelete(s op.Step) error {
	name, want := s.Look().TrashName(), s.Params.Str("incarnation")
	for i, x := range slices.Backward(d.trash[name]) {
		if want == "" || want == string(x.guest.Incarnation) {
			x.guest.Running, x.guest.Target = op.Stopped, s.Target
			d.trash[name] = slices.Delete(slices.Clone(d.trash[name]), i, i+1)
			d.set(x.guest, nil)
			return nil
		}
	}
	return refusal.New(refusal.UnknownTarget, "the trash has no such guest/%s", name)
}

func (d *Driver) snapshot(s op.Step) error {
	o := d.guests[s.Target.Name]
	name := s.Params.Str("snapshot")
	if slices.Contains(o.Snapshots, name) {
		return refusal.New(refusal.Conflict, "%s has a snapshot %q already", s.Target, name)
	}
	d.made++
	o.Snapshots = append(slices.Clip(o.Snapshots), name)
	o.Storage = append(slices.Clip(o.Storage), snapshotID(name, d.made))
	d.taken[snapshotID(name, d.made)] = d.now()
	slices.Sort(o.Snapshots)
	d.set(o, nil)
	return nil
}

func snapshotID(name string, n int) op.StorageID {
	return op.StorageID(fmt.Sprintf("snapshot:%s:%d", name, n))
}

func (d *Driver) snapshotDelete(s op.Step) error {
	o := d.guests[s.Target.Name]
	name := s.Params.Str("snapshot")
	if !slices.Contains(o.Snapshots, name) {
		return refusal.New(refusal.UnknownTarget, "%s has no snapshot %q", s.Target, name)
	}
	o.Snapshots = slices.DeleteFunc(slices.Clone(o.Snapshots), func(x string) bool { return x == name })
	o.Storage = slices.DeleteFunc(slices.Clone(o.Storage), func(id op.StorageID) bool {
		return strings.HasPrefix(string(id), "snapshot:"+name+":")
	})
	d.set(o, nil)
	return nil
}

// newData gives a guest a new data tree, as restore and wipe do.
func (d *Driver) newData(s op.Step) error {
	o := d.guests[s.Target.Name]
	if name := s.Params.Str("snapshot"); name != "" && !slices.Contains(o.Snapshots, name) {
		return refusal.New(refusal.UnknownTarget, "%s has no snapshot %q", s.Target, name)
	}
	d.made++
	o.Storage = slices.Clone(o.Storage)
	o.Storage[0] = op.StorageID(fmt.Sprintf("data:%d", d.made))
	o.Running = "stopped"
	d.set(o, nil)
	return nil
}
