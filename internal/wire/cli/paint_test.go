package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestDashesOfALocale(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, " - "}, {map[string]string{"LANG": "C"}, " - "}, {map[string]string{"LANG": "de_DE.UTF-8"}, " · "},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, " - "}, {map[string]string{"LC_CTYPE": "C.utf8"}, " · "},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_CTYPE": "de_DE.ISO-8859-1"}, " - "},
	} {
		getenv := func(name string) string { return c.env[name] }
		require.Equal(t, c.want, Dash(getenv), c.env)
		require.Equal(t, map[string]string{" - ": "...", " · ": "…"}[c.want], Ellipsis(getenv), c.env)
	}
}

// Nothing that is no terminal gets colours; the rest of the conditions are tested on a
// terminal, in cmd/opsign.
func TestFilesGetNoColours(t *testing.T) {
	f := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	defer func() { require.NoError(t, f.Close()) }()
	require.False(t, Colours(f, func(string) string { return "xterm" }))
	require.Zero(t, Width(f))
	require.Equal(t, "text", Told("text", f))
}

func TestPaint(t *testing.T) {
	require.Equal(t, []string{alarm + "DESTROY a: CANNOT BE" + plain, alarm + Cont + " UNDONE" + plain, bold + "  title:" + plain,
		"    CANNOT BE UNDONE", "  no title", "    nor this:", bold + "j1: fine" + plain},
		Paint([]string{"DESTROY a: CANNOT BE", Cont + " UNDONE", "  title:", "    CANNOT BE UNDONE", "  no title", "    nor this:", "j1: fine"},
			"CANNOT BE UNDONE"))
}

func TestQuoted(t *testing.T) {
	require.Equal(t, `"words"`, Quoted("words"))
	require.Equal(t, `"\"words\""`, Quoted(`"words"`))
	require.Equal(t, `"a\nb"`, Quoted("a\nb"))
	require.Empty(t, Quoted(""))
}
