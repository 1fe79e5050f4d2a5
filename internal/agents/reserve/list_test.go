package reserve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

func TestList(t *testing.T) {
	w := newWorld(t)
	a, b, bare := w.register("a", 1), w.register("b", 1), op.Requester{Source: op.SourceAPI, UID: 1}
	for i, by := range []op.Requester{a, b, bare, a} {
		c := claim(by, fmt.Sprintf("x%d", i))
		if i == 3 {
			c.Place.Path = "/srv/other"
		}
		w.reserve(c)
	}
	for _, c := range []struct {
		q    Query
		want []op.ReservationID
	}{
		{Query{}, []op.ReservationID{1, 2, 3, 4}},
		{Query{Scope: "s1"}, []op.ReservationID{1, 2, 3}},
		{Query{Path: "/srv/other"}, []op.ReservationID{4}},
		{Query{Path: "/srv/rep"}, nil},
		{Query{Holder: "a"}, []op.ReservationID{1, 4}},
		{Query{Holder: "uid:1"}, []op.ReservationID{3}},
		{Query{Holder: "uid:2"}, nil},
		{Query{Holder: "a", Scope: "s2"}, []op.ReservationID{4}},
		{Query{After: 1, Limit: 2}, []op.ReservationID{2, 3}},
		{Query{After: 4}, nil},
	} {
		all, err := w.List(t.Context(), c.q)
		require.NoError(t, err)
		var ids []op.ReservationID
		for _, r := range all {
			ids = append(ids, r.ID)
		}
		require.Equal(t, c.want, ids, "%+v", c.q)
	}
	for _, id := range []string{"s3", "3", "s", "s01", "s-1", "s+1"} {
		_, err := w.List(t.Context(), Query{Scope: id})
		require.ErrorIs(t, err, refusal.UnknownTarget, id)
	}
}

func TestWhetherAHolderIsAlive(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	w.reserve(claim(a, "x"))
	w.reserve(claim(op.Requester{Source: op.SourceAPI, UID: 1}, "y"))
	w.mu.Lock()
	w.dead["a"], w.dead[""] = true, true
	w.mu.Unlock()
	all := w.all()
	require.False(t, all[0].Alive)
	require.True(t, all[1].Alive, "nobody can tell")
	conflicts := w.refused(claim(b, "x"), refusal.Conflict)
	require.False(t, conflicts[0].Alive)
	_, _, err := w.Reserve(t.Context(), claim(b, "x"))
	require.ErrorContains(t, err, "a (uid 1, ended)")
	_, _, err = w.Reserve(t.Context(), claim(b, "y"))
	require.ErrorContains(t, err, "uid:1 (uid 1, bound to no process)")
	require.False(t, w.view("s1").Reservations[0].Alive)
}

func TestScopes(t *testing.T) {
	w := newWorld(t)
	s, err := w.Register(t.Context(), repo)
	require.NoError(t, err)
	require.Equal(t, Scope{ID: "s1", Place: repo, At: noon}, s)
	again, err := w.Register(t.Context(), repo)
	require.NoError(t, err)
	require.Equal(t, s, again)
	anew := repo
	anew.Inode++ // removed and made again
	other, err := w.Register(t.Context(), anew)
	require.NoError(t, err)
	require.Equal(t, "s2", other.ID)
	require.NotEqual(t, s.Incarnation(), other.Incarnation())
	got, err := w.Scope(t.Context(), "s2")
	require.NoError(t, err)
	require.Equal(t, other, got)
	_, err = w.Scope(t.Context(), "s3")
	require.ErrorIs(t, err, refusal.UnknownTarget)
	all, err := w.Scopes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Scope{s, other}, all)

	// The directory's path is one, whatever it is by now.
	w.reserve(claim(w.register("a", 1), "x"))
	w.refused(Claim{By: w.register("b", 1), Place: anew, Patterns: []string{"x"}}, refusal.Conflict)
}

