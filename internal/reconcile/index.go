package reconcile

import (
	"sort"

	"gated/internal/desired"
	"gated/internal/op"
)

// wish is what desired state says of one target.
type wish struct {
	guest *desired.Guest
	sets  []string // that mention it, sorted; of several, the wish is void
	seen  uint64   // the last round in which a driver listed the target; of the round alone
	found found    // by the last round that compared it; r.mu
}

// conflict reports whether several sets mention the target. Nobody can say
// which is meant, so that none is.
func (w *wish) conflict() bool { return len(w.sets) > 1 }

// set returns the set that the wish is pursued for.
func (w *wish) set() string { return w.sets[0] }

// same reports whether two wishes ask for the same, in the name of the same.
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

// index is everything that is wished for. It is replaced, never changed.
type index struct {
	wishes map[op.Target]*wish
	// sets has every set that was read, and whole is set when every source was:
	// then a set that is not here is gone. Of other sets nothing is known.
	sets  map[string]bool
	whole bool
}

// newIndex merges the documents of all sources that were read whole. Sets are
// told apart by their names alone.
func newIndex(docs [][]SetDoc, whole bool) *index {
	n := 0
	for _, d := range docs {
		for i := range d {
			n += len(d[i].Doc.Guests)
		}
	}
	ix := &index{wishes: make(map[op.Target]*wish, n), sets: map[string]bool{}, whole: whole}
	all := make([]wish, 0, n) // one allocation for all of them
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

// knows reports whether it is known what the set wishes for, be it nothing.
func (ix *index) knows(set string) bool { return ix.whole || ix.sets[set] }

// wants reports whether the set alone wishes something of the target.
func (ix *index) wants(set string, t op.Target) bool {
	w := ix.wishes[t]
	return w != nil && !w.conflict() && w.set() == set
}
