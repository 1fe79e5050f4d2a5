package headroom

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// disk is a test's file system, with a real reserve file.
type disk struct{ free, size int64 }

func newRoom(t *testing.T, d *disk, o Options) *Room {
	t.Helper()
	dir := t.TempDir()
	r, err := Open(dir, filepath.Join(dir, "reserve"), Options{Free: func(string) (int64, int64, error) { return d.free, d.size, nil }})
	require.NoError(t, err)
	require.NoError(t, r.Configure(o))
	return r
}

func (r *Room) size(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(r.path)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	return info.Size()
}

func TestUnsignedWorkStopsAtTheThreshold(t *testing.T) {
	d := &disk{free: 100 << 20, size: 1 << 30}
	r := newRoom(t, d, Options{Keep: 10 << 20})
	const bytes = 1 << 20
	d.free = 10<<20 + growth*bytes
	require.NoError(t, r.Admit(bytes), "at the threshold")
	require.ErrorIs(t, r.Admit(1), refusal.Unavailable, "what was admitted counts before the disk shows it")
	r.Committed()
	require.NoError(t, r.Admit(bytes))
	r.Committed()
	d.free--
	require.ErrorIs(t, r.Admit(bytes), refusal.Unavailable, "one byte below")
	d.free += 2
	require.NoError(t, r.Admit(bytes), "above")
}

func TestDefaultsFitTheDisk(t *testing.T) {
	for _, c := range []struct{ size, keep, reserve int64 }{
		{16 << 20, 2 << 20, 2 << 20}, {512 << 20, 64 << 20, 64 << 20}, {1 << 40, maxKeep, maxReserve},
	} {
		r := newRoom(t, &disk{free: c.size, size: c.size}, Options{Keep: -1, Reserve: -1})
		s := must.Get(r.State())(t)
		require.Equal(t, State{Free: c.size, Keep: c.keep, Reserve: c.reserve, Whole: c.reserve}, s)
		require.Equal(t, c.reserve, r.size(t))
	}
}

func TestTheReserveIsGivenBackInSlices(t *testing.T) {
	d := &disk{free: 100 << 20, size: 1 << 30}
	r := newRoom(t, d, Options{Keep: 1 << 20, Reserve: 2*slice + 1})
	require.False(t, r.Make(false), "there is room")
	d.free = slice
	require.False(t, r.Make(false), "a slice is free")
	d.free = slice - 1
	for _, left := range []int64{slice + 1, 1, 0} {
		require.True(t, r.Make(false))
		require.Equal(t, left, r.size(t))
	}
	require.False(t, r.Make(false), "nothing is left")
	require.False(t, r.Make(true))

	d.free = 1<<20 + 2*slice
	require.NoError(t, r.Refill())
	require.Zero(t, r.size(t), "too little is free to take it back")
	d.free++
	require.NoError(t, r.Refill())
	require.Equal(t, int64(2*slice+1), r.size(t))
	require.True(t, r.Make(true), "a write failed, whatever is said to be free")
}

func TestTheReserveSurvivesARestart(t *testing.T) {
	d := &disk{free: 100 << 20, size: 1 << 30}
	r := newRoom(t, d, Options{Reserve: 3 * slice})
	require.True(t, r.Make(true))
	again := must.Get(Open(r.dir, r.path, Options{Free: r.free}))(t)
	d.free = 0
	require.True(t, again.Make(false), "before it is configured")
	require.Equal(t, int64(slice), again.size(t))
	d.free = 100 << 20
	require.NoError(t, again.Configure(Options{Reserve: slice / 2}))
	require.Equal(t, int64(slice/2), again.size(t), "a smaller one is cut")
}

func TestTheReserveIsAnOrdinaryFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "reserve")
	require.NoError(t, os.Symlink("/etc/passwd", path))
	must.Fail(Open(dir, path, Options{}))(t, refusal.NotAllowed)
}

// This uses the kernel's own answer, and space that is really allocated.
func TestTheReserveTakesSpace(t *testing.T) {
	dir := t.TempDir()
	r := must.Get(Open(dir, filepath.Join(dir, "reserve"), Options{}))(t)
	require.NoError(t, r.Configure(Options{Reserve: 4 << 20}))
	info := must.Get(os.Stat(r.path))(t)
	require.GreaterOrEqual(t, blocks(info), int64(4<<20))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// blocks returns how many bytes of the disk a file takes.
func blocks(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return 0
}
