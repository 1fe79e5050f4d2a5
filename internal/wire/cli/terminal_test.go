package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A terminal itself is in the stories, which have one.
func TestWhatIsNoTerminal(t *testing.T) {
	null := must.Get(os.Open(os.DevNull))(t)
	defer func() { require.NoError(t, null.Close()) }()
	r, w := must.Two(os.Pipe())(t)
	require.False(t, IsTerminal(null))
	require.False(t, IsTerminal(r))
	require.False(t, IsTerminal(strings.NewReader("yes\n")))
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	require.False(t, IsTerminal(r), "a closed one")
}
