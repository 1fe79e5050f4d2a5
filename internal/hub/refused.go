package hub

import (
	"container/list"
	"slices"

	"gated/internal/api"
	"gated/internal/op"
)

// maxRemembered is how many operations that were refused, and that the hub does
// not relay any more, are remembered: as many as a list may have.
const maxRemembered = MaxOperations

// forgone remembers operations that were refused after the hub took them out of
// its list. A hub that alternates between two lists would else make each of them
// new again, and the gate's log longer by one refusal with each poll. The zero
// value is ready.
type forgone struct {
	order list.List // of *relayed, the one that went first in front
	by    map[string]*list.Element
}

// put remembers an operation that goes, if it was refused; over the bound, the
// one that went first is forgotten.
func (f *forgone) put(r *relayed) {
	if r.refusal == nil {
		return
	}
	if f.by == nil {
		f.by = map[string]*list.Element{}
	}
	r.envelope = api.Envelope{} // it brings it along when it comes back
	f.by[r.digest] = f.order.PushBack(r)
	if f.order.Len() > maxRemembered {
		f.take(f.order.Front().Value.(*relayed).digest)
	}
}

// take returns what is remembered of an operation, and forgets it; nil for
// nothing.
func (f *forgone) take(digest string) *relayed {
	e := f.by[digest]
	if e == nil {
		return nil
	}
	delete(f.by, digest)
	return f.order.Remove(e).(*relayed)
}

// again takes back an operation. One that was refused for what it is stays
// refused. Any other may be decided otherwise by now, and is asked about again
// when it is due: after a minute, then after twice as long with each time that it
// comes back.
func (r *relayed) again(e api.Envelope) {
	if !r.answered || !forGood(r.refusal.Code) {
		r.answered, r.envelope, r.ended = false, e, nil
	}
}

// forGood reports whether a refusal is about the bytes of the envelope alone, so
// that nothing that happens elsewhere changes it.
func forGood(c op.Code) bool {
	return slices.Contains([]op.Code{op.Malformed, op.Oversized, op.BadSignature, op.NamespaceMismatch, op.WeakKey}, c)
}
