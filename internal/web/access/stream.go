package access

import (
	"context"
	"net/http"
	"time"

	"gated/internal/base/refusal"
)

// streamLook is how often a stream looks whether its session is over.
const streamLook = 15 * time.Second

// Stream takes one of the places for answers that do not end. The context ends with the request, with the session, and
// when Serve ends.
// The caller calls done when the answer ends. A stream does not keep its session from being idle. OverLimit: there is no
// place.
func (w *Wall) Stream(r *http.Request) (ctx context.Context, done func(), err error) {
	rec, ok := r.Context().Value(sessionKey{}).(*record)
	if !ok {
		return nil, nil, refusal.New(refusal.NotAllowed, "this browser has no session here").WithHint("sign in again")
	}
	if err := w.sessions.take(rec); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		look := time.NewTicker(streamLook)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-rec.ended:
				stop()
				return
			case <-w.stopping:
				stop()
				return
			case <-look.C:
				w.sessions.dropIfOver(rec)
			}
		}
	}()
	return ctx, func() {
		stop()
		<-ended
		w.sessions.giveBack(rec)
	}, nil
}

func (s *sessions) take(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.streams >= s.limits.StreamsPerSession || s.streams >= s.limits.Streams {
		return refusal.New(refusal.OverLimit, "too many pages are kept up to date at the same time: %d of this session, %d in all",
			r.streams, s.streams).WithHint("close other tabs, or reload this page to see what is new")
	}
	r.streams++
	s.streams++
	return nil
}

func (s *sessions) giveBack(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.streams--
	s.streams--
}

func (s *sessions) dropIfOver(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(r, s.now()) {
		s.drop(r)
	}
}
