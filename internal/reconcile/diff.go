package reconcile

import (
	"maps"

	"gated/internal/base/op"
	"gated/internal/wire/desired"
)

// The running states that a driver reports if it is sure. For anything else, which is unknown, reconcile plans nothing.
const (
	running = op.Running
	stopped = op.Stopped
	absent  = "absent"
)

// Plan returns the steps that make a guest as wished, in their order: first steps that add or resize, then start and
// stop. Last come steps that take protection or a label's value away: these wait for an operator, and must hold up
// nothing. Plan leaves alone each field, and each label, without a wish. When each step is done, Plan returns none.
//
// Plan makes no guest without a wished-for state: a document that was cut short after the name must not bring back a
// guest that its lost part calls absent.
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

// changes returns the fields that differ from the wish, divided by whether the change takes protection away. Both are
// nil if nothing differs, as for most guests in most rounds.
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
