package reconcile

import (
	"maps"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
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

// Resolve derives how a dispatched step ended, if the driver's answer was lost, from the target's state now. It is a
// pure function:
//
//	the target shows             benign            destructive
//	that it was done             succeeded         succeeded
//	that it was not done         planned again     interrupted
//	nothing either way           planned again     interrupted
//	another target or none       failed            interrupted
//	another's under the name     failed            failed
//
// A destructive step never runs again, even if it seems not to have begun: half of it may be done without a sign. A
// command never runs again either, even if its operator calls it benign: if its time ran out once, it would run out
// again.
func Resolve(s op.Step, o op.Observed) gate.Outcome {
	e, once := op.ShowsNothing, false
	if spec, err := op.Lookup(s.Op); err == nil {
		e, once = spec.Evidence(s, o), spec.Once
	}
	out := gate.Outcome{After: &o}
	benign := s.Verdict.Class == op.Benign && !once
	switch {
	case e == op.ShowsDone:
		out.Detail = "its end was not seen; the target shows that it was done"
	case e == op.ShowsTaken:
		out.Err = refusal.New(refusal.Conflict, "%s was made by somebody else meanwhile", s.Target)
	case e == op.ShowsAnother && benign:
		out.Err = refusal.New(refusal.StaleTarget, "%s is not the one that was meant any more", s.Target)
	case benign:
		out.Err, out.Transient = driver.Transient(refusal.New(refusal.Unavailable,
			"it was cut off before its end was seen")), true
	default:
		out.Unknown = true
		out.Detail = "it was cut off, and nobody saw whether it was done; look at the target, then ask again"
	}
	return out
}
