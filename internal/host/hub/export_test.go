package hub

import (
	"context"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// Poll asks for desired state once.
func (l *Link) Poll(ctx context.Context) { l.poll(ctx) }

// Remember has the link know envelopes as refused, and as no more relayed.
func (l *Link) Remember(list []api.Envelope) {
	for _, e := range list {
		r := &relayed{digest: Digest(e)}
		r.answer(refusal.New(refusal.Malformed, "no payload"), l.Now())
		l.relays.gone.put(r)
	}
}

// Remembered counts what was refused and is no more relayed.
func (l *Link) Remembered() int { return len(l.relays.gone.by) }
