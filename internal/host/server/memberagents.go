package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/members"
	"gated/internal/host/service"
)

// ofAgents reports whether a call is about agents of a member's host, which the member itself makes.
func ofAgents(r *http.Request) bool {
	return r.URL.Path == members.AgentsPath || strings.HasPrefix(r.URL.Path, members.AgentsPath+"/")
}

// aboutAgents answers a member that tells of an agent on its host.
func (s *Server) aboutAgents(w http.ResponseWriter, r *http.Request, p *peer) {
	body, release, err := s.read(w, r, p.uid, MaxBody)
	defer release()
	if err != nil {
		w.Header().Set("Connection", "close")
		s.refuse(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Work)
	defer cancel()
	c := &call{ctx: ctx, w: w, r: r, by: requesterOf(r.Context()), body: body, release: func() {}}
	defer func() { c.release() }()
	var a answer
	who, one := strings.CutPrefix(r.URL.Path, members.AgentsPath+"/")
	switch {
	case !one && r.Method == http.MethodPost:
		a, err = s.enrol(c)
	case one && r.Method == http.MethodDelete:
		err = s.Agents.MemberEnded(ctx, p.of.Member, who)
		a = ok(struct{}{})
	default:
		err = noMethod(r.Method, "POST and DELETE")
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.write(w, a)
}

func (s *Server) enrol(c *call) (answer, error) {
	var in members.Enrolment
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	if in.Name == selfName {
		return answer{}, ownRefusal(checkRegistration(api.RegisterAgent{Name: in.Name}))
	}
	id, err := s.Agents.Enrol(c.ctx, c.by, in.Name, service.Bound{PID: in.PID, Start: in.Start, Boot: in.Boot, Token: in.Token})
	return ok(members.Enrolled{ID: id}), err
}

// sighted compares the directory of a call with this host, before the active member decides. What this member saw goes with it.
// It returns how long a claim may wait there.
func (s *Server) sighted(c *call, rt route) (wait time.Duration, err error) {
	if s.Reservations == nil || !strings.HasPrefix(rt.path, "/v1/reservations") && rt.path != "/v1/scopes" {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), s.Limits.Work)
	defer cancel()
	c.ctx = ctx
	defer func() { c.release() }()
	from := peerOf(ctx).caller
	see := func(in any, at *api.Place, claim, operator bool) (err error) {
		if err := s.decode(c, in); err != nil {
			return err
		}
		if *at, err = s.Reservations.See(ctx, c.by, from, *at, claim, operator); err != nil {
			return err
		}
		c.body, err = api.Encode(in)
		return err
	}
	switch rt.path {
	case "/v1/reservations":
		var in api.Reserve
		if err := see(&in, &in.Scope, true, false); err != nil {
			return 0, err
		}
		if _, wait, err = in.Times(); err != nil {
			return 0, nil // the active member refuses it, and its log has that
		}
		return wait, nil
	case "/v1/reservations/check":
		var in api.Check
		return 0, see(&in, &in.Scope, false, false)
	case "/v1/scopes":
		var in api.Place
		return 0, see(&in, &in, true, s.operator(c.by))
	case "/v1/reservations/{id}/renew":
		id, err := op.ParseReservationID(c.r.PathValue("id"))
		if err != nil {
			return 0, ownRefusal(err)
		}
		return 0, s.Reservations.MayRenew(ctx, c.by, from, id)
	}
	return 0, nil
}

// isAgent refuses a name that is not a registration of the caller's account.
func (s *Server) isAgent(by op.Account, who string) error {
	if who == "" || s.Agents != nil && s.Agents.Of(by, who) {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "%s is no registration of uid %s", who, by).WithHint("register again: gated agent register NAME")
}
