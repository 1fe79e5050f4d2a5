package steer

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func command(text string) []Word {
	var out []Word
	for _, w := range strings.Split(text, " ") {
		out = append(out, Word(strings.NewReplacer("?", Any, "#", Glob, "_", " ").Replace(w)))
	}
	return out
}

func TestPatternsMatch(t *testing.T) {
	for _, c := range []struct{ pattern, command, bound string }{
		{"dropdb *", "dropdb", ""}, {"dropdb *", "dropdb shop", ""}, {"dropdb *", "/usr/bin/dropdb -e shop", ""}, {"dropdb *", "dropdb ?", ""},
		{"dropdb {db}", "dropdb shop", "shop"}, {"dropdb {db}", "dropdb ?", "?"}, {"dropdb {db}", "dropdb a?b", "a?b"}, {"dropdb * {db}", "dropdb -h x shop", "shop"},
		{"dropdb * {db}", "dropdb shop -U postgres", "?"}, {"dropdb * {db}", "dropdb -e shop", "?"}, {"dropdb * {db}", "dropdb --host=x shop", "shop"},
		{"dropdb * {db}", "dropdb -e -- shop", "shop"}, {"dropdb -e {db} *", "dropdb -e shop -U x", "shop"}, {"dropdb * {db} *", "dropdb shop -U x -e", "?"},
		{"dropdb * {db} *", "dropdb shop", "shop"}, {"dropdb * {db} *", "dropdb shop -e", "shop"}, {"psql * -c DROP*", "psql -d x -c DROP_TABLE_y", ""},
		{"psql * -c DROP*", "psql -c DROP?", ""}, {"psql * --command=DROP*TABLE*", "psql --command=DROP_?_TABLE_x", ""}, {"v * undefine {g} *", "v -c u undefine web1 -x", "web1"},
		{"v a*b", "v ab", ""}, {"v a*b*c", "v aXbbc", ""}, {"dropd* x", "dropdb x", ""}, {"v", "v", ""}, {"v * a * b *", "v a a b b", ""},
	} {
		bound, ok := must.Get(ParsePattern(c.pattern))(t).Match(command(c.command))
		require.True(t, ok, "%s: %s", c.pattern, c.command)
		for _, w := range bound {
			require.Equal(t, command(c.bound)[0], w, "%s: %s", c.pattern, c.command)
		}
		require.Equal(t, c.bound != "", len(bound) > 0, c.pattern)
	}
	for pattern, other := range map[string]string{
		"dropdb {db}": "dropdb -e", "dropdb {db} *": "dropdb", "dropdb *": "dropdbx shop", "dropdb": "dropdb shop", "v undefine {g}": "v ? web1", "v a*b": "v ?",
		"v a*": "v ?a", "v a*bc": "v abX", "dropd* x": "? x", "v *a": "v b", "v * b": "v a", "dropdb x": "dropdb/ x", "v {a} {b}": "v a",
	} {
		_, ok := must.Get(ParsePattern(pattern))(t).Match(command(other))
		require.False(t, ok, "%s: %s", pattern, other)
	}
	_, ok := must.Get(ParsePattern("v *"))(t).Match(nil)
	require.False(t, ok)
}

func TestPatternsThatAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"": "first word", "*": "first word", "/usr/bin/dropdb *": "first word", "{x} a": "first word", "*db x": "first word", " a": "first word",
		"a  b": "two blanks", "a b ": "two blanks", "a * * b": "two lone stars", "a {x} {x}": "{x} twice", "a x{y}": "no hole", "a {}": "no hole", "a {b": "no hole",
		"a {b c}": "no hole", "a }": "no hole", "a\tb": "does not show", "a\x01": "does not show", strings.Repeat("a", 257): "256 bytes", strings.Repeat("a ", 40) + "b": "32 words",
	} {
		_, err := ParsePattern(text)
		require.ErrorContains(t, err, why, text)
	}
}

