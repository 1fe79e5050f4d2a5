package server

import (
	"net/http"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/service"
	"gated/internal/wire/convert"
)

func (s *Server) status(c *call) (answer, error) {
	st, err := s.Status(c.ctx)
	return ok(st), err
}

func (s *Server) reload(c *call) (answer, error) {
	r, err := s.Reload(c.ctx)
	return ok(r), err
}

func (s *Server) takeover(c *call) (answer, error) {
	return answer{status: http.StatusNoContent}, s.TakeOver(c.ctx)
}

func (s *Server) catalogue(*call) (answer, error) {
	out := api.OpList{}
	for _, spec := range op.Catalogue() {
		out.Ops = append(out.Ops, convert.OpOf(spec))
	}
	return ok(out), nil
}

func (s *Server) guests(c *call) (answer, error) {
	q := service.GuestQuery{After: c.query.Get("after"), Bytes: pageBytes, Limit: guestsMax}
	var err error
	if c.query.Has("after") {
		err = op.CheckName(q.After)
	}
	if err == nil && c.query.Has("limit") {
		q.Limit, err = c.limit(guestsMax)
	}
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	gs, more, err := s.Guests.Guests(c.ctx, c.by, q)
	if err != nil {
		return answer{}, err
	}
	out := api.GuestList{Guests: gs}
	if more && len(gs) > 0 {
		out.Next = &gs[len(gs)-1].Name
	}
	return ok(out), nil
}

func (s *Server) guest(c *call) (answer, error) {
	name := c.r.PathValue("name")
	if err := op.CheckName(name); err != nil {
		return answer{}, ownRefusal(err)
	}
	g, err := s.Guests.Guest(c.ctx, c.by, name)
	return ok(g), err
}

func (s *Server) commands(c *call) (answer, error) {
	if s.Commands == nil {
		return ok(api.CommandList{}), nil
	}
	list, err := s.Commands.Commands(c.ctx)
	return ok(api.CommandList{Commands: list}), err
}

func (s *Server) command(c *call) (answer, error) {
	name := c.r.PathValue("name")
	if err := op.CheckName(name); err != nil {
		return answer{}, ownRefusal(err)
	}
	if s.Commands == nil {
		return answer{}, ownRefusal(refusal.New(refusal.UnknownTarget, "this gate has no commands").
			WithHint("an operator puts them into gated.yaml, under commands"))
	}
	cmd, err := s.Commands.Command(c.ctx, name)
	return ok(cmd), err
}

func (s *Server) steering(*call) (answer, error) {
	return ok(api.Steering{Rules: s.Steering}), nil
}

func (s *Server) backends(c *call) (answer, error) {
	list, err := s.Backends(c.ctx)
	return ok(api.BackendList{Backends: list}), err
}
