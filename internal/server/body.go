package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"

	"gated/internal/op"
)

// read reads a request's body of at most limit bytes and returns how to give
// its memory back, which is never nil.
func (s *Server) read(w http.ResponseWriter, r *http.Request, uid uint32, limit int64) ([]byte, func(), error) {
	nothing := func() {}
	if limit == 0 {
		if r.ContentLength != 0 {
			return nil, nothing, ownRefusal(op.Refuse(op.Malformed, "%s takes no body here", r.Method))
		}
		return nil, nothing, nil
	}
	if r.ContentLength > limit {
		return nil, nothing, tooLarge(limit)
	}
	var buf bytes.Buffer
	var taken int64
	release := func() { s.bodies.give(uid, taken) }
	body := http.MaxBytesReader(w, r.Body, limit)
	for {
		if int64(buf.Len()) >= freeBody {
			if err := s.bodies.take(uid, freeBody); err != nil {
				return nil, release, ownRefusal(err)
			}
			taken += freeBody
		}
		_, err := io.CopyN(&buf, body, freeBody)
		switch {
		case errors.Is(err, io.EOF):
			return buf.Bytes(), release, nil
		case err != nil:
			return nil, release, s.bodyError(err, limit)
		}
	}
}

func (s *Server) bodyError(err error, limit int64) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ownRefusal(op.Refuse(op.Malformed, "the body did not arrive within %s", s.Limits.Body))
	default:
		return ownRefusal(op.Refuse(op.Malformed, "the body broke off"))
	}
}

func tooLarge(limit int64) error {
	return ownRefusal(op.Refuse(op.Oversized, "the body has more than %d bytes", limit))
}
