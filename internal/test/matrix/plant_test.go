package matrix_test

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// plant makes a guest by other hands than the gate's, as an intruder with the
// daemon's rights, or an administrator, could: sound, and unknown to the journal.
func (w *world) plant(name string) {
	w.t.Helper()
	uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint64()&0xffffffffffff)
	w.plantAs(name, uuid)
}

// plantAs is plant with a uuid of the intruder's choice.
func (w *world) plantAs(name, uuid string) {
	w.t.Helper()
	for _, sub := range []string{"data", "snapshots"} {
		require.NoError(w.t, os.MkdirAll(w.path(name, sub), 0o700))
	}
	var st unix.Statx_t
	require.NoError(w.t, unix.Statx(unix.AT_FDCWD, w.path(name), 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st))
	w.write(fmt.Sprintf(`{"uuid":%q,"inode":%d,"birth_ns":%d,"memory_mib":0,"cpus":0,"command":"","labels":{},"protected":false,`+
		`"created_at":"2026-02-01T00:00:00Z"}`+"\n", uuid, st.Ino, st.Btime.Sec*1e9+int64(st.Btime.Nsec)), name, "guest.json")
	w.write("planted in "+name+" "+hex.EncodeToString([]byte(uuid)), name, "data", "real.db")
}

// vanish removes a guest out of band.
func (w *world) vanish(name string) {
	w.t.Helper()
	require.NoError(w.t, os.RemoveAll(w.path(name)))
}

// edit changes a file in place.
func (w *world) edit(old, new string, elem ...string) {
	w.t.Helper()
	b := must.Get(os.ReadFile(w.path(elem...)))(w.t)
	require.Contains(w.t, string(b), old)
	require.NoError(w.t, os.WriteFile(w.path(elem...), []byte(strings.Replace(string(b), old, new, 1)), 0o600))
}

// copyOver copies one file over another.
func (w *world) copyOver(from, to string) (putBack func()) {
	w.t.Helper()
	old := must.Get(os.ReadFile(w.path(to)))(w.t)
	b := must.Get(os.ReadFile(w.path(from)))(w.t)
	require.NoError(w.t, os.WriteFile(w.path(to), b, 0o600))
	return func() { require.NoError(w.t, os.WriteFile(w.path(to), old, 0o600)) }
}

// bind mounts one directory over another, where the test may.
func (w *world) bind(from, at string) (unmount func()) {
	w.t.Helper()
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		w.t.Skipf("needs mount(2) with CAP_SYS_ADMIN: %v", err)
	}
	gone := false
	unmount = func() {
		if !gone {
			gone = true
			require.NoError(w.t, unix.Unmount(at, unix.MNT_DETACH))
		}
	}
	w.cleanup(unmount)
	return unmount
}

// swap exchanges two directory entries in one step.
func swap(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func mkdirs(w *world, elem ...string) string {
	w.t.Helper()
	path := w.path(elem...)
	require.NoError(w.t, os.MkdirAll(path, 0o700))
	return path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTree copies a directory as an intruder would with cp -r.
func (w *world) copyTree(from, to string) {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(w.path(from), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.path(from), path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(w.path(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(w.path(to, rel), b, 0o600)
	}))
}