func TestGuestsDirectories(t *testing.T) {
	r := Rule{Patterns: []Pattern{must.Get(ParsePattern("rm *"))(t)}, Below: "/srv/guests"}
	real := func(p string) string { return strings.Replace(path.Clean(p), "/link", "/srv/guests", 1) }
	for text, want := range map[string]Word{
		"rm -rf /srv/guests/web1": "web1", "rm /srv/guests/web1/data/x": "web1", "rm -r web1": "web1", "rm ./web1/": "web1", "rm ../guests/web1": "web1", "rm -r .": Any,
		"rm -r /srv/guests": Any, "rm -r /srv/guests/": Any, "rm -r /srv": Any, "rm -r /": Any, "rm -r ..": Any, "rm -r #": Glob, "rm -r /srv/#": Any, "rm -r /#": Any,
		"rm -r /srv/g#": Any, "rm -r /srv/guests/web#": "web" + Glob, "rm -r /srv/guests/?": Any, "rm -r /srv/guests/?/x": Any, "rm -r /link/web1": "web1", "rm x /srv/guests/web1": Any,
		"rm /tmp/a /srv/guests/web1": "web1", "rm //srv//guests//web1": "web1", "rm /srv/guests/web1 /srv/guests/db": Any, "rm /srv/guests/web1 /srv/guests/web1/x": "web1",
	} {
		m, ok := r.Match(Command{Words: command(text), Dir: "/srv/guests"}, real)
		require.True(t, ok, text)
		if want.Known() {
			require.Equal(t, want, m.Bound[GuestHole], text)
		} else {
			require.False(t, m.Bound[GuestHole].Known(), text)
		}
	}
	for _, text := range []string{"rm", "rm -rf", "rm /srv/guest/web1", "rm /srv/guests-old", "rm ?", "rm /?", "rm /srv/?/x", "rm /tmp/#", "rm /srv/x#", "rmdir /srv/guests/web1", "rm -f/srv/guests/web1"} {
		_, ok := r.Match(Command{Words: command(text), Dir: "/w"}, real)
		require.False(t, ok, text)
	}
	_, ok := r.Match(Command{Words: command("rm web1")}, real)
	require.False(t, ok, "the directory is not known")
}

// TestPlacesOfCommands: of a command that takes away some of the paths that it names, or is where it stands, those count.
func TestPlacesOfCommands(t *testing.T) {
	r := InPlaceOf("guest.destroy", GuestHole, "mv *", "rsync * --delete* *", "git * clean * -*f* *", "find * -delete *", "truncate *").Rule
	r.Below = "/srv/guests"
	match := func(text, dir string) (string, bool) {
		m, ok := r.Match(Command{Words: command(text), Dir: dir}, path.Clean)
		return string(m.Bound[GuestHole]), ok
	}
	for text, want := range map[string]string{
		"mv /srv/guests/web1 /tmp": "web1", "mv -f -- /tmp/a /srv/guests/web1 /tmp": "web1", "mv -t /tmp /srv/guests/web1": "web1", "mv --target-directory=/tmp /srv/guests/web1": "web1",
		"mv /srv /tmp": Any, "mv /srv/guests/web1/a /srv/guests/db": "web1", "rsync -a --delete /x/ /srv/guests/web1/": "web1", "rsync --delete-after /x/ /srv/guests -v": Any,
		"git -C /srv/guests/web1 clean -fdx": "web1", "git clean --force /srv/guests/web1": "web1", "truncate -s 0 /srv/guests/web1/disk": "web1",
	} {
		got, ok := match(text, "/w")
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{"git clean -fd": "web1", "find -delete": "web1", "find -L -name x -delete": "web1", "find ! -name x -delete": "web1", "mv disk /tmp": "web1"} {
		got, ok := match(text, "/srv/guests/web1")
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
		for _, dir := range []string{"/w", ""} {
			_, ok = match(text, dir)
			require.False(t, ok, text)
		}
	}
	for _, text := range []string{"mv /tmp/a /srv", "mv /tmp/a /srv/guests/web1", "mv /srv/guests/web1", "mv", "rsync -a /x/ /srv/guests/web1", "rsync -a --delete /srv/guests/web1/ /backup/",
		"rsync --delete", "git -C /srv/guests/web1 clean -n", "git -C /srv/guests/web1 status -f", "find -L /tmp -delete", "git clean -f build"} {
		_, ok := match(text, "/w")
		require.False(t, ok, text)
	}
	_, ok := match("find -L /tmp -delete", "/srv/guests/web1")
	require.False(t, ok)
}

// FuzzParsePattern: a pattern without holes matches its own text, if its stars are words.
func FuzzParsePattern(f *testing.F) {
	for _, seed := range []string{"dropdb *", "v * undefine {guest} *", "a b* c*d", "a {b} {b}"} {
		f.Add(seed, "v undefine web1")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		require.Equal(t, text, p.String())
		own := []Word{}
		for _, w := range strings.Split(text, " ") {
			own = append(own, Word(w))
		}
		_, ok := p.Match(own)
		require.True(t, ok)
		bound, ok := p.Match(command(other))
		require.True(t, ok || bound == nil)
		for _, hole := range p.Holes() {
			_, there := bound[hole]
			require.Equal(t, ok, there)
		}
	})
}
