package client

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/hostgate"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// placeFile writes a client.yaml that only its owner may write, and returns its path.
func placeFile(t *testing.T, dir, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "client.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The order is: flag, GATED_SOCKET, the user's file, a socket of the user's own gate, the host's file, the host's socket.
func TestTheOrderOfThePlaces(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	system := filepath.Join(dir, "etc", "client.yaml")
	o := func(e env) Options {
		e["HOME"] = home
		return Options{File: system, Getenv: e.get}
	}
	paths := func(o Options) []string { return open(t, o).paths }
	require.Contains(t, paths(o(env{"XDG_RUNTIME_DIR": "/r"})), "/r/gated/gated.sock")

	placeFile(t, filepath.Dir(system), "socket: /srv/system.sock\nuid: 7\n")
	c := open(t, o(env{"XDG_RUNTIME_DIR": "/r"}))
	require.Equal(t, []string{"/srv/system.sock"}, c.paths)
	require.True(t, c.trusted[7] && c.trusted[0])
	require.Equal(t, c.paths, o(env{}).Paths())

	// The daemon of a tour listens in the user's own directory. The host's file leads to another gate.
	mine := filepath.Join(dir, "run", "gated", "gated.sock")
	require.NoError(t, os.MkdirAll(filepath.Dir(mine), 0o700))
	l := must.Get(net.Listen("unix", mine))(t)
	c = open(t, o(env{"XDG_RUNTIME_DIR": filepath.Join(dir, "run")}))
	require.Equal(t, mine, c.paths[0])
	require.False(t, c.trusted[7])
	require.NoError(t, l.Close())
	require.Equal(t, []string{"/srv/system.sock"}, paths(o(env{"XDG_RUNTIME_DIR": filepath.Join(dir, "run")})))

	placeFile(t, filepath.Join(home, ".config", "gated"), "socket: /srv/mine.sock\n")
	c = open(t, o(env{"GATED_UID": "9"}))
	require.Equal(t, []string{"/srv/mine.sock"}, c.paths)
	require.True(t, c.trusted[9])
	require.False(t, c.trusted[7], "the uid is that of the file that names the socket")

	placeFile(t, filepath.Join(dir, "xdg", "gated"), "socket: /srv/xdg.sock\n")
	require.Equal(t, []string{"/srv/xdg.sock"}, paths(o(env{"XDG_CONFIG_HOME": filepath.Join(dir, "xdg")})))

	c = open(t, o(env{"GATED_SOCKET": "/e"}))
	require.Equal(t, []string{"/e"}, c.paths)
	require.False(t, c.trusted[7])
	flag := o(env{"GATED_SOCKET": "/e"})
	flag.Socket = "/s"
	require.Equal(t, []string{"/s"}, paths(flag))
}

// A file that another user could have written could send every call to a gate of theirs.
func TestAPlaceThatOthersMayWrite(t *testing.T) {
	dir := t.TempDir()
	path := placeFile(t, filepath.Join(dir, "etc"), "socket: /srv/s\n")
	o := Options{File: path, Getenv: env{"HOME": filepath.Join(dir, "none")}.get}
	refused := func(says string) {
		t.Helper()
		_, err := New(o)
		require.ErrorIs(t, err, refusal.NotAllowed)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "yaml says where the gate is")
		require.Contains(t, refusal.As(err).Hint, "GATED_SOCKET")
		require.Empty(t, o.Paths(), "no other gate instead")
	}
	if os.Geteuid() != 0 {
		refused("belongs to") // the host's file is root's
		return
	}
	must.Get(New(o))(t)
	require.NoError(t, os.Chmod(path, 0o666))
	refused("may be written by others")
	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
	refused(filepath.Dir(path) + " may be written by others")
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	require.NoError(t, os.Chown(path, 64321, -1))
	refused("belongs to uid 64321")
	require.NoError(t, os.Chown(path, 0, -1))
	must.Get(New(o))(t)

	// A link of another user's.
	link := filepath.Join(dir, "link.yaml")
	require.NoError(t, os.Symlink(path, link))
	o.File = link
	must.Get(New(o))(t)
	require.NoError(t, os.Lchown(link, 64321, -1))
	refused("belongs to uid 64321")
	o.File = filepath.Dir(path)
	_, err := New(o)
	require.ErrorContains(t, err, "is not an ordinary file")
}

func TestAPlaceThatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		"":                                "client.yaml:1:1: the file is empty",
		"uid: 3\n":                        "socket is missing",
		"socket: gated.sock\n":            "client.yaml:1:9: socket is \"gated.sock\", not an absolute path",
		"socket: /s\nsockt: /s\n":         "client.yaml:2:1: ",
		"socket: /s\nuid: -1\n":           "client.yaml:2:6: ",
		"socket: /s\nuid: 4294967295\n":   "client.yaml:2:6: ",
		"socket: [/s]\n":                  "client.yaml:1:9: ",
		"socket: /s\nsocket: /t\n":        "twice",
		"socket: /s\nuid: alice\n":        "client.yaml:2:6: ",
		"socket: /s\n---\nsocket: /t\n":   "a second document",
		strings.Repeat("# x\n", 1<<15):    "client.yaml",
		"socket: \"/s\\u202e\"\nuid: 3\n": "client.yaml:1:9: ",
		"key: k.pub\n":                    "client.yaml:1:6: key is \"k.pub\", neither an absolute path nor one that begins with ~/",
		"key: ~alice/k.pub\n":             "neither an absolute path",
		"key: ''\nsocket: /s\n":           "client.yaml:1:6: ",
		"key: [/k]\n":                     "client.yaml:1:6: ",
		"key: /k\nuid: 3\n":               "client.yaml:2:6: uid says who runs the gate at socket, and there is no socket",
		"key: /k\nsocket: s\n":            "client.yaml:2:9: socket is \"s\", not an absolute path",
	} {
		_, err := parsePlace("client.yaml", "/home/a", []byte(text))
		require.ErrorIs(t, err, refusal.Malformed, text)
		require.ErrorContains(t, err, says, text)
	}
	p := must.Get(parsePlace("client.yaml", "", []byte("socket: /s\nuid: 4294967294\n")))(t)
	require.Equal(t, uint32(4294967294), *p.uid)
	_, err := parsePlace("client.yaml", "", []byte("socket: /s\nkey: /k\n"))
	require.ErrorContains(t, err, "client.yaml:2:1: unknown key", "the host's file names no person's key")

	if os.Geteuid() != 0 {
		return
	}
	path := placeFile(t, t.TempDir(), "socket: /s\n"+strings.Repeat("#\n", maxPlaceFile/2))
	_, err = New(Options{File: path, Getenv: env{"HOME": "/none"}.get})
	require.ErrorIs(t, err, refusal.Oversized)
}

// A person's client.yaml may name a key, and a key alone leaves the search for the gate as it is.
func TestTheOwnKey(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".config", "gated", "client.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	o := Options{Getenv: env{"HOME": home}.get, File: filepath.Join(home, "none"), System: "/s"}
	for _, c := range []struct{ text, key, last string }{
		{"key: /k.pub\n", "/k.pub", "/s"},
		{"key: ~/.ssh/k\nsocket: /own\n", filepath.Join(home, ".ssh/k"), "/own"},
		{"socket: /own\n", "", "/own"},
	} {
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o644))
		key, from, err := o.OwnKey()
		require.NoError(t, err, c.text)
		require.Equal(t, c.key, key)
		require.Equal(t, c.key != "", from == file)
		require.Equal(t, c.last, must.Get(o.place())(t).paths[len(must.Get(o.place())(t).paths)-1])
	}
	require.NoError(t, os.Chmod(file, 0o666))
	_, _, err := o.OwnKey()
	require.ErrorIs(t, err, refusal.NotAllowed, "another user could choose the key")
	require.NoError(t, os.Remove(file))
	key, _, err := o.OwnKey()
	require.NoError(t, err)
	require.Empty(t, key)
}

// FuzzPlace: what is accepted names an absolute path of a socket, a key or both, and reads the same if it is written anew.
func FuzzPlace(f *testing.F) {
	for _, s := range []string{"socket: /run/gated/gated.sock\n", "socket: /s\nuid: 997\n", "socket: s\n", "uid: 1\n", "key: ~/k\n", "\xff", "socket: /s\nuid: 0x10\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePlace("f", "/home/a", text)
		if err != nil {
			if r := refusal.As(err); r.Code != refusal.Malformed || r.Hint == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if p.file != "f" || len(p.paths) > 1 || len(p.paths) == 0 && (p.key == "" || p.uid != nil) ||
			len(p.paths) == 1 && !filepath.IsAbs(p.paths[0]) || p.key != "" && !filepath.IsAbs(p.key) {
			t.Fatalf("%+v", p)
		}
	})
}

// A file that names a path of the user's own is no reason to look at the host's gate. What the host has decides about its own.
func TestTheHintAboutAGateThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "client.yaml")
	bare, made := hostgate.Host{Root: filepath.Join(dir, "bare")}, hostgate.Host{Root: filepath.Join(dir, "made")}
	require.NoError(t, os.MkdirAll(filepath.Join(made.Root, hostgate.StateDir, "guests"), 0o755))
	for _, c := range []struct {
		text string
		host hostgate.Host
		want string
	}{
		{"socket: " + filepath.Join(dir, "none") + "\n", made, file + " names it: start the gate that listens there, or correct the path"},
		{"socket: " + SystemSocket + "\n", made, "the gate of this host does not run"},
		{"socket: " + SystemSocket + "\n", bare, file + " names it: start the gate that listens there, or correct the path"},
	} {
		placeFile(t, dir, c.text)
		cl := open(t, Options{File: file, Getenv: env{"HOME": filepath.Join(dir, "home")}.get})
		cl.host = c.host
		require.Contains(t, cl.absentHint(t.Context(), cl.paths[0]), c.want)
	}
}
