package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"gated/internal/base/seccomp"
	"gated/internal/test/must"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// escapeArg makes this program try to get out of a guest.
const escapeArg = "try-to-escape"

// outside tells a guest's program about the host, so that it need not guess.
type outside struct {
	State  string // a gate's state directory, only for the daemon
	Other  string // another guest's data
	Public string // a directory in which every user may do everything; Landlock does not allow it
	Daemon int    // pid
	Guest  int    // pid of the other guest
}

// attempt is one way out. Its layer is the one that alone refuses it on the newest kernel. If
// two layers refuse it, layer is empty.
type attempt struct {
	name  string
	layer string
	try   func(outside) error
}

// The layers, as status names them.
const (
	byUID      = "uid"
	byLandlock = "landlock"
	bySeccomp  = "seccomp"
	// It is also seccomp's if the kernel would allow it to an ordinary user.
	bySeccompIfAny = "seccomp, if the kernel lets anybody"
)

func key(o outside) string { return filepath.Join(o.State, "gate.key") }

var attempts = []attempt{
	{"chmod the state directory", byUID, func(o outside) error { return unix.Chmod(o.State, 0o777) }},
	{"chmod the database", byUID, func(o outside) error { return unix.Chmod(o.State+"/gated.db", 0o666) }},
	{"chmod the key", byUID, func(o outside) error { return unix.Chmod(key(o), 0o666) }},
	{"fchmodat the key", byUID, func(o outside) error { return unix.Fchmodat(unix.AT_FDCWD, key(o), 0o666, 0) }},
	{"chown the key", byUID, func(o outside) error { return unix.Lchown(key(o), os.Geteuid(), os.Getegid()) }},
	{"date the key", byUID, func(o outside) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, key(o), []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	}},
	{"label the key", byUID, func(o outside) error { return unix.Setxattr(key(o), "user.escape", []byte("x"), 0) }},
	{"chmod another guest's data", byUID, func(o outside) error { return unix.Chmod(o.Other, 0o777) }},
	// These two also need the daemon's capabilities.
	{"slow the daemon down", "", func(o outside) error {
		now, err := unix.Getpriority(unix.PRIO_PROCESS, o.Daemon)
		return errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, o.Daemon, 20-now)) // to its current value
	}},
	{"pin the daemon", "", func(o outside) error {
		var set unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(0, &set), unix.SchedSetaffinity(o.Daemon, &set))
	}},

	{"read the key", "", func(o outside) error { _, err := os.ReadFile(key(o)); return err }},
	{"write the key", "", func(o outside) error { return os.WriteFile(key(o), []byte("mine"), 0o600) }},
	{"truncate the key", "", func(o outside) error { return unix.Truncate(key(o), 0) }},
	{"empty the key while reading", "", func(o outside) error { return opened(key(o), unix.O_RDONLY|unix.O_TRUNC) }},
	{"link the key", "", func(o outside) error { return os.Link(key(o), "key") }},
	{"move the database", "", func(o outside) error { return os.Rename(o.State+"/gated.db", "db") }},
	{"delete the database", "", func(o outside) error { return os.Remove(o.State + "/gated.db") }},
	{"list another guest's data", "", func(o outside) error { _, err := os.ReadDir(o.Other); return err }},
	{"write another guest's data", "", func(o outside) error { return os.WriteFile(o.Other+"/file", nil, 0o600) }},
	{"reach another guest's data through its process", "", func(o outside) error {
		return unix.Chmod(fmt.Sprintf("/proc/%d/cwd", o.Guest), 0o777)
	}},
	{"connect to the daemon's socket", "", func(o outside) error { return dialled(o.State + "/socket") }},
	{"signal the daemon", "", func(o outside) error { return unix.Kill(o.Daemon, 0) }},
	{"signal another guest", "", func(o outside) error { return unix.Kill(o.Guest, 0) }},
	{"signal the daemon by a pidfd", "", func(o outside) error {
		fd, err := unix.PidfdOpen(o.Daemon, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGURG, nil, 0)
	}},
	{"limit the daemon", "", func(o outside) error {
		return unix.Prlimit(o.Daemon, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit))
	}},
	{"trace the daemon", "", func(o outside) error { return unix.PtraceSeize(o.Daemon) }},
	{"trace another guest", "", func(o outside) error { return unix.PtraceSeize(o.Guest) }},
	{"read the daemon's memory", "", func(o outside) error {
		b := make([]byte, 1)
		at := uintptr(unsafe.Pointer(&b[0]))
		_, err := unix.ProcessVMReadv(o.Daemon, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: at, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // it may read, but there is nothing to read
		}
		return err
	}},
	{"read the daemon's environment", "", func(o outside) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", o.Daemon))
		return err
	}},
	{"take a descriptor of the daemon", "", func(o outside) error {
		fd, err := unix.PidfdOpen(o.Daemon, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	}},

	{"read what everybody may", byLandlock, func(o outside) error { _, err := os.ReadFile(o.Public + "/file"); return err }},
	{"write what everybody may", byLandlock, func(o outside) error { return opened(o.Public+"/file", unix.O_WRONLY) }},
	{"leave a file where everybody may", byLandlock, func(o outside) error {
		return os.WriteFile(o.Public+"/left-"+strconv.Itoa(os.Getpid()), nil, 0o600)
	}},
	{"run a program from elsewhere", byLandlock, func(o outside) error { return exec.Command(o.Public + "/program").Run() }},
	{"look at processes", byLandlock, func(outside) error { _, err := os.ReadFile("/proc/self/status"); return err }},

	{"truncate what everybody may write", "", func(o outside) error { return unix.Truncate(o.Public+"/file", 0) }},
	{"empty while reading", "", func(o outside) error { return opened(o.Public+"/file", unix.O_RDONLY|unix.O_TRUNC) }},
	{"empty while opening for nothing", "", func(o outside) error { return opened(o.Public+"/file", unix.O_ACCMODE|unix.O_TRUNC) }},
	{"empty by openat2", "", func(o outside) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, o.Public+"/file", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_TRUNC})
		_ = unix.Close(fd)
		return err
	}},

	{"connect to a socket for everybody", bySeccomp, func(o outside) error { return dialled(o.Public + "/socket") }},
	{"use keys", bySeccomp, func(outside) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	}},
	{"trace a child", bySeccomp, func(outside) error {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			return err
		}
		err := unix.PtraceSeize(cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the test killed it
		return err
	}},
	{"limits by pid", bySeccomp, func(outside) error {
		return unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, nil, new(unix.Rlimit))
	}},
	{"a user namespace", bySeccompIfAny, func(outside) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"userfaultfd", bySeccompIfAny, func(outside) error {
		const userModeOnly = 1
		_, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, userModeOnly, 0, 0)
		return orNil(errno)
	}},
	{"io_uring", bySeccompIfAny, func(outside) error {
		params := make([]byte, 120)
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		return orNil(errno)
	}},
	{"bpf", bySeccompIfAny, func(outside) error {
		attr := [16]uint32{1, 4, 4, 1} // a map of one element: BPF_MAP_TYPE_HASH
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		return orNil(errno)
	}},
	{"vsock", bySeccompIfAny, func(outside) error {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	}},
	{"mount", "", func(outside) error { return unix.Mount("none", ".", "tmpfs", 0, "") }},
	{"chroot", "", func(outside) error { return unix.Chroot(".") }},
}

