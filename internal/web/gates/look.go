package gates

import (
	"context"
	"errors"
	"slices"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// pageOf is how many requests are asked for at a time.
const pageOf = 100

// maxRead is how many requests of a list are read at most: the open ones that are kept, and others that ended recently.
const maxRead = 4 * MaxRequests

// begin looks at everything, and returns the number of the event from which to go on.
func (w *watcher) begin(ctx context.Context) (after int64, err error) {
	w.take()
	ctx, stop := context.WithTimeout(ctx, w.set.pace.look)
	defer stop()
	head, err := w.client.AuditHead(ctx) // before the look, so that nothing is missed
	if err != nil {
		return 0, err
	}
	return head.Seq, w.read(ctx, news{all: true})
}

// look looks at what is new.
func (w *watcher) look(ctx context.Context, n news) error {
	ctx, stop := context.WithTimeout(ctx, w.set.pace.look)
	defer stop()
	return w.read(ctx, n)
}

// read asks who the gate is and what is new, and shows that.
func (w *watcher) read(ctx context.Context, n news) error {
	st, err := w.identify(ctx) // before it takes a place, because one that hangs does so here
	if err != nil {
		return err
	}
	select {
	case w.set.looks <- struct{}{}:
		defer func() { <-w.set.looks }()
	case <-ctx.Done():
		return refusal.New(refusal.Unavailable, "other gates are read, and there was no turn for this one").WithHint("it is asked again soon")
	}
	g := *w.shown.Load()
	g.Known.Host, g.Known.ID = st.Host, st.Gate
	if n.all || len(n.steps) > maxSteps || g.More {
		g.Requests, g.More, err = w.list(ctx, st)
	} else {
		g.Requests, g.More, err = w.each(ctx, st, g.Requests, n.steps)
	}
	if err != nil {
		return err
	}
	if n.all || st.Epoch != g.Trust.Epoch {
		if g.Trust, err = w.client.Trust(ctx); err != nil {
			return err
		}
	}
	if weigh(st)+weigh(g.Trust) > maxBeside {
		return refusal.New(refusal.Oversized, "the gate's status and its list of signers are larger than %d MiB", maxBeside>>20).
			WithHint("nothing new of it is shown. Is it a gate, and of this version?")
	}
	g.Status, g.Err, g.Seen = st, nil, w.set.config.Now()
	w.set.show(w, g)
	return nil
}

// list reads all open requests, up to the bounds.
func (w *watcher) list(ctx context.Context, st api.Status) (open []api.Request, more bool, err error) {
	after, read, weight := "", 0, 0
	for {
		page, err := w.client.RequestPage(ctx, after, pageOf)
		if err != nil {
			return nil, false, err
		}
		for _, r := range page.Requests {
			if err := belongs(r, st); err != nil {
				return nil, false, err
			}
			if !r.State.Open() {
				continue
			}
			if weight += weigh(r); len(open) == MaxRequests || weight > maxWeight {
				sortByAge(open)
				return open, true, nil
			}
			open = append(open, r)
		}
		if read += len(page.Requests); page.Next == nil {
			break
		}
		if *page.Next == after || len(page.Requests) == 0 || read > maxRead {
			return nil, false, refusal.New(refusal.Internal, "the gate's list of requests has no end").
				WithHint("is it a gate, and of this version?")
		}
		after = *page.Next
	}
	sortByAge(open)
	return slices.Clip(open), false, nil
}

// each reads single requests again, and returns the open ones with all others as they were, up to the bounds. It does not
// change old.
func (w *watcher) each(ctx context.Context, st api.Status, old []api.Request, ids map[string]bool) (open []api.Request, more bool, err error) {
	if len(ids) == 0 {
		return old, false, nil
	}
	open = slices.DeleteFunc(slices.Clone(old), func(r api.Request) bool { return ids[r.ID] })
	weight := 0
	for _, r := range open {
		weight += weigh(r)
	}
	for id := range ids {
		r, err := w.client.Request(ctx, id)
		switch {
		case errors.Is(err, refusal.UnknownTarget):
			continue // a step that nobody has to sign
		case err != nil:
			return nil, false, err
		}
		if err := belongs(r, st); err != nil {
			return nil, false, err
		}
		if r.ID != id {
			return nil, false, refusal.New(refusal.Internal, "the gate was asked for %s and answered with %q", id, r.ID)
		}
		if !r.State.Open() {
			continue
		}
		if weight += weigh(r); len(open) == MaxRequests || weight > maxWeight {
			more = true
			break
		}
		open = append(open, r)
	}
	sortByAge(open)
	return open, more, nil
}

// belongs refuses a request that says that it is another gate's, or whose id is none: pages and links are made of it.
func belongs(r api.Request, st api.Status) error {
	if r.Gate != st.Gate || r.Host != st.Host {
		return refusal.New(refusal.TargetMismatch, "gate %s on %s lists a request of gate %q on %q", st.Gate, op.Shown(st.Host),
			r.Gate, r.Host).WithHint("nothing of it is shown. Another gate may have come to its address: ask whoever runs it")
	}
	if _, err := op.ParseStepID(r.ID); err != nil {
		return refusal.New(refusal.Internal, "the gate lists a request with the id %q, which is none", r.ID)
	}
	return nil
}

func sortByAge(rs []api.Request) {
	slices.SortStableFunc(rs, func(a, b api.Request) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		x, _ := op.ParseStepID(a.ID) // belongs has parsed both
		y, _ := op.ParseStepID(b.ID)
		if x.Job != y.Job {
			return int(x.Job - y.Job)
		}
		return int(x.Index - y.Index)
	})
}
