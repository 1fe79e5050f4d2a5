package unit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// version1 is /proc/self/cgroup of a host whose controllers have their own hierarchies, with
// systemd's at a path.
func version1(path string) string {
	return "12:pids:/system.slice/other.service\n11:cpuset:/\n4:cpu,cpuacct:/system.slice/other.service\n1:name=systemd:" + path + "\n"
}

func TestServiceOfACgroup(t *testing.T) {
	const manager = "/user.slice/user-1000.slice/user@1000.service"
	for _, c := range []struct {
		what, cgroup string
		want         Service
	}{
		{"a service", "/system.slice/gated.service", Service{Name: "gated.service"}},
		{"the recommended unit's subgroup", "/system.slice/gated.service/daemon", Service{Name: "gated.service"}},
		{"an instance", "/system.slice/system-gated.slice/gated@blue.service", Service{Name: "gated@blue.service"}},
		{"an instance with an escaped name", `/system.slice/system-gated.slice/gated@a\x2db.service`, Service{Name: `gated@a\x2db.service`}},
		{"a slice of the operator's", "/gates.slice/gates-blue.slice/pve-gate.service", Service{Name: "pve-gate.service"}},
		{"a name that the kernel keeps", "/system.slice/_memory.service", Service{Name: "memory.service"}},
		{"a name with an underscore", "/system.slice/__gate.service", Service{Name: "_gate.service"}},
		{"a colon", "/system.slice/gated@a:b.service", Service{Name: "gated@a:b.service"}},
		{"a user's service", manager + "/app.slice/gated.service", Service{Name: "gated.service", User: true}},
		{"a user's instance", manager + "/app.slice/app-gated.slice/gated@x.service", Service{Name: "gated@x.service", User: true}},
		{"a user's service, with no slice", manager + "/gated.service", Service{Name: "gated.service", User: true}},
		{"a container's service", "/machine.slice/systemd-nspawn@box.service/payload/system.slice/gated.service", Service{Name: "gated.service"}},
		{"docker's", "/docker/0123456789ab/system.slice/gated.service", Service{Name: "gated.service"}},
		{"a program that sshd started without a session", "/system.slice/ssh.service", Service{Name: "ssh.service"}},
		{"a login session", "/user.slice/user-1000.slice/session-3.scope", Service{}},
		{"a user's manager itself", manager + "/init.scope", Service{}},
		{"a terminal", manager + "/app.slice/app-org.gnome.Terminal.slice/vte-spawn-7e8d.scope", Service{}},
		{"tmux", manager + "/tmux-spawn-7e8d.scope", Service{}},
		{"an application", manager + "/app.slice/app-gnome-code-4242.scope", Service{}},
		{"a group that a user made", manager + "/mine", Service{}},
		{"an older manager", manager, Service{}},
		{"a slice", "/system.slice", Service{}},
		{"a socket's command", "/system.slice/gated.socket", Service{}},
		{"a container of docker's", "/system.slice/docker-0123456789ab.scope", Service{}},
		{"a container's process", "/machine.slice/libpod-0123.scope/container", Service{}},
		{"systemd itself", "/init.scope", Service{}},
		{"no systemd", "/", Service{}},
		{"nothing", "", Service{}},
		{"no name", "/system.slice/.service", Service{}},
		{"a name that only looks so", "/system.slice/gated.service.d", Service{}},
	} {
		t.Run(c.what, func(t *testing.T) {
			require.Equal(t, c.want, parseCgroups("0::"+c.cgroup+"\n"), "version 2")
			require.Equal(t, c.want, parseCgroups(version1(c.cgroup)), "version 1")
			require.Equal(t, c.want, parseCgroups(version1(c.cgroup)+"0::"+c.cgroup+"\n"), "both")
		})
	}
	gated := Service{Name: "gated.service"}
	for text, want := range map[string]Service{
		"0::/system.slice/gated.service":                         gated, // not the end of the line
		"1:name=systemd:/\n0::/system.slice/gated.service\n":     gated,
		"1:name=systemd:/system.slice/gated.service\n0::/\n":     gated,
		"1:name=elogind:/system.slice/gated.service\n":           {},
		"4:memory:/system.slice/gated.service\n":                 {},
		"0:/system.slice/gated.service\n":                        {},
		"10::/system.slice/gated.service\n":                      {},
		"garbage\n\n::\n0::/a.service/b.scope\n1:x:/b.service\n": {},
	} {
		require.Equal(t, want, parseCgroups(text), text)
	}
}

