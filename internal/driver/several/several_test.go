package several

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func TestEachGuestIsInOneBackEnd(t *testing.T) {
	w, a, b := newWorld(t)
	a.Put("web", nil)
	b.Put("db", op.Params{"state": "running"})
	b.Put("app", nil)
	got, missing := w.listed()
	require.Equal(t, map[string]string{"web": "stopped a", "db": "running b", "app": "stopped b"}, got)
	require.Empty(t, missing)
	all := must.Get(w.List(t.Context()))(t)
	require.True(t, slices.IsSortedFunc(all, func(a, b op.Observed) int { return strings.Compare(a.Target.Name, b.Target.Name) }))
	for name, backend := range map[string]string{"web": "a", "db": "b"} {
		o := must.Get(w.look(name))(t)
		require.Equal(t, backend, o.Backend)
	}
	o := must.Get(w.look("none"))(t)
	require.False(t, o.Present)
	require.Equal(t, "a", o.Backend, "where it would be made")
	must.Fail(w.Observe(t.Context(), op.At(op.Target{Kind: "command", Name: "x"})))(t, refusal.UnknownTarget)
}

// If a single back end names itself in its list, the list is kept without a copy. Otherwise the
// list gets the name.
func TestASingleListIsRemembered(t *testing.T) {
	w := newFakes(t, "only")
	f := w.all[0]
	c := w.config()
	c.NewGuests, c.Backends = "", []driver.Backend{named{f}}
	d := must.Get(New(t.Context(), c))(t)
	for _, name := range []string{"x", "y", "z"} {
		f.Put(name, nil)
	}
	one := must.Get(d.List(t.Context()))(t)
	require.Len(t, one, 3)
	two := must.Get(d.List(t.Context()))(t)
	require.NotSame(t, &one[0], &two[0], "the fake makes a list for each call")
	same := d.members[0].last
	require.Same(t, &two[0], &same[0])

	require.NoError(t, w.open(), "and one that does not say its name gets it")
	got, _ := w.listed()
	require.Equal(t, map[string]string{"x": "stopped only", "y": "stopped only", "z": "stopped only"}, got)
}

// named is a back end that names itself in its list.
type named struct{ *fake }

func (n named) List(ctx ctx) ([]op.Observed, error) {
	all, err := n.fake.List(ctx)
	all = slices.Clone(all)
	for i := range all {
		all[i].Backend = n.name
	}
	return all, err
}

func TestWhatCannotBeOpened(t *testing.T) {
	w := newFakes(t, "a", "b")
	c := w.config()
	c.NewGuests = ""
	must.Fail(New(t.Context(), c))(t, refusal.BadParams)
	c.NewGuests = "c"
	must.Fail(New(t.Context(), c))(t, refusal.BadParams)

	w.all[0].Put("web", nil)
	w.all[1].Put("web", nil)
	err := w.open()
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "guest/web is in a and in b")
	w.all[1].is(away)
	require.NoError(t, w.open(), "one that is away claims nothing")
}

// If a back end has been away since the start, its guests are not known. Until it is back, a
// name of another back end could mean either for a step that takes something.
func TestABackEndThatWasAwayAtTheStart(t *testing.T) {
	w := newFakes(t, "a", "b")
	a, b := w.all[0], w.all[1]
	a.Put("web", nil)
	b.is(away)
	require.NoError(t, w.open())
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	step := op.Look{Target: guest("web"), Op: "guest.destroy"}
	_, err := w.Observe(t.Context(), step)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "guest/web is in a, and may be in b, which is away since the start")
	must.Get(w.Observe(t.Context(), op.Look{Target: guest("web"), Op: "guest.start"}))(t, "the others go on")
	o := must.Get(w.look("web"))(t, "what is there can be seen")
	require.Equal(t, "a", o.Backend)

	b.is(well)
	_, missing := w.listed()
	require.Empty(t, missing)
	b.is(away)
	o = must.Get(w.Observe(t.Context(), step))(t, "it was listed once, and had none of that name")
	require.Equal(t, "a", o.Backend)
}

// An error that came too late says why, and not how long it took.
func TestAnErrorThatCameLate(t *testing.T) {
	first := true // the look's own bound is over at once, but the caller's is not
	l := &lane{base: t.Context(), now: func() time.Time { return time.Time{} }, patience: time.Hour,
		limit: func(parent context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(parent)
			if first {
				cancel()
			}
			first = false
			return ctx, cancel
		}}
	_, err := ask(t.Context(), l, func(context.Context) (int, error) { return 0, errors.New("connect: no such file or directory") })
	require.ErrorContains(t, err, "no such file or directory")
	_, late := l.hangs()
	require.True(t, late)
}

func TestManyClaimsAreCounted(t *testing.T) {
	w := newFakes(t, "a", "b")
	for _, name := range strings.Split("one two three four five six seven", " ") {
		w.all[0].Put(name, nil)
		w.all[1].Put(name, nil)
	}
	require.ErrorContains(t, w.open(), "and so are 2 more")
}

