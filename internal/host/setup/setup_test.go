package setup

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// keyFile makes a public key file.
func keyFile(t *testing.T, path, comment string) string {
	t.Helper()
	pub, _ := must.Two(ed25519.GenerateKey(nil))(t)
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(must.Get(ssh.NewPublicKey(pub))(t))))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(line+" "+comment+"\n"), 0o600))
	return path
}

// host is a System that records what it would run.
type host struct {
	System
	ran  []string
	fail string // the beginning of what fails
}

func newHost(t *testing.T) (*host, Choice) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the state to another user")
	}
	dir := t.TempDir()
	units := filepath.Join(dir, "units")
	require.NoError(t, os.Mkdir(units, 0o755))
	for _, name := range serviceUnits {
		require.NoError(t, os.WriteFile(filepath.Join(units, name), nil, 0o644))
	}
	h := &host{System: System{User: "daemon", Socket: "/run/gated/gated.sock", ClientFile: filepath.Join(dir, "etc", "client.yaml"),
		Units: []string{units}, Booted: true}}
	h.Run = func(_ context.Context, argv ...string) error { return h.runs(strings.Join(argv, " ")) }
	h.InitAs = func(ctx context.Context, uid, gid uint32, c Choice) error {
		u := must.Get(user.Lookup("daemon"))(t)
		require.Equal(t, u.Uid, decimal(uid))
		require.Equal(t, u.Gid, decimal(gid))
		require.NoError(t, os.Chown(c.StateDir, 0, 0)) // this process fills it
		//fsck:none nothing serves it
		_, err := life.Init(ctx, life.InitOptions{StateDir: c.StateDir, Host: c.Host, Operators: c.Operators, Group: c.Group, Libvirt: c.Libvirt})
		return errors.Join(err, h.runs("init"))
	}
	h.On = func() bool { return slices.Contains(h.ran, whole[3]) }
	h.Healthy = func(context.Context) error { return h.runs("healthy") }
	key := keyFile(t, filepath.Join(dir, "alice.pub"), "alice@example.com")
	return h, Choice{StateDir: filepath.Join(dir, "state"), Host: "pve1", Operators: []pubkey.Arg{{Path: key}}, Users: []string{"nobody"}}
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

var errFails = errors.New("it fails")

func (h *host) runs(what string) error {
	if h.fail != "" && strings.HasPrefix(what, h.fail) {
		return errFails
	}
	h.ran = append(h.ran, what)
	return nil
}

func (h *host) apply(t *testing.T, c Choice) error {
	t.Helper()
	return Apply(t.Context(), must.Get(h.Steps(c))(t), func(Step, bool) {})
}

// whole is what a set-up runs on a host that has nothing but the programs.
var whole = []string{"init", "usermod -aG daemon nobody", "systemctl daemon-reload", "systemctl enable --now gated.socket gated.service", "healthy"}

