package reconcile

import (
	"sort"

	"gated/internal/base/op"
	"gated/internal/wire/desired"
)

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
