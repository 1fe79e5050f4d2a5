package linear

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"gated/internal/base/refusal"
)

// simple is a gate of a map and a lock: what the model says, as plain as it can
// be written. With a flaw it is one that the verdict has to find.
type simple struct {
	now  func() time.Time
	flaw string

	mu     sync.Mutex
	last   int
	lives  map[string]int // registrations that stand
	births int
	held   []thing
}

type thing struct {
	Held
	life int
}

// The flaws, each of which somebody's tool has.
const (
	sound             = ""
	equalPatternsOnly = "patterns that overlap and are not equal are granted to two"
	scopesApart       = "patterns of two scopes never conflict"
	sharedIsNothing   = "a shared one does not keep an exclusive one out"
	firstPatternOnly  = "of several patterns the first one counts"
	anyoneReleases    = "anybody may release"
	anyoneTransfers   = "anybody may transfer"
	neverExpires      = "what expired still conflicts"
	expiresEarly      = "what has a second left is free"
	forgetsRenewal    = "a renewal answers well and changes nothing"
	shortens          = "reserving again brings an earlier end"
	diesWithKeep      = "what was kept ends with its holder"
	outlivesHolder    = "what was not kept stays when its holder ends"
	transferCopies    = "after a transfer both hold it"
	transferBlind     = "a transfer does not look at what the giver holds besides"
	toNobody          = "a transfer to somebody who has ended"
	stacks            = "reserving again makes a second one"
	stacksInside      = "reserving inside what one has makes a second one"
	narrows           = "reserving inside what one has gives up the rest"
	checkLies         = "check says that nothing is in the way"
	checkOwn          = "check counts one's own"
	refusesAll        = "a claim is refused though nothing is in its way"
	reusesIDs         = "an id is given twice"
)

func newSimple(now func() time.Time, flaw string) *simple {
	return &simple{now: now, flaw: flaw, lives: map[string]int{}}
}

// Do does one thing, and lets others begin and end meanwhile.
func (s *simple) Do(c Call) Answer {
	runtime.Gosched()
	defer runtime.Gosched()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	switch c.Kind {
	case Register:
		s.births++
		s.lives[c.Agent] = s.births
		return Answer{}
	case End:
		return s.end(c.Agent)
	case Reserve:
		return s.reserve(c)
	case Check:
		if s.flaw == checkLies {
			return Answer{}
		}
		by := c.Agent
		if s.flaw == checkOwn {
			by = ""
		}
		return Answer{Held: s.inTheWay(by, c.Set, c.Shared)}
	case List:
		var all []Held
		for _, t := range s.held {
			all = append(all, t.Held)
		}
		return Answer{Held: all}
	}
	return s.change(c)
}

func (s *simple) expire() {
	now := s.now()
	switch s.flaw {
	case neverExpires:
		return
	case expiresEarly:
		now = now.Add(time.Second)
	}
	s.held = slices.DeleteFunc(s.held, func(t thing) bool { return !t.Expires.After(now) })
}

func (s *simple) end(name string) Answer {
	s.held = slices.DeleteFunc(s.held, func(t thing) bool {
		bound := t.Agent == name && t.life == s.lives[name]
		switch s.flaw {
		case diesWithKeep:
			return bound
		case outlivesHolder:
			return false
		}
		return bound && !t.Keep
	})
	if s.flaw != toNobody {
		delete(s.lives, name)
	}
	return Answer{}
}

func (s *simple) inTheWay(by string, set Set, shared bool) []Held {
	var out []Held
	for _, t := range s.held {
		mine, theirs := set, t.Set
		switch {
		case s.flaw == firstPatternOnly:
			mine &= -mine
		case s.flaw == scopesApart && mine.Scope() != theirs.Scope():
			continue
		case s.flaw == equalPatternsOnly && mine&theirs == 0:
			continue
		}
		apart := shared && t.Shared || s.flaw == sharedIsNothing && t.Shared
		if t.Agent != by && mine.overlaps(theirs) && !apart {
			out = append(out, t.Held)
		}
	}
	return out
}

func (s *simple) reserve(c Call) Answer {
	if s.lives[c.Agent] == 0 {
		return Answer{Refused: refusal.NotHolder} // it was late, and its agent has ended
	}
	if in := s.inTheWay(c.Agent, c.Set, c.Shared); len(in) > 0 {
		return Answer{Refused: refusal.Conflict, Held: in}
	}
	if s.flaw == refusesAll && c.Set.In(0) {
		return Answer{Refused: refusal.Conflict}
	}
	ends := s.now().Add(c.TTL)
	for i := range s.held {
		t := &s.held[i]
		if t.Agent != c.Agent || t.Set != c.Set || s.flaw == stacks {
			continue
		}
		t.Shared, t.Keep, t.life = c.Shared, c.Keep, s.lives[c.Agent]
		if ends.After(t.Expires) || s.flaw == shortens {
			t.Expires = ends
		}
		return Answer{Renewed: true, Held: []Held{t.Held}}
	}
	for i := range s.held {
		t := &s.held[i]
		if t.Agent != c.Agent || !t.Set.covers(c.Set) || t.Shared && !c.Shared || s.flaw == stacks || s.flaw == stacksInside {
			continue
		}
		if s.flaw == narrows {
			t.Set = c.Set
		}
		t.Keep, t.life = t.Keep || c.Keep, s.lives[c.Agent]
		if ends.After(t.Expires) {
			t.Expires = ends
		}
		return Answer{Renewed: true, Held: []Held{t.Held}}
	}
	if s.last++; s.flaw == reusesIDs && s.last > 4 {
		s.last = 1
	}
	h := Held{ID: fmt.Sprintf("r%d", s.last), Agent: c.Agent, Set: c.Set, Shared: c.Shared, Keep: c.Keep, Expires: ends}
	s.held = append(s.held, thing{h, s.lives[c.Agent]})
	return Answer{Held: []Held{h}}
}

func (s *simple) change(c Call) Answer {
	at := slices.IndexFunc(s.held, func(t thing) bool { return t.ID == c.ID })
	if at < 0 {
		return Answer{Refused: refusal.UnknownTarget}
	}
	t := &s.held[at]
	anyone := s.flaw == anyoneReleases && c.Kind == Release || s.flaw == anyoneTransfers && c.Kind == Transfer
	if t.Agent != c.Agent && !anyone {
		return Answer{Refused: refusal.NotHolder}
	}
	switch c.Kind {
	case Renew:
		before := t.Expires
		t.Expires = s.now().Add(c.TTL)
		out := t.Held
		if s.flaw == forgetsRenewal {
			t.Expires = before
		}
		return Answer{Held: []Held{out}}
	case Release:
		out := t.Held
		s.held = slices.Delete(s.held, at, at+1)
		return Answer{Held: []Held{out}}
	}
	return s.transfer(c, at)
}

func (s *simple) transfer(c Call, at int) Answer {
	if s.lives[c.To] == 0 {
		return Answer{Refused: refusal.UnknownTarget}
	}
	t := s.held[at]
	rest := &simple{flaw: s.flaw, held: slices.Delete(slices.Clone(s.held), at, at+1)}
	if in := rest.inTheWay(c.To, t.Set, t.Shared); len(in) > 0 && s.flaw != transferBlind {
		return Answer{Refused: refusal.Conflict}
	}
	t.Agent, t.life, t.Keep = c.To, s.lives[c.To], false
	if s.flaw == transferCopies {
		s.held = append(s.held, t)
	} else {
		s.held[at] = t
	}
	return Answer{Held: []Held{t.Held}}
}
