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

// same reports whether two wishes ask for the same, in the name of the same sets. Either may be nil, which is no wish.
func (w *wish) same(o *wish) bool {
	if w == nil || o == nil {
		return w == o
	}
	return slices.Equal(w.sets, o.sets) &&
		(w.guest == o.guest || w.guest.State == o.guest.State && w.guest.Fields.Equal(o.guest.Fields))
}

// index is all wishes. r.mu guards it. Only read changes it, under r.reading too, so read may look at it without r.mu.
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

// edit is what changed documents say otherwise of one target than before, each list sorted as mentions are.
type edit struct{ gone, added []mention }

// plan returns the wishes that the changed documents' targets will have, nil for a target without a wish. It makes each
// wish once, because thousands of sets may mention one target. It changes nothing.
func (ix *index) plan(changes []change) map[op.Target]*wish {
	edits := map[op.Target]*edit{}
	of := func(t op.Target) *edit {
		if edits[t] == nil {
			edits[t] = &edit{}
		}
		return edits[t]
	}
	for _, c := range changes {
		each(c.source, c.gone, func(m mention) { e := of(m.guest.Target()); e.gone = append(e.gone, m) })
		each(c.source, c.added, func(m mention) { e := of(m.guest.Target()); e.added = append(e.added, m) })
	}
	next := make(map[op.Target]*wish, len(edits))
	for t, e := range edits {
		var old []mention
		if w := ix.wishes[t]; w != nil {
			old = w.mentions
		}
		next[t] = nil
		if m := e.applied(old); len(m) > 0 {
			next[t] = newWish(m)
		}
	}
	return next
}

// each calls fn with every guest of a source's documents.
func each(source int, docs []*SetDoc, fn func(mention)) {
	for _, d := range docs {
		for i := range d.Doc.Guests {
			fn(mention{source: source, set: d.Set, guest: &d.Doc.Guests[i]})
		}
	}
}

// applied returns a target's mentions without those that are gone and with those that were added.
func (e *edit) applied(old []mention) []mention {
	out := make([]mention, 0, max(0, len(old)-len(e.gone))+len(e.added))
	gone, added := e.gone, e.added
	for _, m := range old {
		if len(gone) > 0 && gone[0].source == m.source && gone[0].set == m.set {
			gone = gone[1:]
			continue
		}
		for len(added) > 0 && added[0].before(m) {
			out, added = append(out, added[0]), added[1:]
		}
		out = append(out, m)
	}
	return append(out, added...)
}

// apply puts planned wishes in the place of those before, which it returns, nil for a target that had none.
func (ix *index) apply(changes []change, next map[op.Target]*wish) map[op.Target]*wish {
	for _, c := range changes {
		for _, d := range c.gone {
			if ix.sets[d.Set]--; ix.sets[d.Set] == 0 {
				delete(ix.sets, d.Set)
			}
		}
		for _, d := range c.added {
			ix.sets[d.Set]++
		}
	}
	before := make(map[op.Target]*wish, len(next))
	for t, w := range next {
		before[t] = ix.wishes[t]
		if w == nil {
			delete(ix.wishes, t)
		} else {
			ix.wishes[t] = w
		}
	}
	return before
}

// before reports whether m comes before o among the mentions of a target.
func (m mention) before(o mention) bool {
	return m.source < o.source || m.source == o.source && m.set < o.set
}
