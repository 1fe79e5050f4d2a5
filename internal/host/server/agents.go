package server

import (
	"net/http"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// selfPath is about the caller. It is at the place of a name, so no agent can have the name self.
const (
	selfPath = "/v1/agents/self"
	selfName = "self"
)

func (s *Server) agents(c *call) (answer, error) {
	list, err := s.Agents.List(c.ctx)
	return ok(api.AgentList{Agents: list}), err
}

func (s *Server) self(c *call) (answer, error) {
	return ok(peerOf(c.ctx).caller.Self(c.by.Agent)), nil
}

func (s *Server) registerAgent(c *call) (answer, error) {
	var in api.RegisterAgent
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	if err := checkRegistration(in); err != nil {
		return answer{}, ownRefusal(err)
	}
	a, err := s.Agents.Register(c.ctx, peerOf(c.ctx).caller, in)
	return answer{status: http.StatusCreated, value: a}, err
}

func checkRegistration(in api.RegisterAgent) error {
	if err := op.CheckName(in.Name); err != nil {
		return err
	}
	switch {
	case in.Name == selfName:
		return refusal.New(refusal.BadParams, "%q cannot be an agent's name: GET %s is about the caller", selfName, selfPath).
			WithHint("take another name")
	case in.PID < 0 || in.Reaper < 0:
		return refusal.New(refusal.Malformed, "pid and reaper are numbers of processes, which are not negative")
	case in.Token && (in.PID != 0 || in.Reaper != 0):
		return refusal.New(refusal.Malformed, "the body has both token and a process").
			WithHint("a name is bound to one of the two")
	}
	return nil
}

// unregister is for the agent itself. The server tells the gate whether the caller's uid is an operator's.
func (s *Server) unregister(c *call) (answer, error) {
	name := c.r.PathValue("name")
	if err := op.CheckName(name); err != nil {
		return answer{}, ownRefusal(err)
	}
	a, err := s.Agents.Unregister(c.ctx, c.by, name, s.operator(c.by))
	return ok(a), err
}

// holder reads a parameter that names a holder: an agent's name, or uid:1000@node2 for callers of that uid without a name.
// uid:1000 is a uid on the caller's own host. It is "" if the parameter is missing.
func (c *call) holder(parameter string) (string, error) {
	if !c.query.Has(parameter) {
		return "", nil
	}
	text := c.query.Get(parameter)
	if account, found := strings.CutPrefix(text, "uid:"); found {
		a, err := op.ParseAccount(account)
		if a.Member == "" {
			a.Member = c.by.Account().Member
		}
		if err == nil {
			return "uid:" + a.String(), nil
		}
	} else if op.CheckName(text) == nil {
		return text, nil
	}
	err := refusal.New(refusal.Malformed, "%s is %q, neither an agent's name nor uid: and a uid", parameter, clip(text))
	return "", ownRefusal(err)
}
