package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// faultDir tells a child process of these tests where to work. Limits and
// filters hold for a whole process, so faults of the system need one each.
const faultDir = "GATED_TEST_FAULT_DIR"

// inChild runs one test of this binary in a process of its own, which leaves
// without closing its store, as a crash would. It returns the directory.
func inChild(t *testing.T, name string) (dir string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), faultDir+"="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+name)
	return dir
}

// H03: a limit on the size of files makes writes to the WAL fail at whatever
// byte the limit is, in the middle of a COMMIT too.
func TestWriteErrors(t *testing.T) {
	dir := inChild(t, "TestWriteErrorsChild")
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	require.NoError(t, err)
	have := keys(t, open(t, filepath.Join(dir, "gated.db"), Options{}))
	want := map[string]bool{}
	for i, c := range told {
		if c == '1' {
			want[fmt.Sprint(i)] = true
		}
	}
	require.Equal(t, want, have)
	require.Contains(t, string(told), "0")
	require.Contains(t, string(told), "01", "it works again when there is room")
}

func TestWriteErrorsChild(t *testing.T) {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return // the work of TestWriteErrors
	}
	signal.Ignore(unix.SIGXFSZ)
	path := filepath.Join(dir, "gated.db")
	s, err := Open(context.Background(), path, Options{Migrations: schema})
	require.NoError(t, err)
	limit := func(n uint64) {
		var was unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: was.Max}))
	}
	var told []byte
	for i := range 300 {
		wal, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		if i%3 == 0 {
			limit(uint64(wal.Size()) + uint64(i*97%16384)) // anywhere within the next frames
		}
		err = s.Update(context.Background(), put(fmt.Sprint(i)))
		limit(unix.RLIM_INFINITY)
		if err == nil {
			told = append(told, '1')
		} else {
			require.ErrorIs(t, err, ErrUnavailable)
			told = append(told, '0')
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "told"), told, 0o600))
}

// H03: when fsync fails, the WAL may hold a complete commit that nobody was
// told of. Recovery after a crash must not find it.
func TestSyncErrors(t *testing.T) {
	dir := inChild(t, "TestSyncErrorsChild")
	require.Equal(t, map[string]bool{"before": true}, keys(t, open(t, filepath.Join(dir, "gated.db"), Options{})))
}

func TestSyncErrorsChild(t *testing.T) {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return // the work of TestSyncErrors
	}
	s, err := Open(context.Background(), filepath.Join(dir, "gated.db"), Options{Migrations: schema})
	require.NoError(t, err)
	require.NoError(t, s.Update(context.Background(), put("before")))
	failSyncs(t)
	require.ErrorIs(t, s.Update(context.Background(), put("after")), ErrUnavailable)
	require.Equal(t, map[string]bool{"before": true}, keys(t, s))
}

// failSyncs makes every fsync and fdatasync of this process fail with EIO,
// for good, by a seccomp filter.
func failSyncs(t *testing.T) {
	fail := uint32(unix.SECCOMP_RET_ERRNO | unix.EIO)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: fail},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	r1, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	require.Zero(t, errno)
	require.Zero(t, r1, "a thread that could not be filtered")
}
