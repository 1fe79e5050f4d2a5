package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// pursue looks at a target and asks the gate for the first step towards the wish. It reports whether a step may run,
// because the driver could look at the target. Without a wish, the driver looks only when a step runs.
func (r *Reconciler) pursue(ctx context.Context, d driver.Driver, t op.Target) bool {
	w := r.wishOf(t)
	if w == nil {
		return true
	}
	o, err := observe(ctx, d, op.At(t))
	r.mu.Lock()
	m := r.target(t)
	m.unknown = ""
	if err != nil {
		m.unknown = err.Error()
	}
	r.mu.Unlock()
	if err != nil {
		return r.later(t, "look", err)
	}
	if o.Present {
		for _, set := range w.sets {
			if err := r.adopt(ctx, set, o); err != nil {
				return r.later(t, "adopt", err)
			}
		}
	}
	if w.conflict() {
		return true
	}
	asks := Plan(*w.guest, o)
	if len(asks) == 0 {
		return r.fulfilled(ctx, w, o)
	}
	if ask, ok := r.choose(w, o, asks); ok {
		return r.ask(ctx, d, w, o, ask, asks)
	}
	return true
}

// adopt tells the gate, once, that desired state mentions an incarnation.
func (r *Reconciler) adopt(ctx context.Context, set string, o op.Observed) error {
	r.mu.Lock()
	done := r.target(o.Target).isAdopted(set, o.Incarnation)
	r.mu.Unlock()
	if done {
		return nil
	}
	if err := r.Gate.Adopt(ctx, set, o); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.target(o.Target)
	m.adopted = slices.DeleteFunc(m.adopted, func(a adoption) bool { return a.set == set })
	m.adopted = append(m.adopted, adoption{set, o.Incarnation})
	return nil
}

// choose returns the first step of a plan that did not end for good. The gate is asked for one step at a time, because
// each is planned on the result of the one before.
func (r *Reconciler) choose(w *wish, o op.Observed, asks []op.Ask) (op.Ask, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.target(o.Target)
	for _, a := range asks {
		if !m.isStopped(w.guest, a, o, r.Now()) {
			return a, true
		}
	}
	return op.Ask{}, false
}

// fulfilled takes back the open steps of a wish that came true by itself.
func (r *Reconciler) fulfilled(ctx context.Context, w *wish, o op.Observed) bool {
	r.mu.Lock()
	r.target(o.Target).converged(r.Now())
	r.mu.Unlock()
	steps, err := r.Gate.Open(ctx, o.Target)
	if err == nil && len(steps) > 0 {
		err = r.Gate.Withdraw(ctx, w.set(), o.Target, nil)
	}
	if err != nil {
		return r.later(o.Target, "withdraw", err)
	}
	return true
}

// ask brings the journal to one step of a plan. It remembers an answer that is final, and tries again after one that
// may pass. The plan's other steps are still wished for: a request that waits for an operator stays, even if another
// step now comes before it.
func (r *Reconciler) ask(ctx context.Context, d driver.Driver, w *wish, o op.Observed, ask op.Ask, plan []op.Ask) bool {
	key := askKey(ask)
	r.mu.Lock()
	wait := r.target(o.Target).retry.left(key, r.Now())
	full := r.isFull(w)
	r.mu.Unlock()
	if wait > 0 {
		r.queue.addAfter(o.Target, wait)
		return true
	}
	at := stop{wish: wishKey(w.guest), ask: key, incarnation: o.Incarnation, fingerprint: o.Fingerprint, op: ask.Op}
	if stays, err := r.inTheWay(ctx, d, ask, at); err != nil {
		return r.later(o.Target, key, err)
	} else if stays {
		r.queue.add(o.Target) // another step of the plan may still be possible
		return true
	}
	if err := r.Gate.Withdraw(ctx, w.set(), o.Target, plan); err != nil {
		return r.later(o.Target, "withdraw", err)
	}
	if full {
		return true
	}
	_, err := r.Gate.Want(ctx, w.set(), ask)
	switch code := refusal.CodeOf(err); {
	case err == nil:
		r.mu.Lock()
		m := r.target(o.Target)
		m.stopped = slices.DeleteFunc(m.stopped, func(s stop) bool { return s.ask == key })
		r.mu.Unlock()
	case code == refusal.OverLimit && ask.Op == "guest.destroy":
		r.mu.Lock()
		r.limited[w.set()] = r.Now().Add(r.Interval / 2)
		r.mu.Unlock()
	case code == refusal.OverLimit || code == refusal.Unavailable || code == refusal.Internal || code == refusal.StaleTarget || errors.Is(err,
		context.Canceled):
		return r.later(o.Target, key, err)
	default:
		at.code, at.detail = code, refusal.As(err).Detail
		r.mu.Lock()
		r.stopAt(r.target(o.Target), at, errors.Is(err, gate.ErrHindered))
		r.mu.Unlock()
		r.queue.add(o.Target) // another step of the plan may still be possible
	}
	return true
}

// inTheWay looks whether what was in the way of an ask still is, before the gate is asked again. Then at is its stop, until the
// next look.
func (r *Reconciler) inTheWay(ctx context.Context, d driver.Driver, ask op.Ask, at stop) (bool, error) {
	r.mu.Lock()
	m := r.target(ask.Target)
	i := m.stopOf(at.ask)
	waits := i >= 0 && m.stopped[i].clears != nil
	r.mu.Unlock()
	if !waits {
		return false, nil
	}
	o, err := observe(ctx, d, op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params}.Look())
	if err != nil || o.Cannot == "" {
		return false, err
	}
	at.code, at.detail = o.CannotCode, o.Cannot
	r.mu.Lock()
	r.stopAt(r.target(ask.Target), at, true)
	r.mu.Unlock()
	return true, nil
}

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
