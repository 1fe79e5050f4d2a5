package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
)

// Tick sends what is due: requests that still wait to the next sink, and digests.
func (n *Notifier) Tick(ctx context.Context) error {
	due, err := n.box.Due(ctx, n.now())
	if err != nil {
		return err
	}
	for _, d := range due {
		if err := n.escalate(ctx, d); err != nil {
			return err
		}
	}
	var all []error
	for _, s := range n.is.Sinks {
		made, err := n.box.Digest(ctx, s.Name, s.Digest.Within, n.now(), n.digest)
		if made {
			n.wakeUp(s.Name)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// escalate tells the next sink about a request that still waits. If no person of that sink can sign it, the sink hears
// nothing, and the sink after it has its turn later.
func (n *Notifier) escalate(ctx context.Context, d outbox.Due) error {
	r, ok, err := n.request(ctx, d.Request)
	if err != nil {
		return err
	}
	s := n.is.Find(d.Sink)
	if !ok || r.State != api.StatePending || s == nil {
		return n.box.Escalated(ctx, d, n.now(), nil)
	}
	var next *outbox.Escalation
	if s.Escalate != nil {
		next = &outbox.Escalation{Sink: s.Escalate.To, Due: n.now().Add(s.Escalate.After)}
	}
	if !canSign(*s, r) {
		return n.box.Escalated(ctx, d, n.now(), next)
	}
	m := n.about(r, *s, message.Escalated, numbered(n.cursor())+":"+r.ID+":escalated")
	m.Title, m.Urgent = n.titled(r, "still waits after "+span(n.now().Sub(r.CreatedAt).Round(1e9))), true
	l := letter(*s, m)
	l.Asks = true
	if err := n.box.Escalated(ctx, d, n.now(), next, l); err != nil {
		return err
	}
	n.wakeUp(s.Name)
	return nil
}

// digest says in one message what many would have said.
func (n *Notifier) digest(total int, last []message.Message) message.Message {
	at := n.cursor()
	m := message.Message{ID: fmt.Sprintf("%s:digest:%d", numbered(at), n.now().Unix()), Thread: at.Gate + ":digest", Kind: message.Digest,
		Gate: at.Gate, At: n.now()}
	counts := map[string]int{}
	waiting := 0
	for _, one := range last {
		m.Host = one.Host
		counts[string(one.Kind)]++
		if one.Kind.Ends() || one.Kind == message.Approved || one.Request == nil {
			continue
		}
		m.Urgent = m.Urgent || one.Urgent
		if waiting++; waiting < message.MaxLines {
			m.Lines = append(m.Lines, one.Request.ID+" "+one.Request.Op+" "+one.Request.Target)
		}
	}
	if waiting >= message.MaxLines {
		m.Lines = append(m.Lines, fmt.Sprintf("and %d more: opsign list", waiting-message.MaxLines+1))
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	m.Title = fmt.Sprintf("%s: %d messages in one", m.Host, total)
	m.Detail = strings.Join(parts, ", ") + ". opsign list shows what waits now"
	return m.Bounded()
}
