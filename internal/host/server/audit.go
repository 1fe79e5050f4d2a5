package server

import (
	"net/http"
	"strconv"

	"gated/client/api"
	"gated/internal/base/refusal"
)

func (s *Server) audit(c *call) (answer, error) {
	after, err := c.after()
	if err != nil {
		return answer{}, err
	}
	limit, err := c.limit(pageMax)
	if err != nil {
		return answer{}, err
	}
	entries, err := s.Log.Audit(c.ctx, after, limit, pageBytes)
	return ok(api.EntryList{Entries: entries}), err
}

func (s *Server) auditHead(c *call) (answer, error) {
	h, err := s.Log.Head(c.ctx)
	return ok(h), err
}

func (s *Server) consistency(c *call) (answer, error) {
	old, err := entryNumber("old", c.query.Get("old"))
	if err != nil {
		return answer{}, err
	}
	size, err := entryNumber("size", c.query.Get("size"))
	if err != nil {
		return answer{}, err
	}
	proof, err := s.Log.Consistency(c.ctx, old, size)
	if err == nil && s.Proved != nil {
		s.Proved()
	}
	return ok(proof), err
}

func (s *Server) inclusion(c *call) (answer, error) {
	seq, err := entryNumber("seq", c.query.Get("seq"))
	if err != nil {
		return answer{}, err
	}
	proof, err := s.Log.Inclusion(c.ctx, seq)
	return ok(proof), err
}

// acceptAlert ends the alert of the change that the path names.
func (s *Server) acceptAlert(c *call) (answer, error) {
	text := c.r.PathValue("change")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != text {
		return answer{}, ownRefusal(refusal.New(refusal.Malformed, "%q is not the number of an audit entry", clip(text)))
	}
	return answer{status: http.StatusNoContent}, s.Canary.Accept(c.ctx, c.by.String(), n)
}
