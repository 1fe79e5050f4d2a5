package reconcile

import (
	"cmp"
	"slices"

	"gated/internal/base/op"
)

// found is the result of the last round for a wish.
type found int

const (
	notLooked found = iota // no round compared it yet
	asWished
	notAsWished
)

// The states of a wish.
const (
	WishConverged   = "converged"   // in the last round, the target was as wished
	WishWaiting     = "waiting"     // a request for it waits for signatures
	WishStopped     = "stopped"     // a step of it ended and is not tried again
	WishUnknown     = "unknown"     // the driver cannot observe the target
	WishConflicting = "conflicting" // several sets mention the target
	WishWorking     = "working"     // none of these: not looked at yet, or under way
)

// SetStanding counts the wishes of one set by their states.
type SetStanding struct {
	Set    string
	Guests int // the number of all of them
	Counts map[string]int
}

// WishStanding is one wish that its target does not meet.
type WishStanding struct {
	Set    string
	Target op.Target
	State  string // never WishConverged
	Why    string // for people; may be empty
}

// Standing returns, for each set, how many wishes are in each state, from the last round over all targets. It also
// returns at most limit wishes that are not met, sorted by set and target, and how many it left out. waits has the
// targets with a request that waits for signatures.
func (r *Reconciler) Standing(waits map[op.Target]bool, limit int) (sets []SetStanding, unmet []WishStanding, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]*SetStanding{}
	for set := range r.wishes.sets {
		counts[set] = &SetStanding{Set: set, Counts: map[string]int{}}
	}
	for t, w := range r.wishes.wishes {
		state, why := r.standing(t, w, waits[t])
		for _, set := range w.sets {
			counts[set].Guests++
			counts[set].Counts[state]++
			if state != WishConverged {
				unmet = append(unmet, WishStanding{Set: set, Target: t, State: state, Why: why})
			}
		}
	}
	for _, s := range counts {
		sets = append(sets, *s)
	}
	slices.SortFunc(sets, func(a, b SetStanding) int { return cmp.Compare(a.Set, b.Set) })
	slices.SortFunc(unmet, func(a, b WishStanding) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Target.String(), b.Target.String()))
	})
	if len(unmet) > limit {
		unmet, left = slices.Clone(unmet[:limit]), len(unmet)-limit
	}
	return sets, unmet, left
}

// standing returns the state of one wish. The caller holds r.mu.
func (r *Reconciler) standing(t op.Target, w *wish, waits bool) (state, why string) {
	m := r.targets[t]
	switch {
	case w.conflict():
		return WishConflicting, "several sets mention it"
	case m != nil && m.unknown != "":
		return WishUnknown, m.unknown
	case waits:
		return WishWaiting, ""
	case m != nil && len(m.stopped) > 0:
		return WishStopped, m.stopped[0].op + ": " + string(m.stopped[0].code) + ": " + m.stopped[0].detail
	case w.found == asWished:
		return WishConverged, ""
	case r.isFull(w):
		return WishWorking, "the set has as many requests open as it may"
	default:
		return WishWorking, ""
	}
}
