package reserve

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// raced are the patterns of these tests, as they are kept, and what they mean in
// another notation.
var raced = map[string]string{
	"**": `.+`, "src/**": `src(/.+)?`, "src/a": `src/a`, "src/a/**": `src/a(/.+)?`, "src/*.go": `src/[^/]*\.go`, "src/b.go": `src/b\.go`,
	"docs/": `docs(/.+)?`, "docs/{a,b}": `docs/[ab]`, "*/a": `[^/]+/a`,
}

// concrete are the paths by which it is decided whether two of them overlap,
// below /srv: any that do have one of these in common.
var concrete = func() (out []string) {
	level := []string{"/srv"}
	for range 5 {
		var next []string
		for _, p := range level {
			for _, name := range []string{"repo", "src", "docs", "a", "b.go"} {
				next = append(next, p+"/"+name)
			}
		}
		out, level = append(out, next...), next
	}
	return out
}()

// meant returns which of the concrete paths a pattern of these tests means.
var meant = func() func(dir, text string) []bool {
	var mu sync.Mutex
	known := map[[2]string][]bool{}
	return func(dir, text string) []bool {
		mu.Lock()
		defer mu.Unlock()
		key := [2]string{dir, text}
		if known[key] != nil {
			return known[key]
		}
		if inside, ok := strings.CutPrefix(text, "repo/"); ok {
			dir, text = dir+"/repo", inside
		}
		is := regexp.MustCompile("^" + regexp.QuoteMeta(dir+"/") + "(" + raced[text] + ")$")
		if raced[text] == "" {
			panic(text + " is none of these patterns")
		}
		for _, path := range concrete {
			known[key] = append(known[key], is.MatchString(path))
		}
		return known[key]
	}
}()

// requireApart asserts that no two holders have a path in common.
func (w *world) requireApart(all []Reservation) {
	for i, r := range all {
		for _, o := range all[i+1:] {
			if r.Holder.Same(o.Holder) || r.Mode == Shared && o.Mode == Shared {
				continue
			}
			one, other := meant(r.Scope.Path, r.Patterns[0]), meant(o.Scope.Path, o.Patterns[0])
			for k, path := range concrete {
				require.False(w.t, one[k] && other[k], "%s: %+v and %+v", path, r, o)
			}
		}
	}
}

// Two of these patterns overlap where the product says so and nowhere else, so
// that what was granted beside another thing is right, and what was refused too.
func TestTheRacedPatternsOverlapInConcretePaths(t *testing.T) {
	dirs := []string{"/srv", "/srv/repo", "/srv/repo/src"}
	read := func(dir, text string) (region, string) {
		if dir == "/srv" {
			text = "repo/" + text
		}
		in := region{path: dir}
		require.NoError(t, in.add(text))
		return in, in.texts()[0]
	}
	for text := range raced {
		for other := range raced {
			for _, d := range dirs {
				for _, e := range dirs {
					one, as := read(d, text)
					two, bs := read(e, other)
					want := false
					for k, m := range meant(d, as) {
						want = want || m && meant(e, bs)[k]
					}
					left := int64(maxWork)
					got, ok := one.overlaps(two, &left)
					require.True(t, ok)
					require.Equal(t, want, got, "%s in %s and %s in %s", as, d, bs, e)
				}
			}
		}
	}
}

// Whatever happens at a time, no two holders ever have what overlaps, and nobody
// is left waiting for nothing.
func TestNoTwoHoldersEverHaveWhatOverlaps(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	var running, background sync.WaitGroup
	background.Go(func() { require.ErrorIs(t, w.Run(ctx), context.Canceled) })
	var granted, waited atomic.Int64
	patterns := slices.Sorted(maps.Keys(raced))
	places := []Place{repo, repo, {Path: "/srv"}, {Path: "/srv/repo/src"}}
	for k := range 8 {
		by := w.register(fmt.Sprintf("a%d", k), 1)
		running.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(k)))
			for range 40 {
				c := Claim{By: by, Place: places[rnd.IntN(len(places))], Patterns: []string{patterns[rnd.IntN(len(patterns))]}, TTL: time.Hour}
				if c.Place.Path == "/srv" {
					c.Patterns[0] = "repo/" + c.Patterns[0]
				}
				if rnd.IntN(3) == 0 {
					c.Mode = Shared
				}
				if rnd.IntN(2) == 0 {
					c.Wait = time.Hour // whoever holds waits for nothing, so it ends
				}
				g, conflicts, err := w.Reserve(ctx, c)
				if err != nil {
					require.ErrorIs(t, err, refusal.Conflict)
					require.Zero(t, c.Wait)
					continue
				}
				require.Empty(t, conflicts)
				granted.Add(1)
				if c.Wait > 0 {
					waited.Add(1)
				}
				w.requireApart(w.all())
				if rnd.IntN(4) == 0 {
					if _, err := w.Transfer(ctx, by, g.ID, fmt.Sprintf("a%d", rnd.IntN(8))); err != nil {
						require.Contains(t, []refusal.Code{refusal.Conflict, refusal.BadParams, refusal.UnknownTarget}, refusal.CodeOf(err))
					} else {
						continue // it is another's to release, below
					}
				}
				_, err = w.ReleaseMine(ctx, by)
				require.NoError(t, err)
			}
		})
	}
	// What was transferred to somebody who waits is let go, or nobody would.
	background.Go(func() {
		for ctx.Err() == nil {
			for _, r := range w.everything(ctx) {
				by := op.Requester{Source: op.SourceAPI, UID: 1, Agent: fmt.Sprintf("%s#%d", r.Holder.Name, r.Holder.Registration)}
				_, err := w.Release(context.WithoutCancel(ctx), by, r.ID)
				if err != nil {
					require.Contains(t, []refusal.Code{refusal.UnknownTarget, refusal.NotHolder}, refusal.CodeOf(err))
				}
			}
		}
	})
	running.Wait()
	stop()
	background.Wait()
	require.Positive(t, granted.Load())
	require.Positive(t, waited.Load())
	require.Empty(t, w.queue.before(nil))
	w.sound()
}

// everything is what is in force, or nothing when ctx has ended.
func (w *world) everything(ctx context.Context) []Reservation {
	all, err := w.List(ctx, Query{Limit: MaxList})
	if err != nil {
		require.ErrorIs(w.t, err, context.Canceled)
	}
	w.requireApart(all)
	return all
}

// A claim and the end of its agent, at one time: whichever comes first, nothing
// is left with an agent that has ended.
func TestNothingIsLeftWithAnAgentThatEnded(t *testing.T) {
	w := newWorld(t)
	giver := w.register("giver", 1)
	for i := range 60 {
		by := w.register("a", 1)
		c := claim(by, fmt.Sprintf("x%d", i))
		given := w.reserve(claim(giver, fmt.Sprintf("y%d", i)))
		var both sync.WaitGroup
		both.Go(func() {
			if _, _, err := w.Reserve(t.Context(), c); err != nil {
				require.ErrorIs(t, err, refusal.NotHolder)
			}
		})
		both.Go(func() {
			if _, err := w.Transfer(t.Context(), giver, given.ID, "a"); err != nil {
				require.ErrorIs(t, err, refusal.UnknownTarget)
			}
		})
		both.Go(func() { w.ends(by) })
		both.Wait()
		for _, r := range w.all() {
			require.Equal(t, "giver", r.Holder.Name)
		}
		_, err := w.ReleaseMine(t.Context(), giver)
		require.NoError(t, err)
	}
	require.Zero(t, w.rows())
}