func TestABackEndThatIsAway(t *testing.T) {
	for what, m := range map[string]mode{"away": away, "hanging": hanging, "panicking": panicking} {
		t.Run(what, func(t *testing.T) {
			w, a, b := newWorld(t)
			a.Put("web", nil)
			b.Put("db", nil)
			_, missing := w.listed()
			require.Empty(t, missing)
			b.Put("new", nil) // no look has seen it yet
			b.is(m)
			for range 3 {
				got, missing := w.listed()
				require.Equal(t, map[string]string{"web": "stopped a", "db": "unknown b"}, got)
				require.Contains(t, missing, "the back end b is away")
				o := must.Get(w.look("web"))(t, "the others' guests go on")
				require.Equal(t, "a", o.Backend)
				for _, name := range []string{"db", "new", "none"} {
					_, err := w.look(name)
					require.ErrorIs(t, err, refusal.Unavailable, name)
					require.ErrorContains(t, err, "the back end b is away")
				}
			}
			require.NotEmpty(t, w.States()[1].Away)
			require.Empty(t, w.States()[0].Away)

			a.Put("db", nil)
			got, _ := w.listed()
			require.Equal(t, "unknown ", got["db"], "it may be there twice")
			must.Fail(w.look("db"))(t, refusal.Unavailable)

			b.is(well)
			comesBack(t, w)
			got, missing = w.listed()
			require.Empty(t, missing)
			require.Equal(t, map[string]string{"web": "stopped a", "db": "unknown ", "new": "stopped b"}, got)
			require.False(t, must.Get(w.look("none"))(t).Present)
		})
	}
}

// comesBack looks until the hung back ends are asked again. The looks that were given up end in
// their own time.
func comesBack(t *testing.T, w *world) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, listErr := w.List(t.Context())
		_, lookErr := w.look("none")
		return listErr == nil && lookErr == nil
	}, patience, tick)
}

// A back end whose calls never return is asked a bounded number of times, and no caller waits
// for it twice.
func TestABackEndThatNeverComesBack(t *testing.T) {
	w, a, b := newWorld(t)
	a.Put("web", nil)
	b.is(stuck)
	for range 50 {
		got, missing := w.listed()
		require.Equal(t, map[string]string{"web": "stopped a"}, got)
		require.NotEmpty(t, missing)
		must.Get(w.look("web"))(t)
		w.time = w.time.Add(trial)
	}
	require.LessOrEqual(t, b.calls("list"), maxStuck+1)
	require.LessOrEqual(t, b.calls("look"), maxStuck+1)
	require.Greater(t, b.calls("list"), 1, "it is tried again")
}

func TestNamesThatTwoClaim(t *testing.T) {
	w, a, b := newWorld(t)
	a.Put("web", nil)
	a.Put("db", nil)
	b.Put("web", nil) // later
	got, missing := w.listed()
	require.Empty(t, missing)
	require.Equal(t, map[string]string{"web": "unknown ", "db": "stopped a"}, got, "that name alone")
	_, err := w.look("web")
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.ErrorContains(t, err, "guest/web is in a and in b")
	must.Get(w.look("db"))(t)
}

func TestAnswersThatAreNone(t *testing.T) {
	w, a, b := newWorld(t)
	a.Put("web", nil)
	b.Put("db", nil)
	b.is(twice)
	got, missing := w.listed()
	require.Empty(t, missing)
	require.Equal(t, map[string]string{"web": "stopped a", "db": "unknown b"}, got)
	b.is(lying)
	must.Fail(w.look("web"))(t, refusal.StaleTarget, "b has something under that name, whatever it is")
	must.Fail(w.look("none"))(t, refusal.StaleTarget)
}

func TestWhatIsUndeletedComesFromItsTrash(t *testing.T) {
	w, a, b := newWorld(t)
	g := newGate(t, w)
	undelete := func(p op.Params) (op.Observed, error) {
		return w.Observe(t.Context(), op.Look{Target: guest("web"), Op: "guest.undelete", Params: p})
	}
	o := must.Get(undelete(op.Params{}))(t)
	require.Equal(t, "a", o.Backend, "no trash has it")

	b.Put("other", nil) // the memory driver numbers its guests
	inB := b.Put("web", nil).Incarnation
	g.destroy("web")
	o = must.Get(undelete(op.Params{}))(t)
	require.Equal(t, "b", o.Backend)
	require.Len(t, o.Trash, 1)

	inA := a.Put("web", nil).Incarnation
	g.destroy("web")
	must.Fail(undelete(op.Params{}))(t, refusal.Conflict)
	for inc, backend := range map[op.Incarnation]string{inA: "a", inB: "b"} {
		o = must.Get(undelete(op.Params{"incarnation": string(inc)}))(t)
		require.Equal(t, backend, o.Backend)
	}
	o = must.Get(w.look("web"))(t)
	require.Len(t, o.Trash, 2, "people see all of it")
}

