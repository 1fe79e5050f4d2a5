package server

import (
	"net/http"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// yamlType is the media type of a desired-state document (RFC 9512).
const yamlType = "application/yaml"

func (s *Server) plan(c *call) (answer, error) {
	set := c.query.Get("set")
	if c.query.Has("set") {
		if err := op.CheckName(set); err != nil {
			return answer{}, ownRefusal(err)
		}
	}
	if err := s.plans.take(c.by.Account().Lane(), 1); err != nil {
		return answer{}, ownRefusal(err)
	}
	defer s.plans.give(c.by.Account().Lane(), 1)
	p, err := s.Desired.Plan(c.ctx, set, c.body)
	return ok(p), err
}

func (s *Server) sets(c *call) (answer, error) {
	sets, err := s.Gate.SetHeads(c.ctx)
	if err != nil {
		return answer{}, err
	}
	out := api.SetList{}
	for _, x := range sets {
		at := x.UpdatedAt.UTC()
		out.Sets = append(out.Sets, api.Set{Name: x.Name, ETag: x.ETag, Bytes: x.Bytes, UpdatedAt: &at})
	}
	return ok(out), nil
}

func (s *Server) putSet(c *call) (answer, error) {
	name, err := c.set()
	if err != nil {
		return answer{}, err
	}
	match, err := ifMatch(c.r.Header)
	if err != nil {
		return answer{}, err
	}
	etag, err := s.Desired.PutSet(c.ctx, c.by, name, match, c.body)
	a := ok(api.Set{Name: name, ETag: etag, Bytes: len(c.body)})
	a.etag = etag
	return a, err
}

// set answers with the document, byte for byte.
func (s *Server) set(c *call) (answer, error) {
	name, err := c.set()
	if err != nil {
		return answer{}, err
	}
	x, err := s.Gate.Set(c.ctx, name)
	return answer{status: http.StatusOK, raw: x.Body, kind: yamlType, etag: x.ETag}, err
}

func (s *Server) deleteSet(c *call) (answer, error) {
	name, err := c.set()
	if err != nil {
		return answer{}, err
	}
	if c.r.Header.Get("If-Match") != "" {
		return answer{}, ownRefusal(refusal.New(refusal.Malformed, "DELETE does not know If-Match"))
	}
	return answer{status: http.StatusNoContent}, s.Desired.DeleteSet(c.ctx, c.by, name)
}

// set reads the path's set name, which is a name like a target's.
func (c *call) set() (string, error) {
	name := c.r.PathValue("set")
	if err := op.CheckName(name); err != nil {
		return "", ownRefusal(err)
	}
	if c.r.Header.Get("If-None-Match") != "" {
		return "", ownRefusal(refusal.New(refusal.Malformed, "If-None-Match is not known here").WithHint("use If-Match"))
	}
	return name, nil
}

// ifMatch returns the ETag that the caller wants to replace, without quotes: "" for none, "*" for any. Of RFC 9110,
// section 13.1.1, it understands one strong tag. It refuses any other form instead of ignoring it.
func ifMatch(h http.Header) (string, error) {
	values := h.Values("If-Match")
	if len(values) == 0 {
		return "", nil
	}
	tag, found := strings.CutPrefix(values[0], `"`)
	tag, closed := strings.CutSuffix(tag, `"`)
	switch {
	case len(values) > 1:
	case values[0] == "*":
		return "*", nil
	case found && closed && tag != "" && tag != "*" && !strings.Contains(tag, `"`):
		return tag, nil
	}
	return "", ownRefusal(refusal.New(refusal.Malformed, `If-Match is neither * nor one "tag"`).
		WithHint("give the ETag of the last answer as it is"))
}
