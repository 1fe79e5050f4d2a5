package several

import (
	"context"
	"errors"
	"slices"
	"sync"

	"gated/internal/op"
)

// answer is what one back end said of a target. Nothing at all is known of it
// where the error is that the back end is away.
type answer struct {
	o   op.Observed
	err error
}

// Observe looks at a guest in every back end that may have it. Its refusals are
// the back end's; StaleTarget for a name that two have; and Unavailable where
// none has it while one is away.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	i, o, err := d.locate(ctx, l)
	if err != nil {
		return op.Observed{}, err
	}
	o.Backend = d.members[i].name
	return o, nil
}

// locate returns which back end a step of that look belongs to, and what it sees.
func (d *Driver) locate(ctx context.Context, l op.Look) (int, op.Observed, error) {
	if l.Target.Kind != guestKind {
		return 0, op.Observed{}, op.Refuse(op.UnknownTarget, "%s is no guest", l.Target)
	}
	if len(d.members) == 1 {
		m := d.members[0]
		o, err := m.Observe(ctx, l)
		if r := (*op.Refusal)(nil); err != nil && ctx.Err() == nil && isAway(err) && !errors.As(err, &r) {
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

// lingering adds to what one back end saw what another says of the incarnation of
// the look: that it is still there, under another name.
func lingering(o op.Observed, answers []answer) op.Observed {
	for _, a := range answers {
		if a.err == nil && o.Lingers == "" {
			o.Lingers = a.o.Lingers
		}
	}
	return o
}

// everywhere asks all back ends side by side.
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

// takes holds for a step after which something may be gone.
func takes(name string) bool {
	spec, err := op.Lookup(name)
	return err == nil && spec.Takes != "" && !spec.Runtime
}

// settle returns the one back end that has a target, -1 where it is known that
// none has. What cannot be looked at there is there all the same.
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
			// Nothing is known of what it had before the start: for a step that takes
			// something it counts as having it.
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

// place returns the back end that a guest which is nowhere would be made in: by
// clone, where the original is; by undelete, whose trash has it; else where new
// guests go.
func (d *Driver) place(ctx context.Context, l op.Look, answers []answer) (int, op.Observed, error) {
	switch l.Op {
	case "guest.clone":
		from := op.Target{Kind: guestKind, Name: l.Params.Str("from")}
		if from.Name == l.Target.Name {
			break // which its back end refuses
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

// withTrash adds to what one back end saw what all have in their trash under that
// name: people see what can be brought back, and the gate whose the name is.
func withTrash(o op.Observed, answers []answer) op.Observed {
	o.Trash = nil
	for _, a := range answers {
		o.Trash = append(o.Trash, a.o.Trash...)
	}
	return o
}

// trashed returns the one back end whose trash has what is to be brought back, -1
// where none has.
func (d *Driver) trashed(l op.Look, answers []answer) (int, error) {
	which, owner := op.Incarnation(l.Params.Str("incarnation")), -1
	for i, a := range answers {
		if !slices.ContainsFunc(a.o.Trash, func(x op.Trashed) bool { return x.Name == "" && (which == "" || x.Incarnation == which) }) {
			continue
		}
		if owner >= 0 {
			return 0, op.Refuse(op.Conflict, "guest/%s is in the trash of %s and of %s", l.TrashName(), d.members[owner].name, d.members[i].name).
				WithHint("say which with incarnation: gated guests %s lists them", l.TrashName())
		}
		owner = i
	}
	return owner, nil
}
