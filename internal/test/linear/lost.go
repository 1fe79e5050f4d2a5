package linear

// lost returns the states in which a call took effect whose answer nobody saw.
func (s state) lost(o *Op) []state {
	switch o.Kind {
	case Register:
		if !s.person(o.Agent).here {
			return []state{s.registered(o.Agent)}
		}
	case End:
		if s.person(o.Agent).here {
			return []state{s.ended(o.Agent)}
		}
	case Reserve:
		if !s.person(o.Agent).here || len(s.inTheWay(o.Agent, o.Set, o.Shared)) > 0 {
			return nil
		}
		var out []state
		for at, c := range s.claims {
			if c.agent == o.Agent && c.set == o.Set {
				out = append(out, s.with(at, s.asked(o, c)))
			}
		}
		if len(out) == 0 {
			for _, at := range s.covering(o) {
				out = append(out, s.with(at, s.longer(o, s.claims[at])))
			}
		}
		if len(out) == 0 {
			out = append(out, s.with(-1, s.asked(o, claim{after: s.last})))
		}
		return out
	case Renew, Release, Transfer:
		return s.lostChange(o)
	}
	return nil
}

func (s state) lostChange(o *Op) []state {
	s, at := s.find(o, o.ID)
	if at < 0 || s.claims[at].agent != o.Agent {
		return nil
	}
	c := s.claims[at]
	switch o.Kind {
	case Renew:
		return []state{s.with(at, c.renewed(o))}
	case Release:
		return []state{s.without(at)}
	}
	to, taken := s.handed(c, o.To)
	if taken || !s.person(o.To).here {
		return nil
	}
	return []state{s.with(at, to)}
}
