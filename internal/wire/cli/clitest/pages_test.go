package clitest

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func program() *cobra.Command {
	root := &cobra.Command{Use: "gated", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}}
	one := &cobra.Command{Use: "one NAME", Args: cobra.ExactArgs(1), Run: func(*cobra.Command, []string) {}}
	one.Flags().Int("pid", 0, "")
	root.AddCommand(one)
	return root
}

func TestCallsInABlock(t *testing.T) {
	for block, want := range map[string][][]string{
		"gated one a  # gated two":                          {{"one", "a"}},
		"sudo gated one 'a b' | gated two \"$X\" > gated":   {{"one", "a b"}, {"two", "1"}},
		"for i in 1; do X=1 gated one $i; done":             {{"one", "1"}},
		"cat > gated <<EOF\ngated two\nEOF\ngated one a":    {{"one", "a"}},
		"echo gated one":                                    nil,
		"$ gated one a\ndone (2 s); gated makes none\n$ ls": {{"one", "a"}},
		"runuser -u gated -- gated one a":                   {{"one", "a"}},
		"runuser -u alice -- gated one a":                   {{"one", "a"}},
	} {
		require.Equal(t, want, calls(block, "gated"), block)
	}
}

func TestWhatAProgramUnderstands(t *testing.T) {
	for line, ok := range map[string]bool{
		"gated": true, "gated --help": true, "gated one a": true, "gated one a --pid 3": true, "gated one --help": true,
		"gated two": false, "gated one": false, "gated one a b": false, "gated one a --pid": false, "gated one a --dip 3": false,
	} {
		got := calls(line, "gated")
		require.Len(t, got, 1, line)
		require.Equal(t, ok, understands(program(), got[0]) == nil, line)
	}
}

func TestBlocksOfAPage(t *testing.T) {
	require.Equal(t, []string{"a\nb", "c"}, blocks("text\n\n    a\n    b\n\ntext\n\n    c"))
}
