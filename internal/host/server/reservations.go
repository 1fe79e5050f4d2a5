package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// reservationsMax is the largest page of reservations. Each can have 200 KiB
	// of patterns.
	reservationsMax = 200
	// manyPatterns is the number of patterns from which a check waits for its turn, as a list does. A hook's check
	// before an edit has one pattern.
	manyPatterns = 50
)

// contested is a refusal with the reservations in the way.
type contested struct {
	error
	conflicts []api.Conflict
}

func (c contested) Unwrap() error { return c.error }

func (s *Server) reserve(c *call) (answer, error) {
	var in api.Reserve
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	_, wait, err := in.Times()
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	ctx := c.ctx
	if wait > 0 {
		lasting, end, err := s.lasting(c, s.waits, 0)
		if err != nil {
			return answer{}, err
		}
		defer end()
		c.release() // refuses too many or too long patterns before the wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(lasting, wait+s.Limits.Work)
		defer cancel()
	}
	r, conflicts, err := s.Reservations.Reserve(ctx, c.by, peerOf(c.ctx).caller, in)
	switch {
	case err != nil && c.r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the caller has hung up
	case err != nil:
		return answer{}, contested{s.unlessStopped(err), conflicts}
	case r.Renewed:
		return ok(r), nil
	}
	return answer{status: http.StatusCreated, value: r}, nil
}

// unlessStopped returns the end of a call that waited: err, or a refusal that says that the server stops, if that ended
// the wait.
func (s *Server) unlessStopped(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	select {
	case <-s.stopping:
		return refusal.New(refusal.Unavailable, "the daemon stops, and the wait ends with it").
			WithHint("ask again when it is back")
	default:
		return err
	}
}

func (s *Server) check(c *call) (answer, error) {
	var in api.Check
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	look := func(c *call) (answer, error) {
		found, err := s.Reservations.Check(c.ctx, c.by, in)
		return ok(found), err
	}
	if len(in.Patterns) >= manyPatterns {
		look = s.inTurn(look)
	}
	return look(c)
}

func (s *Server) reservations(c *call) (answer, error) {
	q, err := c.reservationQuery()
	if err != nil {
		return answer{}, err
	}
	list, more, err := s.Reservations.List(c.ctx, c.by, q)
	if err != nil {
		return answer{}, err
	}
	out := api.ReservationList{Reservations: list}
	if more && len(list) > 0 {
		out.Next = &list[len(list)-1].ID
	}
	return ok(out), nil
}

func (c *call) reservationQuery() (q reserve.Query, err error) {
	q.Bytes = pageBytes
	q.Path = c.query.Get("scope")
	if c.query.Has("scope") && (q.Path == "" || q.Path[0] != '/') {
		err := refusal.New(refusal.Malformed, "scope is %q, not the absolute path of a directory", clip(q.Path))
		return q, ownRefusal(err)
	}
	if q.Holder, err = c.holder("agent"); err != nil {
		return q, err
	}
	if q.Limit, err = c.limit(reservationsMax); err != nil {
		return q, err
	}
	if text := c.query.Get("after"); c.query.Has("after") {
		if q.After, err = op.ParseReservationID(text); err != nil {
			return q, ownRefusal(err)
		}
	}
	return q, nil
}

func (s *Server) renew(c *call) (answer, error) {
	var in api.Renew
	id, err := s.reservation(c, &in)
	if err != nil {
		return answer{}, err
	}
	var ttl time.Duration
	if ttl, err = in.TTL(); err != nil {
		return answer{}, ownRefusal(err)
	}
	r, err := s.Reservations.Renew(c.ctx, c.by, peerOf(c.ctx).caller, id, ttl)
	return ok(r), err
}

func (s *Server) transfer(c *call) (answer, error) {
	var in api.Transfer
	id, err := s.reservation(c, &in)
	if err != nil {
		return answer{}, err
	}
	if err := op.CheckName(in.To); err != nil {
		return answer{}, ownRefusal(err)
	}
	r, err := s.Reservations.Transfer(c.ctx, c.by, id, in.To)
	return ok(r), err
}

func (s *Server) release(c *call) (answer, error) {
	id, err := s.reservation(c, nil)
	if err != nil {
		return answer{}, err
	}
	r, err := s.Reservations.Release(c.ctx, c.by, id)
	return ok(r), err
}

func (s *Server) releaseMine(c *call) (answer, error) {
	list, err := s.Reservations.ReleaseMine(c.ctx, c.by)
	return ok(api.ReservationList{Reservations: list}), err
}

// reservation reads the path's reservation and, if in is not nil, the body.
func (s *Server) reservation(c *call, in any) (op.ReservationID, error) {
	id, err := op.ParseReservationID(c.r.PathValue("id"))
	if err != nil {
		return 0, ownRefusal(err)
	}
	if in == nil {
		return id, nil
	}
	return id, s.decode(c, in)
}

func (s *Server) scopes(c *call) (answer, error) {
	list, more, err := s.Reservations.Scopes(c.ctx, c.by, c.query.Get("after"), pageBytes)
	out := api.ScopeList{Scopes: list}
	if more && len(list) > 0 {
		out.Next = &list[len(list)-1].ID
	}
	return ok(out), err
}

func (s *Server) registerScope(c *call) (answer, error) {
	var in api.Place
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	sc, err := s.Reservations.RegisterScope(c.ctx, c.by, peerOf(c.ctx).caller, s.operator(c.by), in)
	return ok(sc), err
}
