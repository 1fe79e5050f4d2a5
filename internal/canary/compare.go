package canary

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// tally counts decisions.
type tally struct {
	planned, pending, refused, approved, denied int
	waits                                       []int64 // seconds to approve
}

func (t tally) answers() int { return t.planned + t.pending + t.refused }

// add counts what another tally counts as well.
func (t *tally) add(o tally) {
	t.planned, t.pending, t.refused = t.planned+o.planned, t.pending+o.pending, t.refused+o.refused
	t.approved, t.denied = t.approved+o.approved, t.denied+o.denied
	t.waits = append(t.waits, o.waits...)
}

// side is what was decided about each caller, before or since, and the sum.
type side struct {
	by  map[string]tally
	all tally
}

func tallies(list []Decision) side {
	out := side{by: map[string]tally{}}
	for _, d := range list {
		t := out.by[d.By]
		switch d.Sort {
		case Planned:
			t.planned++
		case Pending:
			t.pending++
		case Refused:
			t.refused++
		case Approved:
			t.approved++
			t.waits = append(t.waits, d.Wait)
		case Denied:
			t.denied++
		}
		out.by[d.By] = t
	}
	for _, t := range out.by {
		out.all.add(t)
	}
	return out
}

// without is the sum over all callers but these, each named once.
func (c side) without(names ...string) tally {
	sum, waits := c.all, false
	for _, name := range names {
		t := c.by[name]
		sum.planned, sum.pending, sum.refused = sum.planned-t.planned, sum.pending-t.pending, sum.refused-t.refused
		sum.approved, sum.denied = sum.approved-t.approved, sum.denied-t.denied
		waits = waits || len(t.waits) > 0
	}
	if !waits {
		return sum
	}
	sum.waits = nil
	for name, t := range c.by {
		if !slices.Contains(names, name) {
			sum.waits = append(sum.waits, t.waits...)
		}
	}
	return sum
}

// loudest is who made the most of the answers; of several, the first by name.
func (c side) loudest() (who string) {
	most := -1
	for _, name := range slices.Sorted(maps.Keys(c.by)) {
		if n := c.by[name].answers(); n > most {
			who, most = name, n
		}
	}
	return who
}

// half reports whether a caller made at least half of the answers.
func (c side) half(name string) bool {
	all := c.all.answers()
	return all > 0 && 2*c.by[name].answers() >= all
}

// shift is one thing that differs by more than noise.
type shift struct {
	what string
	up   bool
	text string
}

// shifts compares what was with what is. A sort of which either side has fewer
// than the minimum is not compared.
func shifts(was, is tally, r Rules) []shift {
	var out []shift
	for _, c := range []struct {
		what           string
		x0, n0, x1, n1 int
	}{
		{"refused", was.refused, was.answers(), is.refused, is.answers()},
		{"pending", was.pending, was.answers(), is.pending, is.answers()},
		{"approved", was.approved, was.approved + was.denied, is.approved, is.approved + is.denied},
	} {
		if c.n0 >= r.Minimum && c.n1 >= r.Minimum && differ(c.x0, c.n0, c.x1, c.n1, r.Floor) {
			out = append(out, shift{c.what, c.x1*c.n0 > c.x0*c.n1,
				fmt.Sprintf("%s %d of %d, before %d of %d", c.what, c.x1, c.n1, c.x0, c.n0)})
		}
	}
	if len(was.waits) >= r.Minimum && len(is.waits) >= r.Minimum {
		m0, m1 := median(was.waits), median(is.waits)
		if low, high := min(m0, m1), max(m0, m1); high-low >= slowerSeconds && high >= slower*low {
			out = append(out, shift{"time to approve", m1 > m0,
				fmt.Sprintf("approved after %s, before after %s (median)", seconds(m1), seconds(m0))})
		}
	}
	return out
}

// differ reports whether two proportions, x0 of n0 and x1 of n1, differ by at
// least the floor, in percentage points, and by at least four standard errors
// of the difference of two samples of one and the same proportion. All is whole
// numbers, which stay below 2⁶³ for samples of up to 5000.
func differ(x0, n0, x1, n1, floor int) bool {
	if n0 <= 0 || n1 <= 0 {
		return false
	}
	d, n := int64(x1)*int64(n0)-int64(x0)*int64(n1), int64(n0)*int64(n1)
	if d < 0 {
		d = -d
	}
	s, m := int64(x0+x1), int64(n0+n1)
	return d*100 >= int64(floor)*n && d*d*m >= errorsSquared*s*(m-s)*n
}

// median is the lower of the middle two.
func median(list []int64) int64 {
	s := slices.Clone(list)
	slices.Sort(s)
	return s[(len(s)-1)/2]
}

func seconds(n int64) string { return (time.Duration(n) * time.Second).String() }

// robust returns the shifts among all callers but left that are there whichever
// further one is left out: what one caller does is not the gate's doing. The
// exception is who made at least half of the answers before and since: what
// happens to that one happens to the gate.
func robust(was, is side, left []string, r Rules) []shift {
	all := shifts(was.without(left...), is.without(left...), r)
	names := maps.Clone(was.by)
	maps.Copy(names, is.by)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(all) == 0 {
			break
		}
		if slices.Contains(left, name) || was.half(name) && is.half(name) {
			continue
		}
		out := append([]string{name}, left...)
		all = common(all, shifts(was.without(out...), is.without(out...), r))
	}
	return all
}

// common keeps what both have, in the same direction.
func common(a, b []shift) []shift {
	return slices.DeleteFunc(a, func(s shift) bool {
		return !slices.ContainsFunc(b, func(o shift) bool { return o.what == s.what && o.up == s.up })
	})
}

// found returns what differs: among everybody, or, so that nobody hides what
// happens to the others, among all but the loudest.
func found(base, recent []Decision, r Rules) []shift {
	was, is := tallies(base), tallies(recent)
	if out := robust(was, is, nil, r); len(out) > 0 {
		return out
	}
	return robust(was, is, []string{is.loudest()}, r)
}

// enough reports whether a difference of answers could have been found: what is
// left without any one caller is still the minimum, before and since.
func enough(base, recent []Decision, r Rules) bool {
	was, is := tallies(base), tallies(recent)
	for _, s := range []side{was, is} {
		if s.all.answers() < r.Minimum {
			return false
		}
		for name, t := range s.by {
			if !(was.half(name) && is.half(name)) && s.all.answers()-t.answers() < r.Minimum {
				return false
			}
		}
	}
	return true
}
