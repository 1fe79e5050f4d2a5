package server

import (
	"errors"
	"io"
	"net/http"
	"os"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// read reads a request's body of at most limit bytes. It returns a function that gives its memory back, which is never
// nil.
func (s *Server) read(w http.ResponseWriter, r *http.Request, uid uint32, limit int64) ([]byte, func(), error) {
	nothing := func() {}
	if limit == 0 {
		if r.ContentLength != 0 {
			return nil, nothing, ownRefusal(refusal.New(refusal.Malformed, "%s takes no body here", r.Method))
		}
		return nil, nothing, nil
	}
	if r.ContentLength > limit {
		return nil, nothing, tooLarge(limit)
	}
	var taken int64
	release := func() { s.bodies.give(uid, taken) }
	body := http.MaxBytesReader(w, r.Body, limit)
	buf := make([]byte, 0, firstRoom(r.ContentLength))
	for {
		if len(buf) == cap(buf) {
			more := roomFor(int64(cap(buf)), r.ContentLength, limit)
			if over := more - max(int64(cap(buf)), freeBody); over > 0 {
				if err := s.bodies.take(uid, over); err != nil {
					return nil, release, ownRefusal(err)
				}
				taken += over
			}
			buf = append(make([]byte, 0, more), buf...)
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, release, nil
		case err != nil:
			return nil, release, s.bodyError(err, limit)
		}
	}
}

// firstRoom returns the size of the first buffer: all that was announced, or the part of it that is free of the bound.
func firstRoom(announced int64) int64 {
	if announced > freeBody {
		return freeBody
	}
	return max(announced, 511) + 1 // one more byte, so that the next read finds the end
}

// roomFor returns the next size of a full buffer: all that was announced, or else twice its size.
func roomFor(has, announced, limit int64) int64 {
	if announced >= has {
		return announced + 1
	}
	return min(2*has, limit+1)
}

// decode reads a call's body into v once there is room for the result. The call keeps the room until its end, or until
// release.
func (s *Server) decode(c *call, v any) error {
	n, err := api.Weigh(c.body)
	if err != nil {
		return ownRefusal(err)
	}
	giveBack, err := s.decoded.Take(c.ctx, c.by.Account().Lane(), n)
	if err != nil {
		return ownRefusal(refusal.New(refusal.OverLimit, "too many bodies at once are worked on").
			WithHint("end some, or try again later"))
	}
	c.release = giveBack
	if err := api.DecodeWeighed(c.body, v); err != nil {
		return ownRefusal(err)
	}
	return nil
}

func (s *Server) bodyError(err error, limit int64) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ownRefusal(refusal.New(refusal.Malformed, "the body did not arrive within %s", s.Limits.Body))
	default:
		return ownRefusal(refusal.New(refusal.Malformed, "the body broke off"))
	}
}

func tooLarge(limit int64) error {
	return ownRefusal(refusal.New(refusal.Oversized, "the body has more than %d bytes", limit))
}
