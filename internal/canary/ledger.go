package canary

// share is how many decisions there are, and from where on to look for the
// oldest: of answers, and of how requests ended. Places are counted from the
// first decision that ever was in the list.
type share struct{ n, from [2]int }

// ledger counts a list of decisions beside it, so that taking an entry in does not
// look through the list. It is made anew from the list where there is none.
type ledger struct {
	gone int // how many left the list
	all  share
	by   map[string]*share
}

func (d Decision) class() int {
	if d.Sort.answers() {
		return 0
	}
	return 1
}

func newLedger(list []Decision) *ledger {
	l := &ledger{by: map[string]*share{}}
	for _, d := range list {
		l.add(d)
	}
	return l
}

// of returns a caller's share.
func (l *ledger) of(by string) *share {
	s := l.by[by]
	if s == nil {
		s = &share{}
		l.by[by] = s
	}
	return s
}

func (l *ledger) add(d Decision) {
	l.all.n[d.class()]++
	l.of(d.By).n[d.class()]++
}

// keep adds a decision, of at most that many answers and as many other decisions. What
// goes is the oldest; but where one caller has more than half, that one's
// oldest, so that nobody drives out what others did.
func (l *ledger) keep(list []Decision, d Decision, most int) []Decision {
	list = append(list, d)
	l.add(d)
	for class := d.class(); l.all.n[class] > most; {
		from, own := &l.all.from[class], l.of(d.By)
		mine := 2*own.n[class] > most
		if mine {
			from = &own.from[class]
		}
		i := max(*from-l.gone, 0)
		for list[i].class() != class || mine && list[i].By != d.By {
			i++
		}
		list = l.drop(list, i)
		*from = l.gone + i // what was at i is before it now; none of this kind is
	}
	return list
}

// drop takes a decision out. What is before it moves up and what is behind it
// stays, so that a place before which there is none of a kind remains one.
func (l *ledger) drop(list []Decision, i int) []Decision {
	d := list[i]
	l.all.n[d.class()]--
	s := l.by[d.By]
	if s.n[d.class()]--; s.n == [2]int{} {
		delete(l.by, d.By)
	}
	copy(list[1:i+1], list[:i])
	l.gone++
	return list[1:]
}

// counted returns the ledger of the decisions since the last change.
func (s *State) counted() *ledger {
	if s.recent == nil || s.recent.all.n[0]+s.recent.all.n[1] != len(s.Recent) {
		s.recent = newLedger(s.Recent)
	}
	return s.recent
}

// before returns how many answers a caller had before the change that is watched.
func (s *State) before(by string) int {
	if s.base == nil || s.baseOf != s.Watch {
		s.base, s.baseOf = newLedger(s.Watch.Base), s.Watch
	}
	if b := s.base.by[by]; b != nil {
		return b.n[0]
	}
	return 0
}
