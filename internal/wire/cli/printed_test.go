package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/base/op"
)

func TestPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"\n\n":                        "",
		"done\n":                      "  > done\n",
		"a  b\r\n\n c":                "  > a  b\n  >\n  >  c\n",
		"name\tsize\nshop\t3":         "  > name    size\n  > shop    3\n",
		"\x1b[31mred":                 "  > \"\\x1b[31mred\"\n",
		"a\u202eb":                    "  > \"a\\u202eb\"\n",
		"\u3164x":                     "  > \"\\u3164x\"\n",
		"e\u0301\u0301\u0301":         "  > \"e\\u0301\\u0301\\u0301\"\n",
		"\xff":                        "  > \"\\xff\"\n",
		"été":                         "  > été\n",
		strings.Repeat("x", 68) + "y": "  > " + strings.Repeat("x", 68) + "\n  | y\n",
		strings.Repeat("x", 68):       "  > " + strings.Repeat("x", 68) + "\n",
		// A line is cut at a blank, which the next part begins with; nothing is lost.
		"ab " + strings.Repeat("x", 66) + " c": "  > ab\n  |  " + strings.Repeat("x", 66) + "\n  |  c\n",
		strings.Repeat("x", 68) + "  y":        "  > " + strings.Repeat("x", 68) + "\n  |   y\n",
		strings.Repeat("word ", 20):            "  > " + strings.TrimRight(strings.Repeat("word ", 13), " ") + "\n  | " + strings.TrimRight(strings.Repeat(" word", 7), " ") + "\n",
		"  " + strings.Repeat("x", 67):         "  >   " + strings.Repeat("x", 66) + "\n  | x\n",
		"a " + strings.Repeat("x", 69) + " b":  "  > a\n  |  " + strings.Repeat("x", 67) + "\n  | xx b\n",
	} {
		require.Equal(t, want, Printed("  ", text), "%q", text)
	}
}

// Nothing that is printed makes a line without a mark, or one that a screen of 80
// columns would cut.
func TestPrintedHasMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \t\r\nxé\x1b]{0,300}`)).Draw(t, "text")
		for line := range strings.Lines(Printed("        ", text)) {
			line = strings.TrimSuffix(line, "\n")
			require.Regexp(t, `^        [>|]( |$)`, line)
			require.Equal(t, line, op.Shown(line))
			width := 0
			for _, r := range line {
				if width++; r > 0x7e {
					width++
				}
			}
			require.Less(t, width, 80)
		}
	})
}

func TestFacts(t *testing.T) {
	require.Equal(t, "    runs  /bin/a\n    probe:\n      > one\n      >   two\n    bytes  3\n", Facts("    ", []op.Fact{
		{Name: "runs", Text: "/bin/a"}, {Name: "probe", Text: "one\n  two\n"}, {Name: "bytes", Text: "3\n"}}))
	require.Equal(t, "a:\n  > FATAL:  database\nb  \"x\\x20\\x20\\x1b\"\n",
		Facts("", []op.Fact{{Name: "a", Text: "FATAL:  database\n"}, {Name: "b", Text: "x  \x1b"}}), "blanks show as they are, and nothing else does")
	require.Empty(t, Facts("", nil))
	long := strings.Repeat("x\n", 32<<10) + "the last"
	require.Equal(t, "probe:\n"+strings.Repeat("  > x\n", 32<<10)+"  > the last\n", Facts("", []op.Fact{{Name: "probe", Text: long}}),
		"what is signed is shown whole")
}

func TestOutputs(t *testing.T) {
	require.Empty(t, Outputs(api.Job{Steps: []api.Step{{ID: "j1.1"}}}))
	require.Equal(t, "  j1.2 printed:\n    > a\n    > b\n", Outputs(api.Job{Steps: []api.Step{{ID: "j1.1"}, {ID: "j1.2", Output: "a\nb\n"}}}))
}