// FuzzCgroups: a service is a component of a path in the text, with no unit below it, with any
// other hierarchies. It only names files in a directory of units.
func FuzzCgroups(f *testing.F) {
	f.Add("0::/system.slice/gated.service\n")
	f.Add(version1("/system.slice/system-gated.slice/gated@a-b.service"))
	f.Add("0::/user.slice/user-1000.slice/user@1000.service/app.slice/gate-blue.service/daemon\n1:name=systemd:/\n")
	f.Add("0::/a.service/b.scope\n1:name=systemd:/..service/--@-.service")
	f.Fuzz(func(t *testing.T, text string) {
		s := parseCgroups(text)
		require.Equal(t, s, parseCgroups("9:memory:/x.service\n"+text))
		if s.Name == "" {
			require.Equal(t, Service{}, s)
			return
		}
		require.Greater(t, len(s.Name), len(suffix))
		require.False(t, isManager(s.Name))
		require.Contains(t, text, s.Name)
		slice := "0::/a.slice/"
		if s.User {
			slice = "0::/user@1.service/"
		}
		require.Equal(t, s, parseCgroups(slice+"_"+s.Name+"/sub\n"))
		require.Equal(t, Service{}, parseCgroups(slice+s.Name+"/session-1.scope\n"))
		for _, name := range append(s.files(), s.dropIns()...) {
			require.Equal(t, filepath.Join("/units", name), "/units/"+name)
			require.NotContains(t, name, "/")
			require.True(t, strings.HasSuffix("."+name, suffix), name)
		}
	})
}

func TestNamesOfAUnit(t *testing.T) {
	for name, want := range map[string]struct{ files, dropIns []string }{
		"gated.service":       {[]string{"gated.service"}, []string{"service", "gated.service"}},
		"gated@blue.service":  {[]string{"gated@blue.service", "gated@.service"}, []string{"service", "gated@blue.service", "gated@.service"}},
		"gate-a-b.service":    {[]string{"gate-a-b.service"}, []string{"service", "gate-a-b.service", "gate-a-.service", "gate-.service"}},
		"gate-a@b-c.service":  {[]string{"gate-a@b-c.service", "gate-a@.service"}, []string{"service", "gate-a@b-c.service", "gate-a@.service", "gate-@b-c.service", "gate-@.service"}},
		"gate-@.service":      {[]string{"gate-@.service"}, []string{"service", "gate-@.service"}},
		"-.service":           {[]string{"-.service"}, []string{"service", "-.service"}},
		"gated@a@b.c.service": {[]string{"gated@a@b.c.service", "gated@.service"}, []string{"service", "gated@a@b.c.service", "gated@.service"}},
	} {
		s := Service{Name: name}
		require.Equal(t, want.files, s.files())
		require.Equal(t, want.dropIns, s.dropIns())
	}
}

func TestWhereUnitsAre(t *testing.T) {
	none := func(string) string { return "" }
	system := searched(false, func(string) string { return "/elsewhere" })
	for _, dir := range []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"} {
		require.Contains(t, system, dir)
	}
	require.Equal(t, system, searched(false, none), "a user's variables mean nothing to the system's manager")
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			if i := slices.Index(kv, name); i >= 0 {
				return kv[i+1]
			}
			return ""
		}
	}
	users := searched(true, env("HOME", "/home/a"))
	for _, dir := range []string{"/home/a/.config/systemd/user", "/home/a/.config/systemd/user.control", "/home/a/.local/share/systemd/user", "/etc/systemd/user", "/usr/lib/systemd/user"} {
		require.Contains(t, users, dir)
	}
	users = searched(true, env("HOME", "/home/a", "XDG_CONFIG_HOME", "/c", "XDG_RUNTIME_DIR", "/run/user/7"))
	require.Contains(t, users, "/c/systemd/user")
	require.Contains(t, users, "/run/user/7/systemd/transient")
	require.NotContains(t, users, "/home/a/.config/systemd/user")
	require.Contains(t, searched(true, env("HOME", "/home/a", "XDG_CONFIG_HOME", "c")), "/home/a/.config/systemd/user")
	for _, dir := range append(searched(true, none), system...) {
		require.True(t, filepath.IsAbs(dir), dir)
	}
}

