package reconcile

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/wire/desired"
)

// mention is one guest of one document.
type mention struct {
	source int // the place in Config.Sources
	set    string
	guest  *desired.Guest
}

// wish is what desired state says of one target. Its mentions never change: the index gets another wish instead. So
// pursue may read a wish without r.mu.
type wish struct {
	guest    *desired.Guest // of the first mention
	sets     []string       // sets that mention it, sorted; if several do, the wish is void
	mentions []mention      // sorted by source, then by set
	seen     uint64         // the last round in which a driver listed the target; only the round uses it
	found    found          // what the last round that compared it found; r.mu
}

// newWish returns the wish of at least one mention, and keeps the slice.
func newWish(mentions []mention) *wish {
	w := &wish{guest: mentions[0].guest, sets: make([]string, len(mentions)), mentions: mentions}
	for i := range mentions {
		w.sets[i] = mentions[i].set
	}
	slices.Sort(w.sets)
	return w
}

// conflict reports whether several sets mention the target. The gate cannot know which is meant, so no wish counts.
func (w *wish) conflict() bool { return len(w.sets) > 1 }

// set returns the set in whose name the wish is pursued.
func (w *wish) set() string { return w.sets[0] }

// same reports whether two wishes ask for the same, in the name of the same sets.
func (w *wish) same(o *wish) bool {
	return slices.Equal(w.sets, o.sets) &&
		(w.guest == o.guest || w.guest.State == o.guest.State && w.guest.Fields.Equal(o.guest.Fields))
}

// index is all wishes. r.mu guards it.
type index struct {
	wishes map[op.Target]*wish
	// sets has, for every set that was read, how many sources have one of that name. whole says that every source was
	// read: then a set that is missing here is gone. Otherwise nothing is known of a missing set.
	sets  map[string]int
	whole bool
}

func newIndex(whole bool) *index {
	return &index{wishes: map[op.Target]*wish{}, sets: map[string]int{}, whole: whole}
}

// knows reports whether the set's wishes are known; they may be none.
func (ix *index) knows(set string) bool { return ix.whole || ix.sets[set] > 0 }

// wants reports whether the set, and no other, has a wish for the target.
func (ix *index) wants(set string, t op.Target) bool {
	w := ix.wishes[t]
	return w != nil && !w.conflict() && w.set() == set
}

// change is how one source's documents differ from its last read. A set with another document is in both lists.
type change struct {
	source      int // the place in Config.Sources
	gone, added []*SetDoc
}

// differences compares two reads of a source, which are sorted by set.
func differences(before, now []*SetDoc) (gone, added []*SetDoc) {
	i, j := 0, 0
	for i < len(before) && j < len(now) {
		switch a, b := before[i], now[j]; {
		case a == b || a.Set == b.Set && a.Digest == b.Digest:
			i, j = i+1, j+1
		case a.Set < b.Set:
			gone, i = append(gone, a), i+1
		case a.Set > b.Set:
			added, j = append(added, b), j+1
		default:
			gone, added, i, j = append(gone, a), append(added, b), i+1, j+1
		}
	}
	return append(gone, before[i:]...), append(added, now[j:]...)
}

// apply changes the wishes of the targets that the changed documents mention, and no others. It returns these targets
// with their wishes before, which are nil if a target had none.
func (ix *index) apply(changes []change) map[op.Target]*wish {
	n := 0
	for _, c := range changes {
		for _, d := range slices.Concat(c.gone, c.added) {
			n += len(d.Doc.Guests)
		}
	}
	before := make(map[op.Target]*wish, n)
	for _, c := range changes {
		for _, d := range c.gone {
			if ix.sets[d.Set]--; ix.sets[d.Set] == 0 {
				delete(ix.sets, d.Set)
			}
			for i := range d.Doc.Guests {
				ix.remove(c.source, d.Set, d.Doc.Guests[i].Target(), before)
			}
		}
	}
	for _, c := range changes {
		for _, d := range c.added {
			ix.sets[d.Set]++
			for i := range d.Doc.Guests {
				ix.add(mention{source: c.source, set: d.Set, guest: &d.Doc.Guests[i]}, before)
			}
		}
	}
	return before
}

// remember returns the target's wish, and keeps the first one that it sees of a target.
func (ix *index) remember(t op.Target, before map[op.Target]*wish) *wish {
	w := ix.wishes[t]
	if _, ok := before[t]; !ok {
		before[t] = w
	}
	return w
}

// remove takes away what a set of a source says of a target.
func (ix *index) remove(source int, set string, t op.Target, before map[op.Target]*wish) {
	w := ix.remember(t, before)
	if len(w.mentions) == 1 {
		delete(ix.wishes, t)
		return
	}
	at := slices.IndexFunc(w.mentions, func(m mention) bool { return m.source == source && m.set == set })
	ix.wishes[t] = newWish(slices.Delete(slices.Clone(w.mentions), at, at+1))
}

// add puts a mention in its place among those of its target.
func (ix *index) add(m mention, before map[op.Target]*wish) {
	t := m.guest.Target()
	w := ix.remember(t, before)
	if w == nil {
		ix.wishes[t] = newWish([]mention{m})
		return
	}
	at := 0
	for at < len(w.mentions) && w.mentions[at].before(m) {
		at++
	}
	ix.wishes[t] = newWish(slices.Insert(slices.Clone(w.mentions), at, m))
}

// before reports whether m comes before o among the mentions of a target.
func (m mention) before(o mention) bool {
	return m.source < o.source || m.source == o.source && m.set < o.set
}
