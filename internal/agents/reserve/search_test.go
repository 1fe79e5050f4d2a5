package reserve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
)

// Paths whose bytes lie around "/" are neither above nor below each other.
func TestSearchAcrossScopesAndBytes(t *testing.T) {
	place := func(path string) Place { return Place{Path: path} }
	folds := func(path string) Place { return Place{Path: path, Fold: true} }
	for _, c := range []struct {
		held    Place
		pattern string
		asked   Place
		want    string
		overlap bool
	}{
		{repo, "a/b", repo, "a", false},
		{repo, "a", repo, "a/b", false},
		{repo, "a/", repo, "a", true},
		{repo, "a", repo, "a/", true},
		{repo, "a/**", repo, "a.b", false},
		{repo, "a.b/x", repo, "a/**", false},
		{repo, "a0/x", repo, "a/**", false},
		{repo, "a-b", repo, "a/**", false},
		{repo, "a/ü", repo, "a/**", true},
		{repo, "**", repo, "a", true},
		{repo, "*", repo, "a/b", false},
		{repo, "x", place("/srv/repo2"), "**", false},
		{repo, "x", place("/srv/rep"), "**", false},

		{repo, "sub/a", place("/srv/repo/sub"), "a", true},
		{repo, "sub/a", place("/srv/repo/sub"), "b", false},
		{repo, "sub", place("/srv/repo/sub"), "**", false},
		{repo, "sub/", place("/srv/repo/sub"), "**", true},
		{repo, "*.go", place("/srv"), "repo/a.go", true},
		{repo, "*.go", place("/srv"), "*/*.go", true},
		{repo, "*.go", place("/srv"), "*.go", false},
		{repo, "*.go", place("/"), "**/a.go", true},
		{repo, "*.go", place("/"), "**/a.md", false},
		{place("/"), "srv/**", repo, "a", true},
		{place("/"), "**", repo, "a", true},
		{place("/"), "a", place("/"), "*", true},
		{place("/"), "srv", repo, "**", false},
		{place("/srv/[x]*"), "a", place("/srv"), `\[x]\*/a`, true},
		{place("/srv/[x]*"), "a", place("/srv"), "x/a", false},

		{folds("/f"), "README", folds("/f"), "readme", true},
		{folds("/f"), "README", place("/f"), "readme", true},
		{place("/f"), "README", folds("/f"), "readme", true},
		{place("/f"), "README", place("/f"), "readme", false},
		{folds("/f"), "Src/K", folds("/f"), "src/\u212a", true},
		{folds("/f"), "Src/A", folds("/f/src"), "a", true},
		{folds("/f"), "Src/A", place("/f/src"), "a", true},
		{folds("/f"), "Src/A", folds("/f/SRC"), "a", true},
		{place("/f"), "Src/a", folds("/f/src"), "a", false},
		{place("/f"), "src/a", folds("/f/src"), "A", true},
		{folds("/f/A"), "x", folds("/f/a"), "X", true},
		{place("/f/A"), "x", place("/f/a"), "x", false},
		{folds("/\u212a/A"), "b/x", folds("/k/a/b"), "x", true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := newWorld(t)
			a, b := w.register("a", 1), w.register("b", 1)
			w.reserve(Claim{By: a, Place: c.held, Patterns: []string{c.pattern}})
			conflicts, _, err := w.Check(t.Context(), b, c.asked, []string{c.want}, Exclusive)
			require.NoError(t, err)
			require.Equal(t, c.overlap, len(conflicts) == 1, "%+v", conflicts)
			_, _, err = w.Reserve(t.Context(), Claim{By: b, Place: c.asked, Patterns: []string{c.want}})
			if c.overlap {
				require.ErrorIs(t, err, refusal.Conflict)
			} else {
				require.NoError(t, err)
			}
			w.sound()
		})
	}
}

func TestAncestorsAndBelow(t *testing.T) {
	require.Equal(t, []string{"/a/b", "/a", "/"}, ancestors("/a/b"))
	require.Equal(t, []string{"/a", "/"}, ancestors("/a"))
	require.Equal(t, []string{"/"}, ancestors("/"))
	after, before := below("/a")
	require.Equal(t, "/a/ /a0", after+" "+before)
	after, before = below("/")
	require.Equal(t, "/ 0", after+" "+before)
	require.True(t, related("/", "/a"))
	require.True(t, related("/a/b", "/a"))
	require.False(t, related("/a", "/ab"))
}

// The cost must not grow with reservations elsewhere, so no query that a decision
// runs may read a whole table.
func TestNoDecisionReadsAWholeTable(t *testing.T) {
	w := newWorld(t)
	for query, index := range map[string]string{
		sqlAt: "PRIMARY KEY (prefix=?)", sqlNear: "PRIMARY KEY (prefix>? AND prefix<?)", sqlNewer: "PRIMARY KEY (rowid>?)",
		sqlHoldings: "reservations_holder", sqlStanding: "PRIMARY KEY", sqlByID: "INTEGER PRIMARY KEY",
		sqlBoundTo: "reservations_holder", sqlOfScope: "reservations_scope", sqlDropScope: "reservations_scope", sqlListBelow: "path>? AND path<?",
		sqlDue: "reservations_due", sqlNextDue: "reservations_due", sqlNextEnd: "reservations_due (due_at<?)",
		sqlOwn: "reservations_holder", sqlMine: "reservations_holder", sqlUse: "COVERING INDEX reservations_holder", sqlScopeAt: "path=?", sqlScopeByID: "PRIMARY KEY",
		sqlSetHolder: "PRIMARY KEY", sqlSetTerms: "PRIMARY KEY", sqlSetTimes: "PRIMARY KEY", sqlAnnounced: "PRIMARY KEY", sqlDelete: "PRIMARY KEY",
	} {
		var plan []string
		require.NoError(t, w.cfg.Store.View(t.Context(), func(tx *store.Tx) error {
			rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, make([]any, parameters(query))...)
			if err != nil {
				return err
			}
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					return err
				}
				plan = append(plan, detail)
			}
			return rows.Err()
		}))
		all := strings.Join(plan, "\n")
		require.Contains(t, all, index, query)
		if query == sqlDropScope {
			continue // the scopes themselves are read from the oldest on
		}
		for _, line := range plan {
			scan := strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "VIRTUAL TABLE") && !(query == sqlNextDue && strings.Contains(line, index))
			require.False(t, scan, "%s\n%s", query, all)
			sorts := strings.HasPrefix(line, "USE TEMP B-TREE") && (query == sqlAt || query == sqlNear || query == sqlNewer || query == sqlDue)
			require.False(t, sorts, "%s\n%s", query, all)
		}
	}
}