// The oldest scope that nobody needs makes room; one that somebody needs does not.
func TestScopesAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	w.reserve(claim(a, "x")) // s1
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO scopes(path, device, inode, fold, at) SELECT '/d' || i, 1, i, 0, 0 FROM n`, MaxScopes)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE scopes SET last_step = 'j1.1' WHERE id = 2`)
		return err
	}))
	c := claim(a, "x")
	c.Place.Path = "/new"
	require.Equal(t, fmt.Sprintf("s%d", MaxScopes+1), w.reserve(c).Scope.ID)
	for id, err := range map[string]error{"s1": nil, "s2": nil, "s3": refusal.UnknownTarget, "s4": nil} {
		_, got := w.Scope(t.Context(), id)
		require.ErrorIs(t, got, err)
	}
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE scopes SET last_step = 'j1.1'`)
		return err
	}))
	c.Place.Path = "/newer"
	w.refused(c, refusal.OverLimit)
}

// A path means the scopes below it too, and no other that only begins like it.
func TestListOfAPathHasWhatIsBelow(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	paths := []string{"/srv/repo", "/srv/repo/sub", "/srv/repo-2", "/srv/repo.d/x", "/srv/repo0", "/srv", "/", "/srv/repo/sub/deep", "/srv/Repo"}
	for i, path := range paths {
		w.reserve(Claim{By: a, Place: Place{Path: path, Inode: uint64(i)}, Patterns: []string{"x"}})
	}
	anew := Place{Path: "/srv/repo", Inode: 99}
	w.reserve(Claim{By: w.register("b", 1), Place: anew, Patterns: []string{"y"}})
	for path, want := range map[string][]op.ReservationID{
		"/srv/repo":     {1, 2, 8, 10},
		"/srv/repo/sub": {2, 8},
		"/srv/repo/su":  nil,
		"/srv":          {1, 2, 3, 4, 5, 6, 8, 9, 10},
		"/":             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"/srv/repo/":    {1, 2, 8, 10},
		"srv/repo":      nil,
	} {
		var ids []op.ReservationID
		for after := op.ReservationID(0); ; after = ids[len(ids)-1] {
			some, err := w.List(t.Context(), Query{Path: path, After: after, Limit: 2})
			require.NoError(t, err)
			for _, r := range some {
				ids = append(ids, r.ID)
			}
			if len(some) < 2 {
				break
			}
		}
		require.Equal(t, want, ids, path)
	}
	mine, err := w.List(t.Context(), Query{Path: "/srv/repo", Holder: "b"})
	require.NoError(t, err)
	require.Len(t, mine, 1)
	one, err := w.List(t.Context(), Query{Path: "/srv", Scope: "s2"})
	require.NoError(t, err)
	require.Len(t, one, 1)
}

// What operators were asked about a scope that had to make room is never done to
// another: ids are not used again.
func TestAScopeThatMadeRoomIsNobodyElse(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	empty, err := w.Register(t.Context(), repo)
	require.NoError(t, err)
	asked := w.view(empty.ID).Fingerprint()
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO scopes(path, device, inode, fold, at, last_step) SELECT '/d' || i, 1, i, 0, 0, 'j1.1' FROM n`, MaxScopes)
		return err
	}))
	c := claim(a, "x")
	c.Place.Path = "/new"
	other := w.reserve(c)
	again := w.refused(claim(a, "x"), refusal.OverLimit)
	require.Empty(t, again, "/new is not empty, and operators acted in all others")
	_, err = w.Release(t.Context(), a, other.ID)
	require.NoError(t, err)
	back := w.reserve(claim(a, "x"))
	require.Equal(t, fmt.Sprintf("s%d", MaxScopes+2), back.Scope.ID)
	require.Equal(t, empty.Incarnation(), back.Scope.Incarnation())

	_, err = w.ForceRelease(t.Context(), step, empty.ID, asked)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = w.ForceTransfer(t.Context(), step, empty.ID, asked, back.ID, "a")
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = w.ForceRelease(t.Context(), step, back.Scope.ID, asked)
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.Equal(t, []Reservation{back.Reservation}, w.all())
}
