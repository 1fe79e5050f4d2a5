package reserve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// What changed between a survey and the transaction that decides by it counts:
// here it is made by hand, and then one thing is done.
func TestADecisionSeesWhatASurveyCouldNot(t *testing.T) {
	type scene struct {
		*world
		a, b, c op.Requester
		of      map[string]Reservation
	}
	for name, c := range map[string]struct {
		change    func(t *testing.T, s scene) error
		conflicts []string
	}{
		"nothing": {func(*testing.T, scene) error { return nil }, []string{"theirs"}},
		"it was released": {func(t *testing.T, s scene) error {
			_, err := s.Release(t.Context(), s.b, s.of["theirs"].ID)
			return err
		}, nil},
		"its time is up": {func(_ *testing.T, s scene) error { s.pass(time.Minute); return nil }, nil},
		"what would have ended was renewed": {func(t *testing.T, s scene) error {
			_, err := s.Renew(t.Context(), s.b, s.of["theirs"].ID, time.Hour)
			s.pass(time.Minute)
			return err
		}, []string{"theirs"}},
		"it is the claim's own now": {func(t *testing.T, s scene) error {
			_, err := s.Transfer(t.Context(), s.b, s.of["theirs"].ID, "a")
			return err
		}, nil},
		"what was its own is another's": {func(t *testing.T, s scene) error {
			_, err := s.Transfer(t.Context(), s.a, s.of["mine"].ID, "b")
			return err
		}, []string{"mine", "theirs"}},
		"another came": {func(_ *testing.T, s scene) error {
			s.of["new"] = s.reserve(claim(s.c, "src/new*")).Reservation
			return nil
		}, []string{"theirs", "new"}},
		"another came instead": {func(t *testing.T, s scene) error {
			s.of["new"] = s.reserve(claim(s.c, "src/new*")).Reservation
			_, err := s.Release(t.Context(), s.b, s.of["theirs"].ID)
			return err
		}, []string{"new"}},
		"others came elsewhere": {func(t *testing.T, s scene) error {
			s.reserve(claim(s.c, "lib/**"))
			_, err := s.Release(t.Context(), s.b, s.of["theirs"].ID)
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := scene{w, w.register("a", 1), w.register("b", 2), w.register("c", 3), map[string]Reservation{}}
			theirs := claim(s.b, "src/theirs")
			theirs.TTL = time.Minute
			s.of["mine"], s.of["theirs"] = w.reserve(claim(s.a, "src/mine")).Reservation, w.reserve(theirs).Reservation
			asked, err := readClaim(claim(s.a, "src/**"))
			require.NoError(t, err)
			require.NoError(t, w.survey(t.Context(), asked))
			require.Len(t, asked.known.hits, 2)
			require.NoError(t, c.change(t, s))

			g, conflicts, err := w.decides(asked)
			var want []op.ReservationID
			for _, name := range c.conflicts {
				want = append(want, s.of[name].ID)
			}
			require.Equal(t, want, conflicts)
			if want != nil {
				require.ErrorIs(t, err, refusal.Conflict)
				require.Zero(t, g)
			} else {
				require.NoError(t, err)
			}
			w.sound()
		})
	}
}

// A shared reservation that became exclusive in its place is in the way, though no
// id is new.
func TestADecisionSeesAModeThatChanged(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 2)
	shared := claim(b, "src/x")
	shared.Mode = Shared
	w.reserve(shared)
	mine := claim(a, "src/**")
	mine.Mode = Shared
	asked, err := readClaim(mine)
	require.NoError(t, err)
	require.NoError(t, w.survey(t.Context(), asked))
	require.True(t, w.reserve(claim(b, "src/x")).Renewed)
	_, conflicts, err := w.decides(asked)
	require.ErrorIs(t, err, refusal.Conflict)
	require.Len(t, conflicts, 1)
}

// decides makes the decision that comes after a survey.
func (w *world) decides(asked *wish) (g Granted, conflicts []op.ReservationID, err error) {
	err = w.update(w.t.Context(), func(tx *store.Tx, out *outcome) error {
		near, err := w.present(tx, out, asked)
		if err != nil {
			return err
		}
		var in inTheWay
		g, in, err = w.decide(tx, out, asked, near, nil)
		conflicts = idsOf(in.conflicts)
		return err
	})
	return g, conflicts, err
}

// Where more came since a survey than a transaction may look at, the survey goes
// on with that, and no more is looked at twice.
func TestASurveyGoesOnWithWhatIsNew(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	many := 2 * smallWork / workOfRow
	w.others(repo, many, func(i int) string { return fmt.Sprintf("src/f%d", i) })
	asked, err := readClaim(claim(a, "src/*.c"))
	require.NoError(t, err)
	require.NoError(t, w.survey(t.Context(), asked))
	require.Equal(t, op.ReservationID(many), asked.known.through)
	require.Empty(t, asked.known.hits)

	w.others(Place{Path: "/srv"}, many, func(i int) string { return fmt.Sprintf("repo/src/g%d", i) })
	_, _, err = w.decides(asked)
	require.ErrorIs(t, err, refusal.TooComplex)
	g, _, err := w.attempt(t.Context(), asked, nil)
	require.NoError(t, err)
	require.Equal(t, op.ReservationID(2*many), asked.known.through)

	require.NoError(t, w.survey(t.Context(), asked))
	require.Equal(t, g.ID, asked.known.through)
	require.Len(t, asked.known.hits, 1, "its own")
	conflicts, _, err := w.Check(t.Context(), w.register("b", 2), repo, []string{"src/*.c"}, Exclusive)
	require.NoError(t, err)
	require.Len(t, conflicts, 1)
}

// More that overlap than are remembered are too many, unless some are in the way.
func TestASurveyIsBounded(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	w.inside = 0
	w.others(repo, maxSurveyed+1, func(i int) string { return fmt.Sprintf("src/f%d", i) })
	require.Len(t, w.refused(claim(a, "src/**"), refusal.Conflict), MaxConflicts)
	shared := claim(a, "src/**")
	shared.Mode = Shared
	require.NoError(t, w.setModes(Shared))
	w.refused(shared, refusal.TooComplex)
}

func (w *world) setModes(m Mode) error {
	return w.cfg.Store.Update(w.t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE reservations SET mode = ?`, string(m))
		return err
	})
}

// The first reservation of all is new to a survey of an empty book.
func TestADecisionSeesTheFirstOfAll(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 2)
	asked, err := readClaim(claim(a, "src/**"))
	require.NoError(t, err)
	require.NoError(t, w.survey(t.Context(), asked))
	first := w.reserve(claim(b, "src/x"))
	_, conflicts, err := w.decides(asked)
	require.ErrorIs(t, err, refusal.Conflict)
	require.Equal(t, []op.ReservationID{first.ID}, conflicts)
}