// parameters is how many a query has.
func parameters(query string) int {
	n := strings.Count(query, "?")
	for i := 9; i > 0; i-- {
		if strings.Contains(query, fmt.Sprintf("?%d", i)) {
			return i
		}
	}
	return n
}

// others puts n reservations of many holders into a scope, of patterns that
// name gives.
func (w *world) others(p Place, n int, name func(int) string) {
	w.t.Helper()
	require.NoError(w.t, w.cfg.Store.Update(w.t.Context(), func(tx *store.Tx) error {
		s, err := placeScope(tx, p, w.cfg.Now())
		if err != nil {
			return err
		}
		for i := range n {
			in := region{path: p.Path, fold: p.Fold}
			if err := in.add(name(i)); err != nil {
				return err
			}
			r := Reservation{Scope: s, Mode: Exclusive, Holder: Holder{Name: fmt.Sprintf("other%d", i/MaxPerHolder), UID: uint32(10_000 + i/MaxPerHolder), Registration: int64(1000 + i/MaxPerHolder)},
				CreatedAt: noon, ExpiresAt: noon.Add(MaxTTL)}
			if err := insert(tx, &r, in, MaxTTL); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestASearchIsBounded(t *testing.T) {
	w := newWorld(t)
	storetest.Unchecked(t, w.path, "what others hold is made by hand, and overlaps")
	a := w.register("a", 1)
	w.others(repo, 1, func(int) string { return "d/x0" })
	require.NoError(t, w.cfg.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO reservation_patterns(prefix, reservation, pattern) SELECT '/srv/repo/d/x' || i, 1, 'd/x' || i FROM n`, maxWork/workOfRow)
		return err
	}))
	w.refused(claim(a, "d/*.c"), refusal.TooComplex)
	_, _, err := w.Check(t.Context(), a, repo, []string{"d/*.c"}, Exclusive)
	require.ErrorIs(t, err, refusal.TooComplex)
	w.reserve(claim(a, "d/one/file.c", "e/*.c"))
	// What is in the way is told even so.
	require.Len(t, w.refused(claim(a, "d/x0", "d/*.c"), refusal.Conflict), 1)
}

func TestTheWorkOfADecisionIsBounded(t *testing.T) {
	w := newWorld(t)
	storetest.Unchecked(t, w.path, "what others hold is made by hand, and overlaps")
	a := w.register("a", 1)
	long := func(i int) string { return "d/" + strings.Repeat("*a", 9) + strings.Repeat("b", 4000) + fmt.Sprint(i) }
	w.others(repo, 140, long)
	w.refused(claim(a, "d/*"+strings.Repeat("c", 4000)), refusal.TooComplex)
	w.reserve(claim(a, "e/*"+strings.Repeat("c", 4000)))
}

func TestTheCacheIsBounded(t *testing.T) {
	c, left := newCache(), int64(maxWork)
	for i := range 2 * cacheBytes / 4000 {
		left = maxWork
		_, err := c.read(reading{strings.Repeat("a", 4000) + fmt.Sprint(i), false}, &left)
		require.NoError(t, err)
		require.LessOrEqual(t, c.weight, cacheBytes)
	}
	require.LessOrEqual(t, len(c.known), cacheBytes/4000)
	left = maxWork
	before := left
	_, err := c.read(reading{"A", false}, &left)
	require.NoError(t, err)
	require.Equal(t, before-workOfParse, left)
	p, err := c.read(reading{"A", true}, &left)
	require.NoError(t, err)
	require.Equal(t, before-2*workOfParse, left, "it means something else")
	require.True(t, p.Match("a"))
	left = 0
	_, err = c.read(reading{"A", true}, &left)
	require.NoError(t, err, "it is known")
	_, err = c.read(reading{"B", true}, &left)
	require.ErrorIs(t, err, refusal.TooComplex)
}

// A commit of many files can be checked beside a holder that has much.
func TestManyPathsAreCheckedBesideMuch(t *testing.T) {
	w := newWorld(t)
	storetest.Unchecked(t, w.path, "what others hold is made by hand, and overlaps")
	w.others(repo, 400, func(i int) string { return fmt.Sprintf("*%dx", i) })
	w.others(repo, 1, func(int) string { return "**/file500.go" })
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("src/dir%d/file%d.go", i%7, i))
	}
	conflicts, more, err := w.Check(t.Context(), w.register("a", 1), repo, paths, Exclusive)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, conflicts, 1)
	require.Equal(t, "src/dir3/file500.go", conflicts[0].Pattern)
}
