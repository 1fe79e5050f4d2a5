package local

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// The values of Observed.Running. Only List returns Unknown: the name has something that is no
// sound guest. For that, Observe returns an error.
const (
	Running = "running"
	Stopped = "stopped"
	Absent  = "absent"
	Unknown = "unknown"
)

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Observe looks at one guest and adds facts for people. It counts the guest's files up to a
// bound. Its refusals are StaleTarget and Conflict.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	g, o, err := d.look(ctx, l)
	if err != nil {
		return o, err
	}
	if g != nil {
		defer g.close()
		o.Facts = d.facts(ctx, g)
		d.aboutCopy(ctx, l, g, &o)
	}
	d.foresee(ctx, l, g, &o)
	return o, nil
}

// foresee asks the step's preparer, which changes nothing, if it would refuse. So no operator is asked for a step that cannot be
// done. If the preparer takes longer than a look, the step itself says so.
func (d *Driver) foresee(ctx context.Context, l op.Look, g *guest, o *op.Observed) {
	step := op.Step{Op: l.Op, Target: l.Target, Params: l.Params, Incarnation: l.Incarnation}
	prepare, ok := preparers[l.Op]
	if o.Unfit(d.suits(step)) || !ok || driver.Fits(step, *o) != nil {
		return // the gate refuses it itself
	}
	bounded, cancel := context.WithTimeout(ctx, maxLooking)
	defer cancel()
	_, err := prepare(d, bounded, step, g)
	o.Foresee(err)
	o.Never = o.CannotCode == refusal.NotAllowed && d.noneMayRun(l.Target) // another command would change nothing
}

// look is Observe without facts and without the step's preparer. If the name is free, the guest is nil. Otherwise the caller
// closes the guest.
func (d *Driver) look(ctx context.Context, l op.Look) (*guest, op.Observed, error) {
	t := l.Target
	if t.Kind != d.Kind() {
		return nil, op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", t)
	}
	g, err := d.openGuest(t.Name)
	if err != nil {
		return nil, op.Observed{}, err
	}
	trash, err := d.trashFor(l)
	if err == nil && g != nil {
		err = d.uuids.checkAlone(d, g)
	}
	if err != nil {
		if g != nil {
			g.close()
		}
		return nil, op.Observed{}, err
	}
	if g == nil {
		return nil, op.Observed{Target: t, Running: Absent, Fingerprint: fingerprintOfNothing(t.Name), Trash: trash, Ops: d.ops}, nil
	}
	o := d.observed(ctx, g)
	o.Trash = trash
	if name := l.Params.Str("snapshot"); l.Op == "guest.restore" || l.Op == "guest.snapshot-delete" {
		if _, ok := g.snapshot(name); !ok {
			o.Missing = fmt.Sprintf("%s has no snapshot %q", t, name)
		}
	}
	return g, o, nil
}

// List looks at every guest without reading its data: Facts and Trash are empty. A guest that
// is not sound is listed as Unknown, with the reason as its only fact. So it hides no other
// guest.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	owners, err := d.uuids.owners(d)
	if err != nil {
		return nil, err
	}
	var out []op.Observed
	err = d.root.each(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if op.CheckName(name) != nil {
			return nil // no target can have such a name
		}
		g, err := d.openGuest(name)
		if err != nil {
			out = append(out, unknown(name, err))
			return nil
		}
		if g == nil {
			return nil // destroyed during the look
		}
		defer g.close()
		for _, other := range owners[g.UUID] {
			if other != name {
				out = append(out, unknown(name, twins(name, other)))
				return nil
			}
		}
		out = append(out, d.observed(ctx, g))
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Target.Name < out[j].Target.Name })
	return out, nil
}

func unknown(name string, err error) op.Observed {
	return op.Observed{
		Target: op.Target{Kind: "guest", Name: name}, Present: true, Running: Unknown,
		Facts: []op.Fact{{Name: Unknown, Text: refusal.As(err).Detail}},
	}
}

func (d *Driver) observed(ctx context.Context, g *guest) op.Observed {
	o := op.Observed{
		Target:      op.Target{Kind: "guest", Name: g.name},
		Present:     true,
		Incarnation: g.incarnation(),
		Fingerprint: fingerprint(g),
		Birth:       g.UUID,
		Spec:        g.params(),
		Protected:   g.Protected,
		Labels:      g.Labels,
		Storage:     g.storage(),
		Ops:         d.ops,
		Backend:     d.Name(),
	}
	d.standing(ctx, g, &o)
	for _, s := range g.snapshots {
		o.Snapshots = append(o.Snapshots, s.name)
	}
	return o
}

// standing says in a look if the guest runs, what its processes hold, and if it is empty. What may still run may write, so
// "nothing in it" is not said of that.
func (d *Driver) standing(ctx context.Context, g *guest, o *op.Observed) {
	run, left := d.lives(ctx, g)
	o.Running, o.Content, o.MemoryUsed = Stopped, "", 0
	switch {
	case run != nil || left.err != nil:
		o.Running, o.MemoryUsed = Running, d.cgroups.used(d.cgroups.of(g.UUID))
	case left == (verdict{}):
		o.Content = g.content()
	}
}

// content is the token of an empty guest: no entry in its data and no snapshot. For a guest
// that holds something it is empty, because a program may write without a trace that the driver
// could read.
func (g *guest) content() string {
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return "" // a guest may lock its data
	}
	defer data.close()
	errHolds := errors.New("it holds something")
	if len(g.snapshots) > 0 || data.each(func(string) error { return errHolds }) != nil {
		return ""
	}
	return "nothing"
}

// params is the spec in the catalogue's units. It leaves out memory and cpus without a limit,
// because no wish can say "none".
func (s spec) params() op.Params {
	labels := make(map[string]any, len(s.Labels))
	for k, v := range s.Labels {
		labels[k] = v
	}
	p := op.Params{"command": s.Command, "labels": labels, "protected": s.Protected}
	if s.Memory > 0 {
		p["memory"] = s.Memory
	}
	if s.CPUs > 0 {
		p["cpus"] = s.CPUs
	}
	return p
}

// fingerprint digests everything that an operator's signature should depend on. It never covers
// the running state, the limits, the time of the last write, or the amount of data.
func fingerprint(g *guest) op.Fingerprint {
	ids := g.settled()
	storage := make([]any, len(ids))
	for i, id := range ids {
		storage[i] = string(id)
	}
	snapshots := make([]any, len(g.snapshots))
	for i, s := range g.snapshots {
		snapshots[i] = s.name
	}
	p := op.Guarded(g.params())
	p["name"], p["incarnation"] = g.name, string(g.incarnation())
	p["storage"], p["snapshots"] = storage, snapshots
	return op.FingerprintOf(p.Canonical())
}

func fingerprintOfNothing(name string) op.Fingerprint {
	return op.FingerprintOf(op.Params{"name": name, "incarnation": ""}.Canonical())
}

func twins(name, other string) error {
	return refusal.New(refusal.StaleTarget, "guest/%s and guest/%s have the same uuid", name, other).
		WithHint("one is a copy; move it out of the root")
}
