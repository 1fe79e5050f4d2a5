package hub

import (
	"context"
	"net/http"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
)

// StatusContradicts is the HTTP status with which a hub refuses a head that contradicts the one that it keeps.
const StatusContradicts = http.StatusPreconditionFailed

// heads is the state of sending heads between rounds.
type heads struct {
	known bool   // size is what the hub keeps
	size  int64  // of the kept head
	note  string // the last head that the hub took
	wait  time.Duration
	due   time.Time
	err   error
}

// head sends the newest signed head if the hub does not have it yet.
func (l *Link) head(ctx context.Context) {
	p, now := &l.heads, l.Now()
	if l.Log == nil || now.Before(p.due) && p.due.Sub(now) <= reportLast { // otherwise the clock was set back
		return
	}
	unwanted, err := l.sendHead(ctx)
	if ctx.Err() != nil {
		return
	}
	before := p.err
	l.says("sending the signed head to the hub", before, err)
	p.err = err
	switch {
	case err != nil:
		p.known = false // what the hub keeps is asked anew
		p.wait = min(max(2*p.wait, l.Interval), reportLast)
		p.due = now.Add(Jitter(p.wait, l.Random()) * 4 / 5)
	case unwanted:
		p.known, p.wait, p.due = false, 0, now.Add(reportLast)
	default:
		p.wait, p.due = 0, time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.HeadSince = since(l.status.HeadSince, before, err, now)
	l.status.HeadErr, l.status.HeadDue = err, time.Time{}
	if err != nil {
		l.status.HeadDue = p.due
	}
}

// sendHead asks for the size of the kept head first and reads the gate's head afterwards. So the head of a sound log is
// never behind the kept one. Unwanted is true if the hub keeps no heads.
func (l *Link) sendHead(ctx context.Context) (unwanted bool, err error) {
	p := &l.heads
	if !p.known {
		a, err := l.hub.get(ctx, Path(l.Host, PathHead)+"?gate="+string(l.ID), "")
		if err != nil || a.none {
			return a.none, err
		}
		if p.size, err = DecodeKept(a.body, l.ID); err != nil {
			return false, err
		}
		p.known, p.note = true, ""
	}
	now, err := l.Log.Head(ctx)
	if err != nil || now.Note == "" || now.Note == p.note {
		return false, err
	}
	h, err := l.proven(ctx, now)
	if err != nil {
		return false, err
	}
	body, err := api.Encode(h)
	if err != nil {
		return false, err
	}
	if unwanted, err = l.hub.postHead(ctx, Path(l.Host, PathHead), body); err != nil || unwanted {
		return unwanted, err
	}
	is, err := checkpoint.Read(now.Note)
	p.size, p.note = is.Size, now.Note
	return false, err
}

// proven adds the proof that the log goes on from the kept head. If there is none, the head goes without it, and the hub
// keeps it as evidence.
func (l *Link) proven(ctx context.Context, now api.Head) (Head, error) {
	h := Head{Host: l.Host, Gate: l.ID, Key: now.Key, Note: now.Note, From: l.heads.size, Proof: []string{}}
	is, err := checkpoint.Read(now.Note)
	if err != nil || h.From == 0 || h.From >= is.Size {
		return h, err
	}
	c, err := l.Log.Consistency(ctx, h.From, is.Size)
	switch refusal.CodeOf(err) {
	case refusal.BadParams, refusal.UnknownTarget:
		return h, nil
	}
	if err == nil {
		h.Proof = c.Proof
	}
	return h, err
}

// postHead sends a head. It reads only the status of the answer.
func (x *exchange) postHead(ctx context.Context, path string, body []byte) (unwanted bool, err error) {
	err = x.call(ctx, http.MethodPost, path, http.Header{"Content-Type": {ContentType}}, body, func(resp *http.Response) error {
		switch {
		case resp.StatusCode >= 200 && resp.StatusCode < 300:
			return nil
		case resp.StatusCode == http.StatusNotFound:
			unwanted = true
			return nil
		case resp.StatusCode == StatusContradicts:
			return refusal.New(refusal.BindingMismatch, "the hub says that the audit log does not go on from the head that it keeps").
				WithHint("the log was rolled back, or another gate has this one's id: gated audit verify, and the hub's page")
		}
		return status(resp)
	})
	return unwanted, err
}
