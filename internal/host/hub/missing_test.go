package hub_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/hub"
	"gated/internal/test/must"
)

// sets are the names of what a link read last.
func sets(t *testing.T, l *hub.Link) (names []string) {
	t.Helper()
	docs := must.Get(l.Read(t.Context()))(t)
	for _, d := range docs {
		names = append(names, d.Set)
	}
	return names
}

// TestAMissingSet is believed when two answers in a row lack it.
func TestAMissingSet(t *testing.T) {
	p := newPlace()
	s := httptest.NewServer(p)
	defer s.Close()
	l := poller(s.URL)
	answer := func(revision string, names ...string) {
		all := map[string]string{}
		for _, n := range names {
			all[n] = doc("[]")
		}
		p.on(hub.PathDesired, says(jsonType, `"`+revision+`"`, document(revision, all)))
		l.Poll(t.Context())
	}
	expect := func(why, revision string, missing []string, names ...string) {
		t.Helper()
		require.Equal(t, names, sets(t, l), why)
		require.Equal(t, missing, l.Status().Missing, why)
		require.Equal(t, revision, l.Status().Revision, why)
	}
	answer("r1", "a", "b")
	expect("the first answer is believed", "r1", nil, "a", "b")
	answer("r2", "a", "c")
	expect("b is missing once", "r1", []string{"b"}, "a", "b")
	answer("r1", "a", "b")
	expect("it is back, as before", "r1", nil, "a", "b")
	answer("r2", "a", "c")
	expect("and missing once more", "r1", []string{"b"}, "a", "b")
	p.on(hub.PathDesired, status(500))
	l.Poll(t.Context())
	require.Empty(t, l.Status().Missing, "an error is no answer")
	answer("r2", "a", "c")
	expect("two answers, but not in a row", "r1", []string{"b"}, "a", "b")
	answer("r3", "c", "d")
	expect("a is missing once", "r1", []string{"a", "b"}, "a", "b")
	answer("r4", "d", "e")
	expect("both are missing twice", "r4", nil, "d", "e")
	answer("r5", "d", "e", "f")
	expect("what comes is believed at once", "r5", nil, "d", "e", "f")
}

// TestAMissingSetWithdraws what waits because of it, when it is believed, and by
// the first answer after a start.
func TestAMissingSetWithdraws(t *testing.T) {
	w := newWorld(t)
	w.guests.Put("a", nil)
	wish := func(revision string, with bool) {
		all := map[string]string{"other": doc("[]")}
		if with {
			all["site"] = doc("[{name: a, state: absent}]")
		}
		w.place.on(hub.PathDesired, says(jsonType, `"`+revision+`"`, document(revision, all)))
	}
	waits := func() bool { return len(w.pending()) == 1 }
	looked := func() { // at everything, twice: one look may have begun before
		for range 2 {
			w.pass(time.Second)
			w.r.Reread()
			w.eventually(func() bool { return w.r.Status().RoundAt.Equal(w.now()) }, "a look at everything")
		}
	}
	wish("r1", true)
	w.round()
	w.eventually(waits, "it waits")
	id := w.pending()[0].ID
	wish("r2", false)
	w.round()
	looked()
	require.Equal(t, id, w.pending()[0].ID, "the set was missing once")
	wish("r1", true)
	w.round()
	looked()
	require.Equal(t, id, w.pending()[0].ID, "and is back")
	wish("r2", false)
	w.round()
	w.round()
	w.eventually(func() bool { return len(w.pending()) == 0 }, "it was missing twice")

	wish("r3", true)
	w.round()
	w.eventually(waits, "it waits again")
	w.stop()
	wish("r4", false)
	w.open()
	w.eventually(func() bool { return len(w.pending()) == 0 }, "there is nothing to compare with")
}
