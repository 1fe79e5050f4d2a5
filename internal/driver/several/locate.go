package several

import (
	"context"
	"errors"
	"slices"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// answer is the result of a look by one back end. If the error says that the back end is away,
// nothing is known about the target.
type answer struct {
	o   op.Observed
	err error
}

// Observe looks for a guest in every back end that may have it. It passes on the back ends'
// refusals. It refuses with StaleTarget for a name that two have. It refuses with Unavailable
// if none has the name and one is away.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	i, o, err := d.locate(ctx, l)
	if err == nil {
		o.Foresee(d.alike(ctx, l, o, (*member).recent))
	}
	if err != nil {
		return op.Observed{}, err
	}
	o.Backend = d.members[i].name
	return o, nil
}

// alike refuses to make a guest as driver.Alike does. The guests of a back end that cannot list them now are its last
// ones. An undelete is not refused: anybody's guest of such a name would keep one in the trash until that ends it.
func (d *Driver) alike(ctx context.Context, l op.Look, o op.Observed, list func(*member, context.Context) ([]op.Observed, error)) error {
	if spec, err := op.Lookup(l.Op); err != nil || spec.Identity != op.Makes || o.Present {
		return nil
	}
	for _, m := range d.members {
		all, err := list(m, ctx)
		if err != nil {
			all = m.remembered("")
		}
		if err := driver.Alike(l.Target, all); err != nil {
			return err
		}
	}
	return nil
}

// locate returns the back end for a step of that look, and its result.
func (d *Driver) locate(ctx context.Context, l op.Look) (int, op.Observed, error) {
	if l.Target.Kind != guestKind {
		return 0, op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", l.Target)
	}
	if len(d.members) == 1 {
		m := d.members[0]
		o, err := m.Observe(ctx, l)
		if r := (*refusal.Refusal)(nil); err != nil && ctx.Err() == nil && isAway(err) && !errors.As(err, &r) {
			err = m.away(reason(err))
		}
		return 0, o, err
	}
	answers := d.everywhere(ctx, l)
	if err := ctx.Err(); err != nil {
		return 0, op.Observed{}, err
	}
	owner, err := d.settle(l, answers)
	switch {
	case err != nil:
		return 0, op.Observed{}, err
	case owner >= 0:
		return owner, lingering(answers[owner].o, answers), answers[owner].err
	}
	i, o, err := d.place(ctx, l, answers)
	return i, lingering(o, answers), err
}

// lingering adds what another back end reports of the look's incarnation: it still exists
// there, under another name.
func lingering(o op.Observed, answers []answer) op.Observed {
	for _, a := range answers {
		if a.err == nil && o.Lingers == "" {
			o.Lingers = a.o.Lingers
		}
	}
	return o
}

// everywhere asks all back ends at the same time.
func (d *Driver) everywhere(ctx context.Context, l op.Look) []answer {
	out := make([]answer, len(d.members))
	var wg sync.WaitGroup
	for i, m := range d.members {
		wg.Go(func() { out[i] = m.observe(ctx, l) })
	}
	wg.Wait()
	return out
}

// observe looks at a target of one back end.
func (m *member) observe(ctx context.Context, l op.Look) answer {
	o, err := ask(ctx, &m.looks, func(ctx context.Context) (op.Observed, error) { return m.Driver.Observe(ctx, l) })
	switch {
	case err != nil && isAway(err):
		return answer{err: m.away(reason(err))}
	case err == nil && o.Target != l.Target:
		return answer{err: m.lied("answered for %s when asked for %s", op.Shown(o.Target.String()), l.Target)}
	}
	return answer{o, err}
}

// takes reports if a step may destroy something.
func takes(name string) bool {
	spec, err := op.Lookup(name)
	return err == nil && spec.Takes != "" && !spec.Runtime
}

// settle returns the only back end that has a target, or -1 if certainly none has it. A target
// that cannot be looked at counts as present.
func (d *Driver) settle(l op.Look, answers []answer) (int, error) {
	var by []string
	var had []*member
	owner, away := -1, error(nil)
	for i, a := range answers {
		m := d.members[i]
		switch {
		case a.err != nil && isAway(a.err):
			if away == nil {
				away = a.err
			}
			// The guests that the back end had before the start are not known. So for a step
			// that takes something, it counts as having the target.
			if m.had(l.Target.Name) || takes(l.Op) && m.neverListed() {
				had = append(had, m)
			}
		case a.err != nil || a.o.Present:
			by, owner = append(by, m.name), i
		}
	}
	switch {
	case len(by) > 1:
		return 0, claimed(l.Target, by)
	case len(by) == 1 && len(had) > 0:
		return 0, had[0].mayHave(l.Target, by[0])
	case len(by) == 1:
		return owner, nil
	case away != nil:
		return 0, away
	}
	return -1, nil
}

// place returns the back end that would make a guest that does not exist. For a clone, it is
// the original's back end. For an undelete, it is the one whose trash has the guest. For any
// other step, it is the back end for new guests.
func (d *Driver) place(ctx context.Context, l op.Look, answers []answer) (int, op.Observed, error) {
	switch l.Op {
	case "guest.clone":
		from := op.Target{Kind: guestKind, Name: l.Params.Str("from")}
		if from.Name == l.Target.Name {
			break // its back end refuses it
		}
		originals := d.everywhere(ctx, op.At(from))
		owner, err := d.settle(op.At(from), originals)
		if err != nil {
			return 0, op.Observed{}, err
		}
		if owner >= 0 {
			return owner, withTrash(answers[owner].o, answers), nil
		}
	case op.Undelete:
		owner, err := d.trashed(l, answers)
		if err != nil {
			return 0, op.Observed{}, err
		}
		if owner >= 0 {
			return owner, withTrash(answers[owner].o, answers), nil
		}
	}
	return d.makes, withTrash(answers[d.makes].o, answers), nil
}

// withTrash adds, to the result of one back end, what all have in their trash under that name.
// People see what can be brought back, and the gate sees to which guest the name belongs.
func withTrash(o op.Observed, answers []answer) op.Observed {
	o.Trash = nil
	for _, a := range answers {
		o.Trash = append(o.Trash, a.o.Trash...)
	}
	return o
}

// trashed returns the only back end whose trash has the guest to bring back, or -1 if none has
// it.
func (d *Driver) trashed(l op.Look, answers []answer) (int, error) {
	which, owner := op.Incarnation(l.Params.Str("incarnation")), -1
	for i, a := range answers {
		if !slices.ContainsFunc(a.o.Trash, func(x op.Trashed) bool { return x.Name == "" && (which == "" || x.Incarnation == which) }) {
			continue
		}
		if owner >= 0 {
			return 0, refusal.New(refusal.Conflict, "guest/%s is in the trash of %s and of %s", l.TrashName(),
				d.members[owner].name, d.members[i].name).
				WithHint("say which with incarnation: gated guests %s lists them", l.TrashName())
		}
		owner = i
	}
	return owner, nil
}
