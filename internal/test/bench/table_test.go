package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTableMarksWhatIsBelowItsBudget(t *testing.T) {
	var tab table
	tab.add(row{what: "a limit", value: 12.4, unit: perSecond})
	tab.add(row{"a rate within", 8000, perSecond, 8000, ""})
	tab.add(row{"a rate below", 7999, perSecond, 8000, ""})
	tab.add(row{"a time within", 30, milliseconds, 30, ""})
	tab.add(row{"a time above", 60, milliseconds, 30, ""})
	var out strings.Builder
	require.NoError(t, tab.print(&out, false))
	for line, want := range map[string]string{
		"a limit": "12/s", "a rate within": "1.00", "a rate below": "1.00 <", "a time within": "1.00",
		"a time above": "0.50 <",
	} {
		for _, l := range strings.Split(out.String(), "\n") {
			if rest, ok := strings.CutPrefix(l, line); ok {
				require.Contains(t, rest, want)
				require.Equal(t, strings.Contains(want, "<"), strings.Contains(rest, "<"), l)
			}
		}
		require.Contains(t, out.String(), line)
	}
}

func TestTheTableOfTheDocuments(t *testing.T) {
	var tab table
	tab.add(row{"a share", 4.5, plain, 4, "beside"})
	tab.add(row{what: "a count", value: 219, unit: pieces})
	tab.add(row{what: "bytes", value: 12.66, unit: kibibytes})
	var out strings.Builder
	require.NoError(t, tab.print(&out, true))
	_, rows, _ := strings.Cut(out.String(), "\n\n")
	require.Equal(t, `| what | figure | budget | ratio | beside it |
| --- | --- | --- | --- | --- |
| a share | 4.50 × | 4.00 × | 0.89 < | beside |
| a count | 219 |  |  |  |
| bytes | 12.7 KiB |  |  |  |
`, rows)
}

func TestQuantiles(t *testing.T) {
	require.Zero(t, middle(nil))
	require.Equal(t, 2.0, middle([]float64{3, 1, 2}))
	require.Equal(t, 1.0, quantile([]float64{3, 1, 2}, 0))
	require.Equal(t, 3.0, quantile([]float64{3, 1, 2}, 1))
}