func TestASetUpOfTheHost(t *testing.T) {
	h, c := newHost(t)
	require.NoError(t, h.apply(t, c))
	require.Equal(t, whole, h.ran)
	text := string(must.Get(os.ReadFile(h.ClientFile))(t))
	require.Contains(t, text, "\nsocket: /run/gated/gated.sock\n")
	require.NotRegexp(t, `(?m)^uid:`, text)
	require.Equal(t, string(must.Get(os.ReadFile("../../../contrib/systemd/client.yaml"))(t)), text, "the package's file, byte for byte")
	info := must.Get(os.Stat(h.ClientFile))(t)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())

	// Again: nothing is made anew, and the service is asked to run.
	require.NoError(t, os.WriteFile(h.ClientFile, []byte("socket: /srv/s\n"), 0o644))
	settings := must.Get(os.ReadFile(filepath.Join(c.StateDir, "gated.yaml")))(t)
	steps := must.Get(h.Steps(c))(t)
	for _, s := range steps {
		member := strings.Contains(s.What, "may ask") // the test only says that it ran usermod
		require.True(t, s.Done || member || s.Undo == "", s.What)
	}
	require.NoError(t, Apply(t.Context(), steps, func(Step, bool) {}))
	require.Equal(t, append(slices.Clone(whole), whole[1], "healthy"), h.ran)
	require.Equal(t, "socket: /srv/s\n", string(must.Get(os.ReadFile(h.ClientFile))(t)))
	require.Equal(t, settings, must.Get(os.ReadFile(filepath.Join(c.StateDir, "gated.yaml")))(t))

	// Also where no flag names an operator; but not another operator.
	_, err := h.Steps(Choice{StateDir: c.StateDir})
	require.NoError(t, err)
	other := c
	other.Operators = []pubkey.Arg{{Path: keyFile(t, filepath.Join(t.TempDir(), "mallory.pub"), "mallory@example.com")}}
	_, err = h.Steps(other)
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "mallory@example.com as operational")
	asRecovery := Choice{StateDir: c.StateDir, Recovery: c.Operators}
	_, err = h.Steps(asRecovery)
	require.ErrorIs(t, err, refusal.Conflict)
}

// Wherever a set-up stops, the next one does the rest.
func TestASetUpThatStopsGoesOn(t *testing.T) {
	for _, fails := range append([]string{""}, whole...) {
		t.Run(fails, func(t *testing.T) {
			h, c := newHost(t)
			if fails == "" { // at the first step, by Ctrl-C
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, Apply(ctx, must.Get(h.Steps(c))(t), func(Step, bool) {}), context.Canceled)
				require.NoDirExists(t, c.StateDir)
			} else {
				h.fail = fails
				require.ErrorIs(t, h.apply(t, c), errFails)
			}
			h.fail = ""
			require.NoError(t, h.apply(t, c))
			for _, what := range whole {
				if what != "init" || fails != "init" { // it had made the gate before it failed
					require.Contains(t, h.ran, what)
				}
			}
		})
	}
}

func TestWhatASetUpRefuses(t *testing.T) {
	h, c := newHost(t)
	stranger := c
	stranger.Users = []string{"no-such-user"}
	_, err := h.Steps(stranger)
	require.ErrorIs(t, err, refusal.BadParams)
	require.NoError(t, os.Remove(filepath.Join(h.Units[0], "gated.socket")))
	_, err = h.Steps(c)
	require.ErrorIs(t, err, refusal.BadParams)
	require.ErrorContains(t, err, "gated.socket is not installed")

	// Without systemd there is no service, and the daemon itself listens.
	h.Booted = false
	require.NoError(t, h.apply(t, c))
	require.Equal(t, []string{"init", "usermod -aG daemon nobody"}, h.ran)
	require.Contains(t, string(must.Get(os.ReadFile(filepath.Join(c.StateDir, "gated.yaml")))(t)), "\nsocket_group: daemon\n")
	require.Regexp(t, `(?m)^uid: [0-9]+$`, string(must.Get(os.ReadFile(h.ClientFile))(t)))
}

// Without systemd the daemon listens, so that clients need its uid. A set-up adds it to the package's file, and to no
// file that an administrator changed.
func TestTheClientFileOfThePackage(t *testing.T) {
	packaged := string(must.Get(os.ReadFile("../../../contrib/systemd/client.yaml"))(t))
	uid := must.Get(user.Lookup("daemon"))(t).Uid
	for had, want := range map[string]string{
		packaged:              packaged + "uid: " + uid + "\n",
		packaged + "# ours\n": packaged + "# ours\n",
		"socket: /srv/s\n":    "socket: /srv/s\n",
	} {
		h, choice := newHost(t)
		h.Booted = false
		require.NoError(t, os.Mkdir(filepath.Dir(h.ClientFile), 0o755))
		require.NoError(t, os.WriteFile(h.ClientFile, []byte(had), 0o644))
		require.NoError(t, h.apply(t, choice))
		require.NoError(t, h.apply(t, choice), "and again")
		require.Equal(t, want, string(must.Get(os.ReadFile(h.ClientFile))(t)))
	}
	h, choice := newHost(t)
	require.NoError(t, os.Mkdir(filepath.Dir(h.ClientFile), 0o755))
	require.NoError(t, os.WriteFile(h.ClientFile, []byte(packaged), 0o644))
	require.NoError(t, h.apply(t, choice))
	require.Equal(t, packaged, string(must.Get(os.ReadFile(h.ClientFile))(t)), "under systemd root listens")
}