// allowed are the things that a guest's program must be able to do in its own data.
var allowed = []attempt{
	{"chmod own files", "", func(outside) error { return os.Chmod("mine", 0o640) }},
	{"date own files", "", func(outside) error { return os.Chtimes("mine", time.Unix(1, 0), time.Unix(1, 0)) }},
	{"shrink own files", "", func(outside) error {
		f, err := os.OpenFile("mine", os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(0), f.Close())
	}},
	{"a child", "", func(outside) error { return exec.Command("/bin/sh", "-c", "kill -0 $$ && cat mine").Run() }},
	{"a network socket", "", func(outside) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return l.Close()
	}},
	{"a pair of sockets", "", func(outside) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	}},
}

func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	_ = unix.Close(fd)
	return err
}

func dialled(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

// escape is a guest's program that tries everything and then stays. It writes the results into
// its data.
func escape(arg string) int {
	runtime.LockOSThread() // tracing and priorities belong to a thread
	var o outside
	err := json.Unmarshal([]byte(arg), &o)
	if err == nil {
		err = os.WriteFile("mine", []byte("x"), 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	said := &strings.Builder{}
	for _, a := range slices.Concat(attempts, allowed) {
		fmt.Fprintf(said, "%s: %v\n", a.name, a.try(o))
	}
	if err := errors.Join(os.WriteFile("results.new", []byte(said.String()), 0o600), os.Rename("results.new", "results")); err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

// tried starts a guest that tries to escape. It returns the error of each attempt by name; a
// success is "<nil>".
func tried(t *testing.T, without layers, version int) (map[string]string, *world) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "escape") // unlike a test's own directory, its parents are open to every user
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	o := outside{State: dir + "/state", Public: dir + "/public", Daemon: os.Getpid()}
	for _, d := range []string{o.State, o.Public} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	for _, f := range []string{"gated.db", "gate.key"} {
		require.NoError(t, os.WriteFile(filepath.Join(o.State, f), []byte("precious"), 0o600))
	}
	require.NoError(t, os.Chmod(o.Public, 0o777))
	require.NoError(t, os.WriteFile(o.Public+"/file", []byte("everybody's"), 0o666))
	require.NoError(t, os.Chmod(o.Public+"/file", 0o666))
	require.NoError(t, os.WriteFile(o.Public+"/program", []byte("#!/bin/sh\n"), 0o755))
	for path, mode := range map[string]fs.FileMode{o.State + "/socket": 0o600, o.Public + "/socket": 0o666} {
		l := must.Get(net.Listen("unix", path))(t)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, os.Chmod(path, mode))
	}
	self := must.Get(os.ReadFile("/proc/self/exe"))(t)
	program := dir + "/program"
	require.NoError(t, os.WriteFile(program, self, 0o755))
	for _, path := range []string{program, o.Public + "/program"} {
		require.NoError(t, os.Chmod(path, 0o755)) // in spite of the umask
	}

	w := newWorld(t, func(c *Config) { c.without, c.landlock, c.Root = without, version, dir+"/guests" })
	w.root = w.cfg.Root
	w.do("create", "other", "command", "sleep", "state", "running")
	w.waitUp("other")
	o.Other, o.Guest = w.path("other", dataDir), w.process("other").run.PID
	arg := must.Get(json.Marshal(o))(t)
	w.d.cfg.Commands = map[string]Command{"escape": {Argv: []string{program, escapeArg, string(arg)}}}
	w.do("create", "web", "command", "escape", "state", "running")
	waitFor(t, "it has tried everything", func() bool {
		_, err := os.Stat(w.path("web", dataDir, "results"))
		return err == nil || w.d.procs.get(w.observe("web").Incarnation) == nil
	})
	got := map[string]string{}
	for line := range strings.Lines(w.content("web", dataDir, "results")) {
		name, how, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		got[name] = how
	}
	for _, a := range allowed {
		require.Equal(t, "<nil>", got[a.name], a.name)
	}
	return got, w
}

// succeeded are the attempts that worked.
func succeeded(t *testing.T, got map[string]string) []string {
	var out []string
	for _, a := range attempts {
		require.Contains(t, got, a.name, "it was not tried")
		if got[a.name] == "<nil>" {
			out = append(out, a.name)
		}
	}
	return out
}

func byLayer(layer string) []string {
	var out []string
	for _, a := range attempts {
		if a.layer == layer {
			out = append(out, a.name)
		}
	}
	return out
}

func needLayers(t *testing.T) {
	needUIDs(t)
	needLandlock(t)
	if !seccomp.Supported() {
		t.Skipf("%s needs seccomp", t.Name())
	}
}

// TestNoEscape: a guest's program tries to reach the gate and other guests. It runs with the
// kernel's own Landlock and with older ones.
func TestNoEscape(t *testing.T) {
	needLayers(t)
	for _, version := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("landlock %d", version), func(t *testing.T) {
			got, _ := tried(t, layers{}, version)
			require.Empty(t, succeeded(t, got))
		})
	}
}

