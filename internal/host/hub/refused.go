package hub

import (
	"container/list"
	"slices"

	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// maxRemembered is how many refused operations are remembered after the hub stops relaying them: as many as a list may
// have.
const maxRemembered = MaxOperations

// forgone remembers refused operations that the hub took out of its list. Without it, a hub that alternates between two
// lists would make each of them new again, and each poll would add a refusal to the gate's log. The zero value is
// ready.
type forgone struct {
	order list.List // of *relayed, the oldest first
	by    map[string]*list.Element
}

// put remembers a refused operation that leaves the list. Beyond the bound it forgets the oldest.
func (f *forgone) put(r *relayed) {
	if r.refusal == nil {
		return
	}
	if f.by == nil {
		f.by = map[string]*list.Element{}
	}
	r.envelope = api.Envelope{} // it comes back with its envelope
	f.by[r.digest] = f.order.PushBack(r)
	if f.order.Len() > maxRemembered {
		f.take(f.order.Front().Value.(*relayed).digest)
	}
}

// take returns what is remembered of an operation, and forgets it; nil if nothing is.
func (f *forgone) take(digest string) *relayed {
	e := f.by[digest]
	if e == nil {
		return nil
	}
	delete(f.by, digest)
	return f.order.Remove(e).(*relayed)
}

// again takes an operation back into the list. If it was refused because of its bytes, it stays refused. Any other
// refusal may be different now, so the gate is asked again when it is due: after a minute, and after twice as long at
// each return.
func (r *relayed) again(e api.Envelope) {
	if !r.answered || !forGood(r.refusal.Code) {
		r.answered, r.envelope, r.ended = false, e, nil
	}
}

// forGood reports whether a refusal is about the bytes of the envelope alone, so that no later event changes it.
func forGood(c refusal.Code) bool {
	return slices.Contains([]refusal.Code{refusal.Malformed, refusal.Oversized, refusal.BadSignature,
		refusal.NamespaceMismatch, refusal.WeakKey}, c)
}
