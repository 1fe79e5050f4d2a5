package hub

import "context"

// Poll asks for desired state once.
func (l *Link) Poll(ctx context.Context) { l.poll(ctx) }
