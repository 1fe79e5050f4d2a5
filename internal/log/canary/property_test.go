package canary

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// log returns entries of every kind, with changes among them. Callers occur with
// different frequency.
func log(t *rapid.T) []audit.Entry {
	now, out := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), []audit.Entry{}
	add := func(e audit.Entry) {
		now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "later")) * time.Second)
		e.Seq, e.Time = int64(len(out)+1), now
		out = append(out, e)
	}
	add(audit.Entry{Kind: audit.Started, Policy: "p0", Parts: listed("s", 0), Version: "v"})
	for range rapid.IntRange(1, 6).Draw(t, "spans") {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]audit.Kind{audit.Planned, audit.Requested, audit.Refused, audit.Approved, audit.Rejected,
			audit.Expired, audit.Cancelled, audit.Dispatched, audit.Reissued}), 1, 3).Draw(t, "kinds")
		by := rapid.SliceOfN(rapid.SampledFrom([]string{"uid:1", "uid:2", "agent:a#1", "agent:a#2", "desired:web", byGate}), 1, 5).Draw(t, "callers")
		for range rapid.IntRange(0, 120).Draw(t, "n") {
			n := rapid.IntRange(1, 60).Draw(t, "step")
			add(audit.Entry{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), By: rapid.SampledFrom(by).Draw(t, "by"), Step: fmt.Sprintf("j%d.1", n),
				Op: "guest.stop", Target: fmt.Sprintf("guest/%d", n), Code: refusal.Conflict})
		}
		add(audit.Entry{Kind: audit.Trusted, Parts: listed("s", 0),
			Policy: fmt.Sprintf("p%d", rapid.IntRange(0, 2).Draw(t, "policy"))})
	}
	return out
}

func drawRules(t *rapid.T) Rules {
	m := rapid.IntRange(10, 30).Draw(t, "minimum")
	return Rules{Decisions: rapid.IntRange(2*m, 120).Draw(t, "decisions"), Days: rapid.IntRange(1, 7).Draw(t, "days"), Minimum: m,
		Floor: rapid.IntRange(5, 50).Draw(t, "floor")}
}

// TestVerdictsDoNotDependOnWhenStepRuns: the log is cut into rounds in any way, the
// state is written and read in between, and entries are given again. The same
// verdicts come after the same entries, and the state stays small.
func TestVerdictsDoNotDependOnWhenStepRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, r := log(t), drawRules(t)
		whole, parts := &State{}, &State{}
		var a, b []audit.Entry
		for i, e := range entries {
			a = append(a, whole.Take(r, goBack, e)...)
			if rapid.Bool().Draw(t, "written") {
				text := must.Get(json.Marshal(parts))(t)
				parts = &State{}
				require.NoError(t, json.Unmarshal(text, parts))
			}
			b = append(b, parts.Take(r, goBack, e)...)
			if rapid.Bool().Draw(t, "a round ends") && i+1 < len(entries) {
				b = append(b, parts.Pass(r, goBack, e.Time)...)
				b = append(b, parts.Take(r, goBack, entries[rapid.IntRange(0, i).Draw(t, "again")])...)
			}
			require.LessOrEqual(t, Answers(parts.Recent), r.Decisions)
			require.LessOrEqual(t, len(parts.Recent), 2*r.Decisions)
			require.LessOrEqual(t, len(parts.Steps), maxSteps)
		}
		require.Equal(t, a, b)
		x := must.Get(json.Marshal(whole, json.Deterministic(true)))(t)
		y := must.Get(json.Marshal(parts, json.Deterministic(true)))(t)
		require.Equal(t, string(x), string(y))
	})
}

// TestEveryChangeHasOneVerdict: a change has at most one verdict, and without a
// change there is none.
func TestEveryChangeHasOneVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, r, changes, said := &State{}, drawRules(t), map[int64]bool{}, map[int64]bool{}
		for _, e := range log(t) {
			for _, o := range s.Take(r, goBack, e) {
				if o.Verdict == "" {
					require.True(t, said[o.Change], "an alert ends that there was")
					continue
				}
				require.Contains(t, []string{"passed", "alert", "expired"}, o.Verdict)
				require.False(t, said[o.Change])
				said[o.Change] = true
				require.True(t, changes[o.Change] || o.Change == e.Seq)
			}
			if s.Watch != nil {
				changes[s.Watch.Change] = true
			}
		}
	})
}

func counts(t *rapid.T, what string) tally {
	n := rapid.IntRange(0, 100)
	x := tally{of: map[Sort]int{}}
	for _, sort := range []Sort{Planned, Pending, Refused, Approved, Denied} {
		x.of[sort] = n.Draw(t, what)
	}
	x.waits = rapid.SliceOfN(rapid.Int64Range(0, maxWait), x.of[Approved], x.of[Approved]).Draw(t, what)
	return x
}

