package linear

import (
	"cmp"
	"slices"
	"strings"
)

// claim is a reservation in force. What a lost call made has no id until an
// answer shows it, and expires somewhere between lo and hi.
type claim struct {
	id     string
	after  string // while it has none: the latest id that was known when it was made
	agent  string
	life   int // which registration of the name it is bound to
	set    Set
	shared bool
	keep   bool
	lo, hi int64 // Unix nanoseconds
}

// person is a registered name. life is one more with each registration.
type person struct {
	name string
	life int
	here bool
}

// state is what is held at a moment. It is never changed, only copied.
type state struct {
	claims  []claim
	persons []person
	last    string // the latest id that an answer showed
}

func (s state) equal(o state) bool {
	return slices.Equal(s.claims, o.claims) && slices.Equal(s.persons, o.persons) && s.last == o.last
}

// person returns who has a name; a name that was never registered is not here.
func (s state) person(name string) person {
	for _, p := range s.persons {
		if p.name == name {
			return p
		}
	}
	return person{name: name}
}

func (s state) withPerson(p person) state {
	s.persons = slices.DeleteFunc(slices.Clone(s.persons), func(q person) bool { return q.name == p.name })
	s.persons = append(s.persons, p)
	slices.SortFunc(s.persons, func(a, b person) int { return strings.Compare(a.name, b.name) })
	return s
}

func (s state) without(at int) state {
	s.claims = slices.Delete(slices.Clone(s.claims), at, at+1)
	return s
}

// with puts a claim in the place of the one at, or adds it if at is negative.
func (s state) with(at int, c claim) state {
	s.claims = slices.Clone(s.claims)
	if at >= 0 {
		s.claims[at] = c
	} else {
		s.claims = append(s.claims, c)
	}
	slices.SortFunc(s.claims, func(a, b claim) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.agent, b.agent), cmp.Compare(a.set, b.set))
	})
	return s
}

// knows is the state in which an answer has shown an id.
func (s state) knows(id string) state {
	if before(s.last, id) {
		s.last = id
	}
	return s
}

// ended is the state after the end of a registration: what is bound to it and
// not kept is gone.
func (s state) ended(name string) state {
	p := s.person(name)
	s.claims = slices.DeleteFunc(slices.Clone(s.claims), func(c claim) bool {
		return c.agent == name && c.life == p.life && !c.keep
	})
	p.here = false
	return s.withPerson(p)
}

// registered is the state after the beginning of one.
func (s state) registered(name string) state {
	p := s.person(name)
	p.here, p.life = true, p.life+1
	return s.withPerson(p)
}

// has reports whether an agent holds exactly this set. It may do so twice, by a
// transfer.
func (s state) has(agent string, set Set) bool {
	return slices.ContainsFunc(s.claims, func(c claim) bool { return c.agent == agent && c.set == set })
}

// inTheWay returns the claims of others that overlap.
func (s state) inTheWay(agent string, set Set, shared bool) []claim {
	var out []claim
	for _, c := range s.claims {
		if c.agent != agent && c.set.overlaps(set) && !(shared && c.shared) {
			out = append(out, c)
		}
	}
	return out
}

// moments returns the states that s may be for a call during which the clock
// went from since to until: what expires in between is in force or is not.
func (s state) moments(since, until int64) []state {
	out := []state{{persons: s.persons, last: s.last}}
	for _, c := range s.claims {
		var next []state
		for _, m := range out {
			if c.hi > since {
				in := m
				in.claims = append(slices.Clip(m.claims), c)
				next = append(next, in)
			}
			if c.lo <= until {
				next = append(next, m)
			}
		}
		out = next
	}
	return out
}
