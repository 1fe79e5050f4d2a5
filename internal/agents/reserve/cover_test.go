package reserve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// What is asked for inside what one has renews that, and makes no second one.
func TestAClaimInsideAnOwnReservationRenewsIt(t *testing.T) {
	for name, c := range map[string]struct {
		has, asks         []string
		hasMode, askMode  Mode
		hasFold, asksFold bool
		elsewhere         bool
		covered           bool
	}{
		"a path below":                 {has: []string{"src/**"}, asks: []string{"src/a.go"}, covered: true},
		"paths of several":             {has: []string{"src/**", "go.mod"}, asks: []string{"go.mod", "src/a.go", "src/b"}, covered: true},
		"one of the patterns":          {has: []string{"src/**", "*.md"}, asks: []string{"*.md"}, covered: true},
		"a pattern and a path":         {has: []string{"src/**", "*.md"}, asks: []string{"*.md", "src/x"}, covered: true},
		"a path of an own path":        {has: []string{"a", "b"}, asks: []string{"b"}, covered: true},
		"shared of exclusive":          {has: []string{"src/**"}, asks: []string{"src/a.go"}, askMode: Shared, covered: true},
		"shared of shared":             {has: []string{"src/**"}, asks: []string{"src/a.go"}, hasMode: Shared, askMode: Shared, covered: true},
		"case aside":                   {has: []string{"Src/**"}, asks: []string{"SRC/a.go"}, hasFold: true, asksFold: true, covered: true},
		"exclusive of shared":          {has: []string{"src/**"}, asks: []string{"src/a.go"}, hasMode: Shared},
		"wider":                        {has: []string{"src/a.go"}, asks: []string{"src/**"}},
		"one of them outside":          {has: []string{"src/**"}, asks: []string{"src/a.go", "go.mod"}},
		"narrower, but no path":        {has: []string{"src/**"}, asks: []string{"src/*.go"}},
		"a directory of what is below": {has: []string{"src/**"}, asks: []string{"src/a/"}},
		"in another scope":             {has: []string{"src/**"}, asks: []string{"src/a.go"}, elsewhere: true},
		"read without case":            {has: []string{"src/**"}, asks: []string{"src/a.go"}, asksFold: true},
		"read with case":               {has: []string{"src/**"}, asks: []string{"src/a.go"}, hasFold: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.register("a", 1)
			first := claim(a, c.has...)
			first.Mode, first.Place.Fold, first.Reason = c.hasMode, c.hasFold, "first"
			g := w.reserve(first)
			w.pass(time.Minute)
			second := claim(a, c.asks...)
			second.Mode, second.Place.Fold, second.Reason, second.TTL = c.askMode, c.asksFold, "second", time.Hour
			if c.elsewhere {
				second.Place.Inode++
			}
			again := w.reserve(second)
			require.Equal(t, c.covered, again.Renewed)
			w.sound()
			if !c.covered {
				require.Len(t, w.all(), 2)
				return
			}
			want := g.Reservation
			want.ExpiresAt = noon.Add(time.Minute + time.Hour)
			require.Equal(t, want, again.Reservation, "nothing but its end")
			require.Equal(t, []Reservation{want}, w.all())
			e := w.entries(audit.Renewed)
			require.Len(t, e, 1)
			require.Equal(t, "first", e[0].Reason)
			require.Equal(t, want.Patterns, e[0].Patterns)
			require.Equal(t, want.ExpiresAt, e[0].Until)
		})
	}
}

func TestWhatRenewsWhatCoversIt(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	wide := w.reserve(claim(a, "src/**"))
	shorter := claim(a, "src/a")
	shorter.TTL, shorter.Keep = MinTTL, true
	g := w.reserve(shorter)
	require.Equal(t, wide.ExpiresAt, g.ExpiresAt, "the later of both ends")
	require.True(t, g.Keep)
	g = w.reserve(claim(a, "src/b"))
	require.True(t, g.Keep, "kept stays kept")

	all := w.reserve(claim(a, "**"))
	require.False(t, all.Renewed, "wider is another one")
	require.Equal(t, wide.ID, w.reserve(claim(a, "src/c")).ID, "the first that covers it")
	require.Equal(t, all.ID, w.reserve(claim(a, "go.mod")).ID)
	require.Equal(t, all.ID, w.reserve(claim(a, "**")).ID, "the same patterns come before")
	_, err := w.Release(t.Context(), a, wide.ID)
	require.NoError(t, err)
	require.Equal(t, all.ID, w.reserve(claim(a, "src/c")).ID)

	// What another has does not count, nor what has ended.
	b := w.register("b", 2)
	w.refused(claim(b, "src/c"), refusal.Conflict)
	w.pass(DefaultTTL)
	require.False(t, w.reserve(claim(b, "src/c")).Renewed)
	require.False(t, w.reserve(claim(a, "x")).Renewed)
	w.sound()
}

// The limit is for what is new.
func TestWhoHasFiftyMayAskForWhatItHas(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	for i := range MaxPerHolder {
		w.reserve(claim(a, "d"+scopeID(int64(i))+"/**"))
	}
	require.True(t, w.reserve(claim(a, "ds1/x")).Renewed)
	w.refused(claim(a, "e/x"), refusal.OverLimit)
}

// A daemon that another one may have taken over from does not say that a claim is held, if nothing but its word says so.
func TestAClaimIsHeldOnlyWhileTheDaemonMayAct(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	first := w.reserve(claim(a, "src/**"))
	w.mayAct = refusal.New(refusal.Unavailable, "another member may have taken over")
	_, _, err := w.Reserve(t.Context(), claim(a, "src/x"))
	require.ErrorIs(t, err, refusal.Unavailable)
	_, err = w.Renew(t.Context(), a, first.ID, first.ExpiresAt.Sub(noon))
	require.ErrorIs(t, err, refusal.Unavailable)
	w.mayAct = nil
	require.Equal(t, first.ID, w.reserve(claim(a, "src/x")).ID)
}
