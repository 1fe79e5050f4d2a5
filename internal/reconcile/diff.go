package reconcile

import (
	"maps"

	"gated/internal/desired"
	"gated/internal/op"
)

// The running states that a driver reports of what it can vouch for. Anything
// else is unknown, and nothing is planned for it.
const (
	running = op.Running
	stopped = op.Stopped
	absent  = "absent"
)

// Plan returns the steps that would make a guest what is wished for, in the
// order in which to take them: first what adds or resizes, then starting and
// stopping, last what takes protection or a label's value away, because that
// waits for an operator and holds up nothing behind it. A field that is not
// wished for is left alone, labels one by one. When each step was done, Plan
// returns none.
//
// Without a wished-for state a guest is not made: a document that was cut short
// after its name must not bring back what it goes on to call absent.
func Plan(want desired.Guest, have op.Observed) []op.Ask {
	if !have.Present {
		if want.State != desired.Running && want.State != desired.Stopped {
			return nil
		}
		params := maps.Clone(want.Fields)
		if params == nil {
			params = op.Params{}
		}
		params["state"] = want.State
		return []op.Ask{{Op: "guest.create", Target: want.Target(), Params: params}}
	}
	if have.Running != running && have.Running != stopped {
		return nil
	}
	if want.State == desired.Absent {
		return []op.Ask{{Op: "guest.destroy", Target: want.Target(), Params: op.Params{}}}
	}
	adds, takes := changes(want, have)
	var asks []op.Ask
	ask := func(verb string, p op.Params) {
		asks = append(asks, op.Ask{Op: "guest." + verb, Target: want.Target(), Params: p})
	}
	if len(adds) > 0 {
		ask("set-config", adds)
	}
	switch {
	case want.State == desired.Running && have.Running == stopped:
		ask("start", op.Params{})
	case want.State == desired.Stopped && have.Running == running:
		ask("stop", op.Params{})
	}
	if len(takes) > 0 {
		ask("set-config", takes)
	}
	return asks
}

// changes returns the fields that differ from what is wished for, apart by
// whether the change takes protection away. Both are nil where nothing differs,
// which is what most guests of most rounds look like.
func changes(want desired.Guest, have op.Observed) (adds, takes op.Params) {
	put := func(to *op.Params, name string, v any) {
		if *to == nil {
			*to = op.Params{}
		}
		(*to)[name] = v
	}
	for _, name := range fields {
		v, wished := want.Fields[name]
		switch {
		case !wished || have.Has(name, v):
		case name == "protected" && v == false:
			put(&takes, name, v)
		case name == "labels":
			merged, takesAway := mergeLabels(want.Fields, have.Labels)
			if takesAway {
				put(&takes, name, merged)
			} else {
				put(&adds, name, merged)
			}
		default:
			put(&adds, name, v)
		}
	}
	return adds, takes
}