func TestKeys(t *testing.T) {
	home := t.TempDir()
	file := keyFile(t, filepath.Join(home, ".ssh", "id.pub"), "alice@example.com")
	line := strings.TrimSpace(string(must.Get(os.ReadFile(file))(t)))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ssh", "bad.pub"), []byte("no key\n"), 0o600))
	other := strings.TrimSpace(string(must.Get(os.ReadFile(keyFile(t, filepath.Join(t.TempDir(), "b.pub"), "bob@example.com")))(t)))

	found := FindKeys(home, []string{line, other, "The agent has no identities.", ""})
	require.Len(t, found, 2, "each key once, and no file that is none")
	require.Equal(t, file, found[0].From)
	require.Equal(t, "ssh-agent", found[1].From)
	require.Equal(t, "bob@example.com", found[1].Principal)
	require.Empty(t, FindKeys("", nil))

	k := must.Get(NewKeys())(t)
	defer func() { require.NoError(t, k.Close()) }()
	copied := must.Get(k.Copy([]string{file, file + ":carol@example.com", line}))(t)
	require.Equal(t, "carol@example.com", copied[1].Principal)
	for _, c := range copied {
		require.NotEqual(t, file, c.Path, "the daemon's user may not read a home")
	}
	for _, wrong := range []string{filepath.Join(home, "none.pub"), filepath.Join(home, ".ssh", "bad.pub"), home, "ssh-ed25519 AAAA x", ""} {
		_, err := k.Copy([]string{wrong})
		require.Error(t, err, wrong)
		require.NotContains(t, err.Error(), k.dir)
	}
}

func TestShadows(t *testing.T) {
	dir := t.TempDir()
	put := func(path, text string) string {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	mine, theirs := put("bin/gated", "1"), put("local/gated", "2")
	etc, lib := filepath.Join(dir, "etc"), filepath.Join(dir, "lib")
	path := filepath.Join(dir, "local") + ":" + filepath.Join(dir, "bin") + ":relative"
	units := []string{etc, lib}
	saying := func(want ...string) {
		t.Helper()
		var got []string
		for _, s := range Shadows(mine, path, units) {
			if !strings.Contains(s.What, "/usr/") { // of this machine
				got = append(got, strings.ReplaceAll(s.What, dir, ""))
			}
		}
		require.Equal(t, want, got)
	}
	saying("shells find /local/gated before /bin/gated")
	path = filepath.Join(dir, "bin")
	saying()
	put("lib/gated.service", "[Service]\nExecStart="+mine+" serve\n")
	saying()
	put("etc/gated.service", "[Service]\nExecStart="+theirs+" serve\n")
	saying("/etc/gated.service hides /lib/gated.service", "gated.service starts /local/gated, and this is /bin/gated")
	put("lib/gated.socket", "")
	put("etc/gated.service.d/own.conf", "[Service]\nExecStart=\nExecStart=-"+mine+" serve\n")
	saying("/etc/gated.service hides /lib/gated.service")
}

func FuzzExecStart(f *testing.F) {
	for _, s := range []string{"ExecStart=/usr/bin/gated serve\n", "ExecStart=\nExecStart=-+/a b", "ExecStart=", "x", " ExecStart=@/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		program, says := parseExecStart(text)
		if program != "" && (!says || !strings.Contains(text, program) || strings.ContainsAny(program, " \n")) {
			t.Fatalf("%q of %q", program, text)
		}
	})
}
