package server

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

func listen(t *testing.T, path string, gid int) *Socket {
	t.Helper()
	s, err := Listen(path, gid)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// alone checks that nothing but the named files is left beside the socket, and
// the lock that stays.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func connects(t *testing.T, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestSocketMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // even so
	dir := t.TempDir()
	for name, c := range map[string]struct {
		gid  int
		mode fs.FileMode
	}{"own": {-1, 0o600}, "group": {os.Getgid(), 0o660}} {
		path := filepath.Join(dir, name)
		listen(t, path, c.gid)
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, fs.ModeSocket|c.mode, info.Mode(), name)
		connects(t, path)
	}
	alone(t, dir, "own", "group")
}

func TestSocketDirectoryIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gated")
	listen(t, filepath.Join(dir, "s"), -1)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())

	_, err = Listen(filepath.Join(dir, "no", "such", "s"), -1)
	requireNoPlace(t, err, "no such file")
	requireNoPlace(t, CheckPlace(filepath.Join(dir, "no", "such", "s")), "no such file")
	require.NoError(t, CheckPlace(filepath.Join(dir, "s")))
	require.NoError(t, CheckPlace(filepath.Join(dir, "one", "s")), "that level is made")
	require.NoDirExists(t, filepath.Join(dir, "one"))
}

// requireNoPlace: the refusal of a place names one that every user has.
func requireNoPlace(t *testing.T, err error, what string) {
	t.Helper()
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, what)
	require.Contains(t, refusal.As(err).Hint, "export GATED_SOCKET=$HOME/.gated.sock")
}

// A user without a runtime directory cannot write where root's daemon listens. The
// refusal says what to do, and the check before it says the same. The thread that
// becomes another user ends with its goroutine.
func TestSocketWhereItsUserMayNotWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	dir, err := os.MkdirTemp("/tmp", "gated-place")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	var made, locked, before error
	done := make(chan error)
	var become func()
	become = func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() { // the main thread does not end, and other tests would find that user in /proc
			another := make(chan struct{})
			go func() { defer close(another); become() }()
			<-another
			runtime.UnlockOSThread()
			return
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534)
		if errno == 0 {
			_, made = Listen(filepath.Join(dir, "gated", "s"), -1)
			_, locked = Listen(filepath.Join(dir, "s"), -1)
			before = CheckPlace(filepath.Join(dir, "gated", "s"))
		}
		done <- errno
	}
	go become()
	require.Equal(t, syscall.Errno(0), <-done)
	for _, err := range []error{made, locked, before} {
		requireNoPlace(t, err, "permission denied")
	}
}

func TestH02PathTakenByAFile(t *testing.T) {
	for kind, make := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("mine"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"symlink":   func(p string) error { return os.Symlink("elsewhere", p) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "s")
		require.NoError(t, make(path))
		before, err := os.Lstat(path)
		require.NoError(t, err)
		_, err = Listen(path, -1)
		require.ErrorIs(t, err, refusal.Conflict, kind)
		require.ErrorContains(t, err, "is not a socket")
		after, err := os.Lstat(path)
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after), kind)
		alone(t, dir, "s")
	}
}

func TestH02PathTakenByALiveDaemon(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	first := listen(t, path, -1)
	_, err := Listen(path, -1)
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "another daemon listens")
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, first.made))
	connects(t, path)
	alone(t, dir, "s")
}

func TestH02DeadSocketIsTakenAway(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	require.FileExists(t, path)
	listen(t, path, -1)
	connects(t, path)
	alone(t, dir, "s")
}

func TestH02PathLength(t *testing.T) {
	// The directory's own path is longer than a socket's may be by two.
	dir := t.TempDir()
	name := func(total int) string {
		return filepath.Join(dir, strings.Repeat("x", total-len(dir)-1))
	}
	require.Less(t, len(dir), MaxSocketPath-3)
	for _, n := range []int{MaxSocketPath - 1, MaxSocketPath} {
		listen(t, name(n), -1)
		connects(t, name(n))
	}
	_, err := Listen(name(MaxSocketPath+1), -1)
	require.ErrorIs(t, err, refusal.Malformed)
	require.ErrorContains(t, err, "107")
	require.NoFileExists(t, name(MaxSocketPath+1))

	_, err = Listen("relative.sock", -1)
	require.ErrorIs(t, err, refusal.Malformed)
}

// Of many that start at once on one dead socket, one gets it.
func TestH02OneOfManyStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	var wg sync.WaitGroup
	got := make(chan *Socket, 16)
	for range 16 {
		wg.Go(func() {
			if s, err := Listen(path, -1); err == nil {
				got <- s
			}
		})
	}
	wg.Wait()
	close(got)
	n := 0
	for s := range got {
		n++
		connects(t, path)
		require.NoError(t, s.Close())
	}
	require.Equal(t, 1, n)
}

func TestCloseLeavesAnotherSocketAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(path, -1)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	listen(t, path, -1)
	require.NoError(t, first.Close())
	connects(t, path)
}

// Serve closes its listener, and the end of the listener makes net/http close it, too.
func TestSocketClosedTwiceAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 200 {
		s, err := Listen(path, -1)
		require.NoError(t, err)
		var first, second error
		var both sync.WaitGroup
		both.Go(func() { first = s.Close() })
		both.Go(func() { second = s.Close() })
		both.Wait()
		require.NoError(t, first)
		require.NoError(t, second)
		require.NoFileExists(t, path)
	}
}
