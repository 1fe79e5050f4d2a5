package hub

import (
	"context"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/reconcile"
	"gated/internal/wire/desired"
)

// kept is the content of one valid answer. It is replaced, never changed.
type kept struct {
	revision string
	etag     string
	docs     []*reconcile.SetDoc // sorted by set
}

// Name returns "hub".
func (*Link) Name() string { return "hub" }

// Changed receives after a poll whose answer differs from the one before.
func (l *Link) Changed() <-chan struct{} { return l.changed }

// Read returns the answer of the last poll, and makes the first poll itself: withdrawn wishes must be known before
// anything runs. If the poll failed, Read returns its error, so that nothing is planned and nothing withdrawn.
func (l *Link) Read(ctx context.Context) ([]*reconcile.SetDoc, error) {
	if docs, ok, err := l.last(); ok {
		return docs, err
	}
	l.poll(ctx)
	docs, ok, err := l.last()
	if !ok {
		return nil, refusal.New(refusal.Unavailable, "the poll of the hub was cut off")
	}
	return docs, err
}

// last returns the answer of the last poll; ok is false before the first.
func (l *Link) last() (docs []*reconcile.SetDoc, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.kept != nil {
		docs = l.kept.docs
	}
	return docs, l.polled, l.err
}

// poll asks for desired state. A poll that was cut off proves nothing. An answer that lacks a set for the first time
// changes nothing.
func (l *Link) poll(ctx context.Context) {
	l.polling.Lock()
	defer l.polling.Unlock()
	l.mu.Lock()
	before, beforeErr, doubted := l.kept, l.err, l.status.Missing
	l.mu.Unlock()
	next, err := l.fetch(ctx, before)
	if ctx.Err() != nil {
		return
	}
	missing := unconfirmed(before, next, doubted)
	if missing != nil {
		l.Logger.Warn("sets are missing in what the hub answered; they are withdrawn if the next answer lacks them too",
			"hub", l.URL, "sets", strings.Join(missing, " "))
		next = before // with its ETag, so that the hub sends the whole again
	}
	l.mu.Lock()
	now := l.Now()
	first := !l.polled
	l.status.ErrSince = since(l.status.ErrSince, l.err, err, now)
	l.polled, l.err, l.status.PolledAt, l.status.Missing = true, err, now, missing
	if err == nil {
		l.kept, l.status.ReadAt = next, now
	}
	l.mu.Unlock()
	l.says("polling the hub", beforeErr, err)
	if first || err == nil && next != before || text(err) != text(beforeErr) {
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

// unconfirmed returns the sets that are missing in an answer, unless all of them were missing in the answer before too.
// nil means that the answer counts. A missing set withdraws what waits for it. A hub that lists its directory during a
// rename, or only half of it, lacks a set by mistake. If next is nil, there was no answer, and it confirms nothing.
func unconfirmed(before, next *kept, doubted []string) []string {
	if before == nil || next == nil || next == before {
		return nil
	}
	var gone []string
	fresh := false
	for _, d := range before.docs {
		if !slices.ContainsFunc(next.docs, func(n *reconcile.SetDoc) bool { return n.Set == d.Set }) {
			gone = append(gone, d.Set)
			fresh = fresh || !slices.Contains(doubted, d.Set)
		}
	}
	if !fresh {
		return nil
	}
	return gone
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// fetch returns the hub's present wishes: before, if the hub says that nothing changed.
func (l *Link) fetch(ctx context.Context, before *kept) (*kept, error) {
	etag := ""
	if before != nil {
		etag = before.etag
	}
	a, err := l.hub.get(ctx, Path(l.Host, PathDesired), etag)
	switch {
	case err != nil:
		return nil, err
	case a.same:
		return before, nil
	case a.none:
		return nil, refusal.New(refusal.UnknownTarget, "the hub has nothing for the host %q, or the URL is not a hub's",
			l.Host).
			WithHint("to wish for nothing, it says so: a set with guests: []")
	}
	d, err := DecodeDesired(a.body, l.Host)
	if err != nil {
		return nil, err
	}
	docs, err := l.parse(d.Sets, before)
	if err != nil {
		return nil, err
	}
	return &kept{revision: d.Revision, etag: a.etag, docs: docs}, nil
}

// parse reads the documents that changed since before.
func (l *Link) parse(sets map[string]string, before *kept) ([]*reconcile.SetDoc, error) {
	known := map[string]*reconcile.SetDoc{}
	if before != nil {
		for _, d := range before.docs {
			known[d.Set] = d
		}
	}
	docs := make([]*reconcile.SetDoc, 0, len(sets))
	for name, body := range sets {
		d, digest := known[name], op.SHA256([]byte(body))
		if d == nil || d.Digest != digest {
			doc, err := desired.Parse(name, []byte(body))
			if err != nil {
				return nil, err
			}
			if err := forHost(doc.Host, l.Host); err != nil {
				return nil, refusal.New(refusal.TargetMismatch, "%s: %s", name, refusal.As(err).Detail)
			}
			d = &reconcile.SetDoc{Set: name, Doc: doc, Digest: digest}
		}
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(a, b *reconcile.SetDoc) int { return strings.Compare(a.Set, b.Set) })
	return docs, nil
}
