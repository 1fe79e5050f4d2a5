package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A terminal itself is in the stories, which have one.
func TestWhatIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { require.NoError(t, null.Close()) }()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.False(t, IsTerminal(null))
	require.False(t, IsTerminal(r))
	require.False(t, IsTerminal(strings.NewReader("yes\n")))
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	require.False(t, IsTerminal(r), "a closed one")
}
