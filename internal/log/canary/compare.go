package canary

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// tally counts decisions by their sort.
type tally struct {
	of    map[Sort]int
	waits []int64 // seconds until the approval
}

func (t tally) answers() int { return t.of[Planned] + t.of[Pending] + t.of[Refused] }

// count counts the decisions about all callers, without those of but.
func count(list []Decision, but ...string) tally {
	t := tally{of: map[Sort]int{}}
	for _, d := range list {
		if slices.Contains(but, d.By) {
			continue
		}
		t.of[d.Sort]++
		if d.Sort == Approved {
			t.waits = append(t.waits, d.Wait)
		}
	}
	return t
}

// callers counts the answers to each caller.
func callers(list []Decision) map[string]int {
	by := map[string]int{}
	for _, d := range list {
		n := 0
		if d.Sort.answers() {
			n = 1
		}
		by[d.By] += n
	}
	return by
}

// halves reports whether a caller has at least half of the answers before or since.
func halves(base, recent []Decision) func(name string) bool {
	was, is, before, since := callers(base), callers(recent), Answers(base), Answers(recent)
	return func(name string) bool {
		return before > 0 && since > 0 && 2*was[name] >= before && 2*is[name] >= since
	}
}

// shift is a difference that is more than noise.
type shift struct {
	what string
	up   bool
	text string
}

// shifts compares the two tallies. It does not compare a sort with less than the
// minimum on either side.
func shifts(was, is tally, r Rules) []shift {
	var out []shift
	for _, what := range []Sort{Refused, Pending, Approved} {
		x0, x1, n0, n1 := was.of[what], is.of[what], was.answers(), is.answers()
		if what == Approved {
			n0, n1 = x0+was.of[Denied], x1+is.of[Denied]
		}
		if n0 >= r.Minimum && n1 >= r.Minimum && differ(x0, n0, x1, n1, r.Floor) {
			out = append(out, shift{string(what), x1*n0 > x0*n1, fmt.Sprintf("%s %d of %d, before %d of %d", what, x1, n1, x0, n0)})
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

// differ reports whether two proportions, x0 of n0 and x1 of n1, differ by more than
// noise. They must differ by the floor, in percentage points, and by four standard
// errors of the difference of two samples of one proportion. All numbers are whole
// and stay below 2⁶³ for samples of up to 5000.
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

// median returns the lower of the two middle values.
func median(list []int64) int64 {
	s := slices.Clone(list)
	slices.Sort(s)
	return s[(len(s)-1)/2]
}

func seconds(n int64) string { return (time.Duration(n) * time.Second).String() }

// robust returns the shifts among all callers but left. A shift must stay if any one
// more caller is left out, because one caller's work is not the gate's. A caller
// with at least half of the answers before and since is never left out. A change of
// its answers is a change of the gate.
func robust(base, recent []Decision, left []string, r Rules) []shift {
	all := shifts(count(base, left...), count(recent, left...), r)
	names, half := callers(base), halves(base, recent)
	maps.Copy(names, callers(recent))
	for name := range names {
		if len(all) == 0 {
			break
		}
		if !half(name) {
			out := append([]string{name}, left...)
			all = common(all, shifts(count(base, out...), count(recent, out...), r))
		}
	}
	return all
}

// common returns the shifts that both lists have, in the same direction.
func common(a, b []shift) []shift {
	return slices.DeleteFunc(a, func(s shift) bool {
		return !slices.ContainsFunc(b, func(o shift) bool { return o.what == s.what && o.up == s.up })
	})
}

// found returns the differences among all callers. If there are none, it leaves out
// the caller with the most answers since, because that one may hide the others.
// Among equals it leaves out the first by name.
func found(base, recent []Decision, r Rules) []shift {
	if out := robust(base, recent, nil, r); len(out) > 0 {
		return out
	}
	loudest, most := "", -1
	for name, n := range callers(recent) {
		if n > most || n == most && name < loudest {
			loudest, most = name, n
		}
	}
	return robust(base, recent, []string{loudest}, r)
}

// enough reports whether a difference of answers could have been found: without any
// one caller there is still the minimum, before and since.
func enough(base, recent []Decision, r Rules) bool {
	half := halves(base, recent)
	for _, list := range [][]Decision{base, recent} {
		all := Answers(list)
		if all < r.Minimum {
			return false
		}
		for name, n := range callers(list) {
			if !half(name) && all-n < r.Minimum {
				return false
			}
		}
	}
	return true
}
