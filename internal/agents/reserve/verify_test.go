package reserve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
)

func TestVerifyFindsWhatMayNotBe(t *testing.T) {
	for name, c := range map[string]struct {
		sql  []string
		want string
	}{
		"another's path":    {[]string{`UPDATE reservation_patterns SET pattern = 'src/**', prefix = '/srv/repo/src' WHERE reservation = 2`}, `r1 and r2 of different holders overlap`},
		"above":             {[]string{`UPDATE reservation_patterns SET pattern = '**', prefix = '/srv/repo' WHERE reservation = 2`}, `r1 and r2 of different holders overlap`},
		"the same twice":    {[]string{`UPDATE reservation_patterns SET pattern = 'src/a', prefix = '/srv/repo/src/a' WHERE reservation = 2`}, `r1 and r2 of different holders overlap`},
		"a wrong place":     {[]string{`UPDATE reservation_patterns SET prefix = '/srv/x' WHERE reservation = 2`}, `the pattern "docs/*" of r2 is kept at "/srv/x", not "/srv/repo/docs"`},
		"no pattern":        {[]string{`DELETE FROM reservation_patterns WHERE reservation = 2`}, `r2 has no patterns`},
		"not a pattern":     {[]string{`UPDATE reservation_patterns SET pattern = '['`}, `the pattern "[" of r1 is none`},
		"not as it is kept": {[]string{`UPDATE reservation_patterns SET pattern = './src/a' WHERE reservation = 1`}, `the pattern "./src/a" of r1 is none`},
		"nobody's":          {[]string{`UPDATE reservations SET registration = 0 WHERE id = 2`}, `r2 has a holder that is neither`},
		"too short":         {[]string{`UPDATE reservations SET due_at = created_at, expires_at = created_at + 1 WHERE id = 2`}, `r2 lasts shorter`},
		"never due":         {[]string{`UPDATE reservations SET due_at = created_at - 1 WHERE id = 2`}, `r2 is due at no moment`},
		"light":             {[]string{`UPDATE reservations SET weight = weight - 1 WHERE id = 2`}, `r2 weighs 33 bytes in the limits, and its patterns weigh 34`},
		"too heavy": {[]string{`UPDATE reservation_patterns SET pattern = replace(hex(zeroblob(20000)), '0', 'a') WHERE reservation = 2`,
			`UPDATE reservations SET weight = 40028 WHERE id = 2`}, `b (uid 1) has 1 reservations whose patterns weigh 40028 bytes, more than it may`},
		"a uid's too heavy": {[]string{`UPDATE reservations SET weight = 32767`, `INSERT INTO reservations(scope, agent, uid, registration, mode, fold, digest, weight, reason,
			keep, created_at, expires_at, due_at) SELECT scope, 'c', uid, 3, mode, fold, digest, weight, reason, keep, created_at, expires_at, due_at FROM reservations WHERE id = 1`},
			`uid 1, under all its names, has 3 reservations whose patterns weigh 98301 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reserve(claim(w.register("a", 1), "src/a"))
			w.reserve(claim(w.register("b", 1), "docs/*"))
			w.sound()
			storetest.Breaks(t, w.path, "apart")
			var problems []string
			require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) (err error) {
				for _, sql := range c.sql {
					if _, err := tx.Exec(sql); err != nil {
						return err
					}
				}
				problems, err = Verify(tx, noon)
				return err
			}))
			require.NotEmpty(t, problems)
			require.Contains(t, fmt.Sprint(problems), c.want)
		})
	}
}

// Patterns cannot outlive their reservation, nor be there before it.
func TestPatternsBelongToAReservation(t *testing.T) {
	w := newWorld(t)
	w.reserve(claim(w.register("a", 1), "src/a", "src/b"))
	require.Equal(t, []string{"src/a", "src/b"}, w.all()[0].Patterns)
	var left int
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Exec(sqlDelete, 1); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT count(*) FROM reservation_patterns`).Scan(&left)
	}))
	require.Zero(t, left)
	require.ErrorIs(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(sqlInsertPattern, "/srv/repo/x", 1, "x")
		return err
	}), store.ErrConstraint)
}

func TestVerifyTellsAtMostSoMuch(t *testing.T) {
	w := newWorld(t)
	storetest.Breaks(t, w.path, "apart")
	w.others(repo, 3*maxProblems, func(i int) string { return fmt.Sprintf("f%d/**", i) })
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE reservation_patterns SET prefix = '/srv/repo', pattern = '**'`); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE reservations SET weight = ?`, weight("**")); err != nil {
			return err
		}
		problems, err := Verify(tx, noon)
		require.Len(t, problems, maxProblems)
		return err
	}))
}
