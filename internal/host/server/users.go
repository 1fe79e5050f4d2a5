package server

import (
	"gated/client/api"
	"gated/internal/base/op"
)

// named fills in the names of users beside the uids of an answer. It is the one place that does: the gate, its log and its
// journal know uids alone.
func (s *Server) named(answer any) any {
	switch v := answer.(type) {
	case api.Job:
		s.nameJob(&v)
		return v
	case api.JobList:
		for i := range v.Jobs {
			s.nameJob(&v.Jobs[i])
		}
	case api.Request:
		s.nameRequest(&v)
		return v
	case api.RequestList:
		for i := range v.Requests {
			s.nameRequest(&v.Requests[i])
		}
	case api.EntryList:
		s.nameEntries(&v)
		return v
	}
	return s.namedAgents(answer)
}

// namedAgents is named for answers about agents and reservations.
func (s *Server) namedAgents(answer any) any {
	switch v := answer.(type) {
	case api.Agent:
		s.nameAgent(&v)
		return v
	case api.RegisteredAgent:
		s.nameAgent(&v.Agent)
		return v
	case api.AgentList:
		for i := range v.Agents {
			s.nameAgent(&v.Agents[i])
		}
	case api.Caller:
		if v.Agent != nil {
			s.nameAgent(v.Agent)
		}
		return v
	case api.Reservation:
		s.nameReservation(&v)
		return v
	case api.ReservationList:
		for i := range v.Reservations {
			s.nameReservation(&v.Reservations[i])
		}
	case api.Checked:
		s.nameConflicts(v.Conflicts)
	}
	return answer
}

func (s *Server) nameJob(j *api.Job) { j.Users = s.Users.Of(j.RequestedBy...) }

func (s *Server) nameRequest(r *api.Request) {
	who := r.RequestedBy[:len(r.RequestedBy):len(r.RequestedBy)]
	for _, one := range r.Reasons {
		who = append(who, one.By)
	}
	for _, one := range r.Rejections {
		who = append(who, one.RequestedBy...)
	}
	r.Users = s.Users.Of(who...)
}

func (s *Server) nameAgent(a *api.Agent) {
	a.User = s.Users.Name(op.Account{UID: a.UID, Member: a.Member})
}

func (s *Server) nameReservation(r *api.Reservation) {
	r.User = s.Users.Name(op.Account{UID: r.UID, Member: r.Member})
}

func (s *Server) nameConflicts(list []api.Conflict) {
	for i := range list {
		s.nameReservation(&list[i].Reservation)
	}
}

// nameEntries names who acted and who holds what. The entries themselves stay as they are stored.
func (s *Server) nameEntries(l *api.EntryList) {
	var who []string
	for _, e := range l.Entries {
		who = append(append(who, e.By, e.Holder), e.For...)
	}
	l.Users = s.Users.Of(who...)
}
