package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// fakeCgroups is a directory that looks like a cgroup v2 with these controllers. Unlike a real
// one, its groups have no files at first.
func fakeCgroups(t *testing.T, controllers string) string {
	t.Helper()
	root := t.TempDir()
	for file, content := range map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(content), 0o600))
	}
	return root
}

func TestOpenCgroups(t *testing.T) {
	for _, c := range []struct {
		controllers string
		memory, cpu bool
	}{{"cpuset cpu io memory pids\n", true, true}, {"memory\n", true, false}, {"cpu", false, true}, {"cpuset hugetlb", false, false}, {"", false, false}} {
		got := openCgroups(fakeCgroups(t, c.controllers))
		require.Equal(t, c.memory, got.memory, c.controllers)
		require.Equal(t, c.cpu, got.cpu, c.controllers)
		require.Equal(t, c.memory && c.cpu, got.why == "", got.why)
	}
	for _, root := range []string{"", t.TempDir(), "/nowhere"} {
		got := openCgroups(root)
		require.False(t, got.memory || got.cpu)
		require.NotEmpty(t, got.why)
		g := must.Get(got.group(spec{UUID: "u"}))(t)
		require.Empty(t, g)
		require.NoError(t, g.add(1))
		require.NoError(t, g.kill())
	}
}

func TestLimitsByCgroup(t *testing.T) {
	root := fakeCgroups(t, "cpu memory")
	w := newWorld(t, func(c *Config) { c.CgroupRoot = root })
	require.Equal(t, Status{Layers: w.d.Status().Layers, Memory: byCgroup, CPUs: byCgroup, Notes: w.d.Status().Notes}, w.d.Status())
	w.do("create", "web", "command", "sleep", "memory", int64(64), "cpus", int64(2), "state", "running")
	w.waitUp("web")
	p := w.process("web")
	file := func(name string) string {
		b := must.Get(os.ReadFile(filepath.Join(string(p.group), name)))(t)
		return string(b)
	}
	require.Equal(t, filepath.Join(root, "guest-"+w.observe("web").Birth), string(p.group))
	require.Equal(t, "67108864", file("memory.max"))
	require.Equal(t, "200000 100000", file("cpu.max"))
	require.Equal(t, p.run.PID, w.pidFile(string(p.group)+"/cgroup.procs"))
	require.Equal(t, "memory 64 MiB by cgroup; cpus 2 by cgroup", w.processFact("web", "limits"))
	limits := must.Get(os.ReadFile("/proc/" + strings.TrimSpace(file("cgroup.procs")) + "/limits"))(t)
	require.Regexp(t, `Max address space +unlimited`, string(limits), "no rlimit beside a cgroup")

	require.NoError(t, os.WriteFile(filepath.Join(string(p.group), "memory.stat"), []byte("anon 104857600\nfile 9999999999\nshmem 1\nanon_thp 5\n"), 0o600))
	require.EqualValues(t, 101, w.observe("web").MemoryUsed)
	w.do("set-config", "web", "memory", int64(128), "cpus", int64(1)) // takes effect at once
	require.Equal(t, "134217728", file("memory.max"))
	require.Equal(t, "100000 100000", file("cpu.max"))
	w.do("stop", "web")
	require.Equal(t, "1", file("cgroup.kill"))

	w.do("create", "free", "command", "sleep", "state", "running")
	p = w.process("free")
	require.Equal(t, "max", file("memory.max"))
	require.Equal(t, "max 100000", file("cpu.max"))
}

func (w *world) pidFile(path string) int {
	rel := must.Get(filepath.Rel(w.root, path))(w.t)
	return w.pidIn(rel)
}

// TestCgroupKill needs a real cgroup v2, with or without controllers.
func TestCgroupKill(t *testing.T) {
	needRoot(t, t.Name())
	var root string
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(mount + "/cgroup.controllers"); err == nil {
			root = mount + "/gated-test-" + strconv.Itoa(os.Getpid())
			break
		}
	}
	if root == "" || os.Mkdir(root, 0o755) != nil {
		t.Skipf("%s needs a writable cgroup v2", t.Name())
	}
	t.Cleanup(func() { _ = unix.Rmdir(root) })
	if _, err := os.Stat(root + "/cgroup.kill"); err != nil {
		t.Skipf("%s needs cgroup.kill: %v", t.Name(), err)
	}
	// This process leaves the session and empties its environment.
	w := newWorld(t, withCommand("web", sh("setsid env -i /bin/sleep 1002 & echo $! > stray; echo up > up; exec sleep 1000")),
		func(c *Config) { c.CgroupRoot = root })
	w.do("create", "web", "command", "web", "state", "running")
	w.waitUp("web")
	stray := w.pidIn("web", dataDir, "stray")
	waitFor(t, "the stray forgot", func() bool {
		sid, err := unix.Getsid(stray)
		env, unread := environ(stray)
		return err == nil && sid == stray && unread == nil && markIn(env) == ""
	})
	w.do("stop", "web")
	waitFor(t, "the stray is gone", func() bool { return !exists(stray) || zombie(stray) })
	require.NoError(t, unix.Rmdir(root), "the guest's group was removed")
}