// place is a directory with a unit file, a drop-in and the service's cgroup.
func place(t *testing.T, service string) (p Place, dir string) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "system")
	require.NoError(t, os.Mkdir(dir, 0o755))
	p = Place{Cgroup: filepath.Join(base, "cgroup"), Dirs: []string{filepath.Join(base, "none"), dir}}
	require.NoError(t, os.WriteFile(p.Cgroup, []byte("0::/system.slice/"+service+"\n"), 0o644))
	return p, dir
}

// TestEachFileOfAUnit: each file is refused if its group may write to it.
func TestEachFileOfAUnit(t *testing.T) {
	for _, at := range []string{".", "gate-a@b.service", "gate-a@.service", "gate-a@b.service.d", "gate-a@b.service.d/x.conf", "gate-a@.service.d/x.conf",
		"gate-@.service.d/x.conf", "service.d", "service.d/x.conf", "gate-a@b.socket", "gate-a@.socket", "gate-a@b.socket.d/x.conf",
		"socket.d", "socket.d/x.conf"} {
		t.Run(at, func(t *testing.T) {
			p, dir := place(t, "gate-a@b.service")
			s := must.Get(p.Service())(t)
			require.NoError(t, s.Check(ownfile.Own()), "nothing is there")
			path := filepath.Join(dir, at)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			if strings.HasSuffix(at, ".conf") || strings.HasSuffix(at, suffix) || strings.HasSuffix(at, ".socket") {
				require.NoError(t, os.WriteFile(path, []byte("[Service]\n"), 0o644))
			} else {
				require.NoError(t, os.MkdirAll(path, 0o755))
			}
			require.NoError(t, s.Check(ownfile.Own()))
			info := must.Get(os.Stat(path))(t)
			require.NoError(t, os.Chmod(path, info.Mode().Perm()|0o020))
			r := refusal.As(s.Check(ownfile.Own()))
			require.Equal(t, refusal.NotAllowed, r.Code)
			require.Contains(t, r.Detail, path+" may be written by the group ")
			require.True(t, strings.HasSuffix(r.Hint, "chmod go-w "+path), r.Hint)
		})
	}
}

// TestWhatIsNoPartOfAUnit: other units' files, masked files, and files that systemd does not
// read.
func TestWhatIsNoPartOfAUnit(t *testing.T) {
	p, dir := place(t, "gated.service")
	for _, name := range []string{"other.service", "gated.service.d/README", "gated.service.d/x.conf.bak", "other.socket", "gated@.service"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chmod(path, 0o666))
	}
	for _, name := range []string{"gated.service", "gated.service.d/10-masked.conf"} {
		require.NoError(t, os.Symlink(os.DevNull, filepath.Join(dir, name)))
	}
	s := must.Get(p.Service())(t)
	require.NoError(t, s.Check(ownfile.Own()))

	free := filepath.Join(filepath.Dir(dir), "linked")
	require.NoError(t, os.WriteFile(free, nil, 0o644))
	require.NoError(t, os.Chmod(free, 0o666))
	require.NoError(t, os.Symlink(free, filepath.Join(dir, "gated.service.d", "20-linked.conf")))
	require.ErrorContains(t, s.Check(ownfile.Own()), free+" may be written by others (mode 0666)")
}

func TestNoUnit(t *testing.T) {
	require.Empty(t, must.Get(Place{Cgroup: filepath.Join(t.TempDir(), "none")}.Service())(t).Name)
	require.NoError(t, Service{dirs: []string{"/proc/self/fd/none"}}.Check(ownfile.Own()))
	must.Err(Place{Cgroup: t.TempDir()}.Service())(t)
	must.Get(Place{}.Service())(t)
}
