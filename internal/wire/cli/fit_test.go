package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTablesFitTheirScreen(t *testing.T) {
	rows := []string{Row("ID", "TARGET", "FOR", "REASON"), Row("j1.1", "guest/"+strings.Repeat("long-name-", 12), "uid:1000", "short"),
		Row("j1234.12", "guest/web", strings.Repeat("字", 60), strings.Repeat("words of a reason ", 40))}
	for _, cols := range []int{40, 79, 120} {
		for line := range strings.Lines(Fit(cols, "…", rows...)) {
			require.LessOrEqual(t, widthOf(strings.TrimRight(line, "\n")), cols, line)
		}
	}
	text := Fit(79, "...", rows...)
	require.Contains(t, text, "j1234.12", "the first column is spared")
	require.Contains(t, text, "long-n", "a cell that is cut keeps its begin")
	require.Contains(t, text, "...")
	require.Contains(t, text, "uid:1000 ")
	require.Equal(t, Columns(rows...), Fit(0, "…", rows...), "no limit")
	require.Equal(t, "ID  TARGET  FOR  REASON\n", Fit(79, "…", rows[0]), "nothing to cut")
	require.NotPanics(t, func() { Fit(3, "…", rows...) })
	require.Equal(t, "", Fit(79, "…"))
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", cut("abc", 3, "…"))
	require.Equal(t, "ab...", cut("abcdef", 5, "..."))
	require.Equal(t, "ab…", cut("abcdef", 3, "…"))
	require.Equal(t, "字…", cut("字字字", 4, "…"))
}
