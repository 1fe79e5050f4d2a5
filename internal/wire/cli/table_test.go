package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var tableOfTest = []Column{{Head: "ID"}, {Head: "AGE", Rank: 1}, {Head: "TARGET"}, {Head: "FOR", Rank: 2, Once: "all are for"}, {Head: "WHY", Rank: 3}}

func TestATableSaysOnceWhatAllRowsShare(t *testing.T) {
	rows := [][]string{{"j1.1", "2h", "guest/web", "uid:1000", "its data would be gone"}, {"j12.1", "3m", "guest/db", "uid:1000", ""}}
	require.Equal(t, "ID     AGE  TARGET     WHY\n"+
		"j1.1   2h   guest/web  its data would be gone\n"+
		"j12.1  3m   guest/db   -\n"+
		"all are for: uid:1000\n", Table(79, "…", tableOfTest, rows))
	require.Contains(t, Table(0, "…", tableOfTest, rows), "j12.1  3m   guest/db   uid:1000  -\n", "a file has a cell for each")
	require.Contains(t, Table(79, "…", tableOfTest, rows[:1]), "gone\nall are for: uid:1000\n", "one row has more room so")
}

func TestAColumnThatIsEmptyIsLeftOut(t *testing.T) {
	text := Table(79, "…", tableOfTest, [][]string{{"j1.1", "", "guest/web", "uid:1000", ""}})
	require.Equal(t, "ID    TARGET\nj1.1  guest/web\nall are for: uid:1000\n", text)
	require.Equal(t, "ID  AGE  TARGET  FOR  WHY\n", Table(79, "…", tableOfTest, nil), "heads alone")
}

// Programs count the columns of a table that no screen limits: each line has all of them, two blanks apart, whatever
// the rows have.
func TestATableWithoutALimitHasAllColumns(t *testing.T) {
	apart := regexp.MustCompile(` {2,}`)
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.OneOf(rapid.Just(""), rapid.StringOfN(rapid.RuneFrom([]rune("a b字\u202e-\t\n")), 0, 60, -1))
		rows := make([][]string, rapid.IntRange(0, 5).Draw(t, "rows"))
		for i := range rows {
			rows[i] = rapid.SliceOfN(cell, len(tableOfTest), len(tableOfTest)).Draw(t, "row")
		}
		text := Table(0, "…", tableOfTest, rows)
		require.Equal(t, len(rows)+1, strings.Count(text, "\n"))
		for line := range strings.Lines(text) {
			require.Len(t, apart.Split(strings.TrimSuffix(line, "\n"), -1), len(tableOfTest), line)
		}
	})
}

// What a reader types is whole on every screen; what gives way does so by rank.
func TestTablesFitTheirScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringOfN(rapid.RuneFrom([]rune("a b字\u202e-\t\n")), 0, 60, -1)
		rows := make([][]string, rapid.IntRange(1, 5).Draw(t, "rows"))
		for i := range rows {
			rows[i] = rapid.SliceOfN(cell, len(tableOfTest), len(tableOfTest)).Draw(t, "row")
			rows[i][0], rows[i][2] = "j1234.12", rapid.StringMatching(`guest/[a-z-]{1,70}`).Draw(t, "target")
		}
		before := slices.Clone(rows[0])
		cols := rapid.IntRange(20, 120).Draw(t, "cols")
		text := Table(cols, "…", tableOfTest, rows)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, widthOf(strings.TrimRight(line, "\n")), cols, line)
		}
		whole := strings.ReplaceAll(strings.ReplaceAll(text, "\n"+Cont, ""), " ", "")
		for _, r := range rows {
			require.Contains(t, whole, r[0])
			require.Contains(t, whole, r[2])
		}
		require.Equal(t, before, rows[0], "the caller's rows are as they were")
	})
}

// On a screen that has no room for what a reader types, each cell has a line of its own.
func TestARowThatIsWiderThanItsScreen(t *testing.T) {
	rows := [][]string{{"j1.1", "2h", "scope/services-of-the-team", "uid:1000", "its data would be gone"}}
	require.Equal(t, "j1.1\n"+
		"  AGE     2h\n"+
		"  TARGET  scope/services-of-the-team\n"+
		"  WHY     its data would be gone\n"+
		"all are for: uid:1000\n", Table(36, "…", tableOfTest, rows))
	short := []string{"j2.1", "3m", "guest/db", "uid:1000", "its data would be gone"}
	require.Equal(t, "ID    AGE  TARGET    WHY\n"+
		"j1.1\n"+
		"  AGE     2h\n"+
		"  TARGET  scope/services-of-the-team\n"+
		"  WHY     its data would be gone\n"+
		"j2.1  3m   guest/db  its data would…\n"+
		"all are for: uid:1000\n", Table(36, "…", tableOfTest, append(slices.Clone(rows), short)), "one wide row costs the others nothing")
	require.Contains(t, Table(37, "…", tableOfTest, rows), "ID    AGE  TARGET\nj1.1  2h   scope/services-of-the-team\n")
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", cut("abc", 3, "…"))
	require.Equal(t, "ab...", cut("abcdef", 5, "..."))
	require.Equal(t, "ab…", cut("abcdef", 3, "…"))
	require.Equal(t, "字…", cut("字字字", 4, "…"))
}
