package hub

import (
	"container/list"
	"context"
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/reconcile"
)

const (
	// tries is how many operations one round hands to the gate.
	tries = 32
	// retryFirst and retryLast bound how long an undecided operation waits before the next try; the time doubles.
	retryFirst = time.Minute
	retryLast  = time.Hour
)

// relays remembers relayed operations: those of the hub's last list, and the last refused ones of earlier lists. A
// restart may lose all of it: the gate has the payloads that it took.
type relays struct {
	etag string
	list []*relayed // in the hub's order
	gone forgone
	err  error
}

// relayed is one operation of the hub's list.
type relayed struct {
	digest   string
	envelope api.Envelope // from the list; empty after the final answer
	payload  string       // digest of the payload; empty if it cannot be read
	answered bool
	refusal  *refusal.Refusal // the refusal, if there was one
	request  op.RequestID
	wait     time.Duration // the delay before the next try
	due      time.Time
	ended    *op.Request // the request, once it is in its last state
}

// relay reads the hub's list and hands new operations to the gate.
func (l *Link) relay(ctx context.Context) {
	err := l.fetchOperations(ctx)
	if ctx.Err() != nil {
		return
	}
	before := l.relays.err
	l.relays.err = err
	l.says("reading relayed operations", before, err)
	if err == nil {
		l.handOver(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.RelaySince = since(l.status.RelaySince, before, err, l.Now())
	l.status.RelayErr, l.status.Relayed, l.status.Refused, l.status.Untried = err, len(l.relays.list), 0, 0
	for _, r := range l.relays.list {
		switch {
		case !r.answered:
			l.status.Untried++
		case r.refusal != nil:
			l.status.Refused++
		}
	}
}

// fetchOperations takes over the hub's list. It forgets what is no longer in the list, except refused operations.
func (l *Link) fetchOperations(ctx context.Context) error {
	a, err := l.hub.get(ctx, Path(l.Host, PathOperations), l.relays.etag)
	if err != nil || a.same {
		return err
	}
	var list []api.Envelope
	if !a.none {
		if list, err = DecodeOperations(a.body, l.Host); err != nil {
			return err
		}
	}
	known := make(map[string]*relayed, len(l.relays.list))
	for _, r := range l.relays.list {
		known[r.digest] = r
	}
	next := make([]*relayed, 0, len(list))
	taken := make(map[string]bool, len(list))
	for _, e := range list {
		d := Digest(e)
		if taken[d] {
			continue
		}
		taken[d] = true
		r := known[d]
		if r == nil {
			if r = l.relays.gone.take(d); r != nil {
				r.again(e)
			} else {
				r = &relayed{digest: d, envelope: e}
			}
		}
		next = append(next, r)
	}
	for _, r := range l.relays.list {
		if !taken[r.digest] {
			l.relays.gone.put(r)
		}
	}
	l.relays.list, l.relays.etag = next, a.etag
	return nil
}

// handOver asks the gate about operations that are new or due again, within the bound.
func (l *Link) handOver(ctx context.Context) {
	left := tries
	for _, r := range l.relays.list {
		if early := r.due.Sub(l.Now()); r.answered || early > 0 && early <= retryLast { // if more, the clock was set back
			continue
		}
		if left--; left < 0 || ctx.Err() != nil {
			return
		}
		l.ask(ctx, r)
	}
}

// ask hands one envelope to the gate, as POST /v1/ops does. If the gate has decided on its payload already, ask reads
// that decision: asking again would add a refusal to the log after each start.
func (l *Link) ask(ctx context.Context, r *relayed) {
	payload, err := r.envelope.Open()
	if err != nil {
		refused := refusal.As(err)
		l.Gate.NoteRefused(ctx, l.by, "relayed operation", refused)
		r.answer(refused, l.Now())
		return
	}
	r.payload = op.SHA256(payload)
	id, known, err := l.Gate.KnownPayload(ctx, payload)
	if err != nil {
		r.later(refusal.As(err), l.Now())
		return
	}
	if known {
		req, err := l.Gate.Request(ctx, id)
		if err == nil && req.Step.State != op.StatePending {
			r.request = id
			r.answer(nil, l.Now())
			return
		}
	}
	req, err := l.Gate.ApproveOffline(ctx, l.by, authz.Envelope{Payload: payload, Signatures: r.envelope.Signatures})
	if ctx.Err() != nil {
		return // the next start asks the gate for the result
	}
	refused := refusal.As(err)
	switch {
	case refused == nil:
		r.request = req.ID
		l.Logger.Info("an operation that the hub relayed was taken", "request", req.ID.String(), "state", string(req.Step.State))
	case known:
		r.request = id
	}
	if refused != nil && refused.Request != "" {
		r.request, _ = op.ParseStepID(refused.Request) // the gate wrote it
	}
	if refused != nil && mayChange(refused.Code) {
		r.later(refused, l.Now())
		return
	}
	r.answer(refused, l.Now())
}

// mayChange reports whether a refusal says that the gate could not decide, or not yet.
func mayChange(c refusal.Code) bool {
	return slices.Contains([]refusal.Code{refusal.Unavailable, refusal.Internal, refusal.OverLimit, refusal.NotYetValid},
		c)
}

// answer records the gate's answer. The time of the next try matters only if the hub takes a refused operation out of
// its list and puts it back.
func (r *relayed) answer(refused *refusal.Refusal, now time.Time) {
	r.later(refused, now)
	r.answered, r.envelope = true, api.Envelope{}
}

func (r *relayed) later(refused *refusal.Refusal, now time.Time) {
	r.refusal = refused
	r.wait = min(max(2*r.wait, retryFirst), retryLast)
	r.due = now.Add(r.wait)
}

// operations reports the results of the newest operations, up to limit.
func (l *Link) operations(ctx context.Context, limit int) (out []OperationReport, left int) {
	out = []OperationReport{}
	list := l.relays.list
	if len(list) > limit {
		left, list = len(list)-limit, list[len(list)-limit:]
	}
	for _, r := range list {
		if !r.answered && r.refusal == nil {
			left++
			continue
		}
		o := OperationReport{Digest: r.digest, Payload: r.payload}
		if r.refusal != nil {
			o.Code, o.Detail = r.refusal.Code, clip(r.refusal.Detail)
		}
		if req, ok := l.requestOf(ctx, r); ok {
			o.Request, o.Op, o.Target, o.State = req.ID.String(), req.Step.Op, req.Step.Target.String(), req.Step.State
			if o.Detail == "" {
				o.Detail = clip(req.Step.Detail)
			}
		}
		out = append(out, o)
	}
	return out, left
}

// requestOf returns the present state of an operation's request.
func (l *Link) requestOf(ctx context.Context, r *relayed) (op.Request, bool) {
	if r.request.Job == 0 {
		return op.Request{}, false
	}
	if r.ended != nil {
		return *r.ended, true
	}
	req, err := l.Gate.Request(ctx, r.request)
	if err != nil {
		return op.Request{}, false
	}
	req.Payload, req.Facts, req.Signatures = nil, nil, nil // they are not reported
	if !req.Step.State.Open() {
		r.ended = &req
	}
	return req, true
}

var _ reconcile.Source = (*Link)(nil)
var _ reconcile.Notifier = (*Link)(nil)

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
