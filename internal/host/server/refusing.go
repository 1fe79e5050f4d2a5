package server

import (
	"context"
	"net/http"

	"gated/client/api"
)

// ServeRefusal answers every call on l with why, until ctx ends. It is for a daemon that has no gate to ask, so that s needs no
// service. It looks at no path and no body, and knows of a caller only the uid that the kernel reports.
func (s *Server) ServeRefusal(ctx context.Context, l *Socket, why func(uid uint32) error) error {
	h := s.http(func(w http.ResponseWriter, r *http.Request) {
		// The next call is for the next daemon. And net/http does not wait for the rest of the body before it sends the answer.
		w.Header().Set("Connection", "close")
		s.problem(w, api.ProblemOf(why(peerOf(r.Context()).uid)))
	})
	h.ConnContext = withPeer
	return s.until(ctx, h, &peerListener{Socket: l, crowd: s.crowd, log: s.Logger}, nil, func() {})
}