func TestACloneIsMadeWhereTheOriginalIs(t *testing.T) {
	w, _, b := newWorld(t)
	b.Put("db", nil)
	clone := func(from string) (op.Observed, error) {
		return w.Observe(t.Context(), op.Look{Target: guest("copy"), Op: "guest.clone", Params: op.Params{"from": from}})
	}
	o := must.Get(clone("db"))(t)
	require.Equal(t, "b", o.Backend)
	o = must.Get(clone("none"))(t)
	require.Equal(t, "a", o.Backend)
	o = must.Get(clone("copy"))(t)
	require.Equal(t, "a", o.Backend)
}

func TestChecksAreSharedAndNotTooOften(t *testing.T) {
	w, a, b := newWorld(t)
	for range 20 {
		found, at := w.Check(t.Context(), "a")
		require.Equal(t, driver.OK, found[0].State)
		require.Equal(t, w.time, at)
	}
	require.Equal(t, 1, a.calls("check"))
	w.time = w.time.Add(checkEvery)
	w.Check(t.Context(), "a")
	require.Equal(t, 2, a.calls("check"))

	b.is(stuck)
	for range 20 {
		found, _ := w.Check(t.Context(), "b")
		require.Equal(t, driver.Bad, found[0].State)
		require.NotEmpty(t, found[0].Hint)
		w.time = w.time.Add(checkEvery)
	}
	require.Equal(t, 1, b.calls("check"), "never a second beside one that hangs")
	a.is(panicking)
	found, _ := w.Check(t.Context(), "a")
	require.Equal(t, driver.Bad, found[0].State)
}

// A single back end that is away behaves as one of several.
func TestASingleBackEndThatIsAway(t *testing.T) {
	for what, m := range map[string]mode{"away": away, "panicking": panicking} {
		t.Run(what, func(t *testing.T) {
			w := newFakes(t, "only")
			require.NoError(t, w.open())
			w.all[0].Put("web", nil)
			got, missing := w.listed()
			require.Equal(t, map[string]string{"web": "stopped only"}, got)
			require.Empty(t, missing)
			w.all[0].is(m)
			got, missing = w.listed()
			require.Equal(t, map[string]string{"web": "unknown only"}, got)
			require.Contains(t, missing, "the back end only is away")
			_, err := w.look("web")
			require.ErrorIs(t, err, refusal.Unavailable)
			require.ErrorContains(t, err, "the back end only is away")
			w.all[0].is(well)
			got, missing = w.listed()
			require.Equal(t, map[string]string{"web": "stopped only"}, got)
			require.Empty(t, missing)
			require.NoError(t, w.Close())
		})
	}
}

// A caller who leaves changes nothing in the back end's state.
func TestACallerWhoLeaves(t *testing.T) {
	w, _, b := newWorld(t)
	b.Put("db", nil)
	b.is(stuck)
	gone, leave := context.WithCancel(t.Context())
	leave()
	must.Fail(w.List(gone))(t, context.Canceled)
	must.Fail(w.Observe(gone, op.At(guest("db"))))(t, context.Canceled)
	b.is(well)
	got, missing := w.listed()
	require.Equal(t, map[string]string{"db": "stopped b"}, got)
	require.Empty(t, missing)
}

// large is a back end with many guests that never change.
type large struct {
	*fake
	guests []op.Observed
}

func (l large) List(context.Context) ([]op.Observed, error) { return l.guests, nil }

// To list a single back end takes the same few allocations for any number of guests.
func TestASingleListAllocatesNothingForGuests(t *testing.T) {
	w := newFakes(t, "only")
	listing := func(n int) float64 {
		b := large{fake: w.all[0]}
		for i := range n {
			b.guests = append(b.guests, op.Observed{Target: guest(fmt.Sprint("g", i)), Present: true, Running: "stopped", Backend: "only"})
		}
		c := w.config()
		c.Backends = []driver.Backend{b}
		d := must.Get(New(t.Context(), c))(t)
		all := must.Get(d.List(t.Context()))(t)
		require.True(t, n == 0 || &all[0] == &b.guests[0], "it is the very slice")
		return testing.AllocsPerRun(100, func() {
			if _, err := d.List(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	require.InDelta(t, listing(1), listing(10_000), 3)
}

// The state has the time since when a back end is away or there. That also holds for one whose
// list works and whose look at a guest hangs.
func TestSinceWhen(t *testing.T) {
	w, _, b := newWorld(t)
	began := w.time
	state := func() State { return w.States()[1] }
	require.Equal(t, State{Name: "b", Kind: "guest", Since: began}, state())
	w.time = w.time.Add(time.Minute)
	b.is(away)
	w.listed()
	w.time = w.time.Add(time.Minute)
	w.listed()
	require.Equal(t, State{Name: "b", Kind: "guest", Since: began.Add(time.Minute), Away: "connection refused"}, state())
	b.is(well)
	w.listed()
	require.Equal(t, State{Name: "b", Kind: "guest", Since: began.Add(2 * time.Minute)}, state())
	w.time = w.time.Add(time.Minute)
	b.is(hanging)
	must.Fail(w.look("x"))(t, refusal.Unavailable)
	require.Equal(t, began.Add(3*time.Minute), state().Since)
	require.NotEmpty(t, state().Away)
}