// TestEachLayerStands: without one layer, exactly those attempts succeed that only this layer
// refuses. So each layer is there and is tested.
func TestEachLayerStands(t *testing.T) {
	needLayers(t)
	t.Run(byUID, func(t *testing.T) {
		got, _ := tried(t, layers{uid: true}, 0)
		require.Equal(t, byLayer(byUID), succeeded(t, got))
	})
	t.Run(byLandlock, func(t *testing.T) {
		got, _ := tried(t, layers{landlock: true}, 0)
		require.Equal(t, byLayer(byLandlock), succeeded(t, got))
	})
	t.Run(bySeccomp, func(t *testing.T) {
		got, w := tried(t, layers{seccomp: true}, 0)
		want := byLayer(bySeccomp)
		if w.d.landlock >= seccomp.LandlockConnects {
			want = want[1:]
		}
		if w.d.landlock < seccomp.LandlockTruncates {
			t.Skip("the kernel's Landlock is the older one of the next test")
		}
		through := slices.DeleteFunc(succeeded(t, got), func(name string) bool { return slices.Contains(byLayer(bySeccompIfAny), name) })
		require.Equal(t, want, through)
	})
	t.Run("seccomp, behind an older Landlock", func(t *testing.T) {
		got, _ := tried(t, layers{seccomp: true}, seccomp.LandlockTruncates-1)
		for _, name := range []string{"truncate what everybody may write", "empty while opening for nothing"} {
			require.Equal(t, "<nil>", got[name], name)
		}
	})
}
