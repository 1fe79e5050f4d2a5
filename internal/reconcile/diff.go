package reconcile

import (
	"maps"
	"sort"

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

// wish is what desired state says of one target.
type wish struct {
	guest *desired.Guest
	sets  []string // sets that mention it, sorted; if several do, the wish is void
	seen  uint64   // the last round in which a driver listed the target; only the round uses it
	found found    // what the last round that compared it found; r.mu
}

// conflict reports whether several sets mention the target. The gate cannot know which is meant, so no wish counts.
func (w *wish) conflict() bool { return len(w.sets) > 1 }

// set returns the set in whose name the wish is pursued.
func (w *wish) set() string { return w.sets[0] }

// same reports whether two wishes ask for the same, in the name of the same sets.
func (w *wish) same(o *wish) bool {
	if len(w.sets) != len(o.sets) {
		return false
	}
	for i := range w.sets {
		if w.sets[i] != o.sets[i] {
			return false
		}
	}
	return w.guest == o.guest || w.guest.State == o.guest.State && w.guest.Fields.Equal(o.guest.Fields)
}

// index is all wishes. It is replaced, never changed.
type index struct {
	wishes map[op.Target]*wish
	// sets has every set that was read. whole says that every source was read: then a set that is missing here is gone.
	// Otherwise nothing is known of a missing set.
	sets  map[string]bool
	whole bool
}

// newIndex merges the documents of all sources that were read completely. A set is known by its name alone.
func newIndex(docs [][]SetDoc, whole bool) *index {
	n := 0
	for _, d := range docs {
		for i := range d {
			n += len(d[i].Doc.Guests)
		}
	}
	ix := &index{wishes: make(map[op.Target]*wish, n), sets: map[string]bool{}, whole: whole}
	all := make([]wish, 0, n) // one allocation for all wishes
	names := make([]string, 0, n)
	for _, d := range docs {
		for i := range d {
			ix.sets[d[i].Set] = true
			for j := range d[i].Doc.Guests {
				g := &d[i].Doc.Guests[j]
				if w, ok := ix.wishes[g.Target()]; ok {
					w.sets = append(w.sets[:len(w.sets):len(w.sets)], d[i].Set)
					sort.Strings(w.sets)
					continue
				}
				names = append(names, d[i].Set)
				all = append(all, wish{guest: g, sets: names[len(names)-1:]})
				ix.wishes[g.Target()] = &all[len(all)-1]
			}
		}
	}
	return ix
}

// knows reports whether the set's wishes are known; they may be none.
func (ix *index) knows(set string) bool { return ix.whole || ix.sets[set] }

// wants reports whether the set, and no other, has a wish for the target.
func (ix *index) wants(set string, t op.Target) bool {
	w := ix.wishes[t]
	return w != nil && !w.conflict() && w.set() == set
}