// TestShiftsAreSymmetric: a difference is one both ways, in opposite directions. A
// tally does not differ from itself, or below the minimum.
func TestShiftsAreSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, r := counts(t, "was"), counts(t, "is"), drawRules(t)
		there, back := shifts(a, b, r), shifts(b, a, r)
		require.Len(t, back, len(there))
		for i := range there {
			require.Equal(t, there[i].what, back[i].what)
			require.NotEqual(t, there[i].up, back[i].up)
		}
		require.Empty(t, shifts(a, a, r))
		for _, s := range there {
			switch s.what {
			case "refused", "pending":
				require.GreaterOrEqual(t, min(a.answers(), b.answers()), r.Minimum)
			case "approved":
				require.GreaterOrEqual(t, min(a.of[Approved]+a.of[Denied], b.of[Approved]+b.of[Denied]), r.Minimum)
			default:
				require.GreaterOrEqual(t, min(len(a.waits), len(b.waits)), r.Minimum)
			}
		}
	})
}

// TestDiffer: differ agrees with its description in exact numbers, also with the
// largest samples.
func TestDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 40, 5000}).Draw(t, "most")
		n0, n1 := rapid.IntRange(0, most).Draw(t, "n0"), rapid.IntRange(0, most).Draw(t, "n1")
		x0, x1 := rapid.IntRange(0, n0).Draw(t, "x0"), rapid.IntRange(0, n1).Draw(t, "x1")
		floor := rapid.IntRange(5, 50).Draw(t, "floor")
		want := false
		if n0 > 0 && n1 > 0 {
			rat := func(a, b int) *big.Rat { return big.NewRat(int64(a), int64(b)) }
			d := new(big.Rat).Sub(rat(x1, n1), rat(x0, n0))
			d.Abs(d)
			p := rat(x0+x1, n0+n1)
			v := new(big.Rat).Mul(p, new(big.Rat).Sub(rat(1, 1), p))
			v.Mul(v, new(big.Rat).Add(rat(1, n0), rat(1, n1)))
			want = d.Cmp(rat(floor, 100)) >= 0 && new(big.Rat).Mul(d, d).Cmp(v.Mul(v, rat(16, 1))) >= 0
		}
		require.Equal(t, want, differ(x0, n0, x1, n1, floor))
	})
}

// TestNoCallerAlone: one caller with less than half of the answers before cannot
// cause an alert if the decisions about the others stay the same.
func TestNoCallerAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRules(t)
		others := rapid.SliceOfN(rapid.SampledFrom([]Decision{{By: "a", Sort: Planned}, {By: "b", Sort: Planned}, {By: "b", Sort: Refused}}), 0, 60).Draw(t, "others")
		flood := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Decision {
			return Decision{By: "x", Sort: rapid.SampledFrom([]Sort{Planned, Pending, Refused, Approved, Denied}).Draw(t, "sort")}
		}), 0, 300).Draw(t, "flood")
		require.Empty(t, found(others, slices.Concat(others, flood), r))
		require.Empty(t, found(slices.Concat(others, flood), others, r), "nor its end")
	})
}

// TestKeepDropsNoOtherCaller: keep adds the new decision and drops one of the oldest
// of its kind. If its caller has more than half, it drops one of that caller's.
func TestKeepDropsNoOtherCaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2, 20).Draw(t, "most")
		var list []Decision
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			d := Decision{By: rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "by"),
				Sort: rapid.SampledFrom([]Sort{Planned, Approved}).Draw(t, "sort"), Wait: int64(i)}
			want := append(slices.Clone(list), d)
			kind := func(o Decision) bool { return o.Sort == d.Sort }
			own := func(o Decision) bool { return kind(o) && o.By == d.By }
			if number(want, kind) > most {
				goes := kind
				if 2*number(want, own) > most {
					goes = own
				}
				first := slices.IndexFunc(want, goes)
				want = slices.Delete(want, first, first+1)
			}
			list = keep(list, d, most)
			require.Equal(t, want, list)
			require.LessOrEqual(t, Answers(list), most)
			require.LessOrEqual(t, len(list)-Answers(list), most)
			require.Equal(t, d, list[len(list)-1])
			require.True(t, slices.IsSortedFunc(list, func(a, b Decision) int { return int(a.Wait - b.Wait) }), "in their order")
		}
		if n := Answers(list); n > 1 { // the window became shorter
			shorter := keep(list, Decision{By: "c", Sort: Refused}, n/2)
			require.Equal(t, n/2, Answers(shorter))
		}
	})
}

func number(list []Decision, of func(Decision) bool) (n int) {
	for _, d := range list {
		if of(d) {
			n++
		}
	}
	return n
}
