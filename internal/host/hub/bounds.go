package hub

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// maxText is the longest text of a report, in bytes. A gate's own are shorter: it cuts sentences after 200 bytes.
	maxText = 1024
	// maxRequest is the longest id of a request, in bytes. A row's place in the queue has it, and a place has a bound of its
	// own: behind a longer one, no page could be asked for.
	maxRequest = 64
	// maxLeftOut is the largest count of what a report left out. A hub adds up those of all hosts.
	maxLeftOut = 1 << 31
)

// check refuses what no gate sends. A hub keeps the reports of all gates together, so one of them must not be able to
// take its memory, or to break a page that shows others too.
func (r Report) check() error {
	for _, text := range r.texts() {
		if len(text) > maxText {
			return refusal.New(refusal.Oversized, "a text of the report has more than %d bytes: %s", maxText, op.Shown(clip(text)))
		}
	}
	for _, n := range []int{r.RequestsLeftOut, r.GuestsLeftOut, r.OpsLeftOut} {
		if n < 0 || n > maxLeftOut {
			return refusal.New(refusal.Malformed, "%d is not how much a report left out", n)
		}
	}
	seen := make(map[string]bool, len(r.Requests))
	for _, q := range r.Requests {
		if len(q.Request) > maxRequest {
			return refusal.New(refusal.Oversized, "a request's id has more than %d bytes: %s", maxRequest, op.Shown(clip(q.Request)))
		}
		if seen[q.Request] {
			return refusal.New(refusal.Malformed, "request %s is there twice", op.Shown(clip(q.Request)))
		}
		seen[q.Request] = true
		for _, at := range []time.Time{q.CreatedAt, q.ExpiresAt} {
			if _, err := at.MarshalText(); err != nil { // otherwise no page of the queue could be written
				return refusal.New(refusal.Malformed, "request %s has a time of no calendar year", op.Shown(clip(q.Request)))
			}
		}
	}
	return nil
}

// texts returns each text of a report but the host's name.
func (r Report) texts() []string {
	out := []string{string(r.Gate), r.Version, r.Revision}
	if e := r.Error; e != nil {
		out = append(out, string(e.Code), e.Detail, e.Hint)
	}
	for _, s := range r.Sets {
		out = append(out, s.Name)
	}
	for _, g := range r.Guests {
		out = append(out, g.Set, g.Name, g.State, g.Why, g.Request)
	}
	for _, o := range r.Operations {
		out = append(out, o.Digest, o.Payload, o.Request, o.Op, o.Target, string(o.State), string(o.Code), o.Detail)
	}
	for _, q := range r.Requests {
		out = append(out, q.Request, q.Op, q.Target, q.Reason, q.RequestedBy, q.PayloadSHA256)
	}
	return out
}
