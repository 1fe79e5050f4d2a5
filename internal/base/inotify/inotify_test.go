package inotify

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// folder is a watched directory.
type folder struct {
	*Watch
	t    *testing.T
	path string
}

func newFolder(t *testing.T) *folder {
	f := &folder{t: t, path: t.TempDir()}
	f.Watch = must.Get(New(func(name string) bool { return !strings.HasPrefix(name, ".") }))(t)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	_, all := f.take()
	require.False(t, all, "nothing was watched before")
	return f
}

func (f *folder) take() (map[string]bool, bool) {
	f.t.Helper()
	dir := must.Get(os.Open(f.path))(f.t)
	defer dir.Close()
	return f.Take(f.path, dir)
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

func (f *folder) announced() {
	f.t.Helper()
	select {
	case <-f.Changed():
	case <-time.After(time.Minute):
		f.t.Fatal("no change was announced")
	}
}

func TestAFileCountsWhenItsWriterClosedIt(t *testing.T) {
	f := newFolder(t)
	w := must.Get(os.Create(f.file("a")))(t)
	must.Get(w.WriteString("half"))(t)
	require.True(t, f.Writing("a"))
	events, all := f.take()
	require.True(t, all)
	require.Empty(t, events, "half of it is nothing")
	require.NoError(t, w.Close())
	f.announced()
	require.False(t, f.Writing("a"))
	events, all = f.take()
	require.True(t, all)
	require.Equal(t, map[string]bool{"a": true}, events)
}

func TestWhatComesAndGoesByRename(t *testing.T) {
	f := newFolder(t)
	require.NoError(t, os.WriteFile(f.file(".tmp"), []byte("whole"), 0o600))
	events, _ := f.take()
	require.Empty(t, events, "it is not about this one")
	require.NoError(t, os.Rename(f.file(".tmp"), f.file("a")))
	f.announced()
	events, _ = f.take()
	require.Equal(t, map[string]bool{"a": true}, events)
	require.NoError(t, os.Remove(f.file("a")))
	f.announced()
	events, _ = f.take()
	require.Equal(t, map[string]bool{"a": true}, events)
}

// TestWhatIsGoneUntilItIsWhole: an editor moves the file away and makes a new one. The new file
// does not count before it is closed.
func TestWhatIsGoneUntilItIsWhole(t *testing.T) {
	f := newFolder(t)
	require.NoError(t, os.WriteFile(f.file("a"), []byte("whole"), 0o600))
	require.False(t, f.Gone("a"))
	require.NoError(t, os.Rename(f.file("a"), f.file("a~")))
	require.True(t, f.Gone("a"))
	w := must.Get(os.Create(f.file("a")))(t)
	require.True(t, f.Gone("a"), "it was not even written to")
	must.Get(w.WriteString("half"))(t)
	require.True(t, f.Gone("a"))
	require.True(t, f.Writing("a"))
	require.NoError(t, w.Close())
	require.False(t, f.Gone("a"))

	require.NoError(t, os.Remove(f.file("a")))
	require.True(t, f.Gone("a"))
	require.NoError(t, os.Rename(f.file("a~"), f.file("a")))
	require.False(t, f.Gone("a"))

	f.mu.Lock()
	for i := range maxGone + 1 {
		f.went(strconv.Itoa(i), true)
	}
	require.LessOrEqual(t, len(f.gone), maxGone)
	f.mu.Unlock()
}

// If the kernel dropped events, or if the directory is another one, some changes are not known.
func TestLostEventsAreSaid(t *testing.T) {
	f := newFolder(t)
	require.EqualValues(t, 0x4000, unix.IN_Q_OVERFLOW)
	overflow := make([]byte, unix.SizeofInotifyEvent)
	copy(overflow, []byte{0xff, 0xff, 0xff, 0xff, 0, 0x40}) // watch -1, IN_Q_OVERFLOW
	require.NoError(t, os.WriteFile(f.file("a"), nil, 0o600))
	f.announced()
	f.mu.Lock()
	f.parse(overflow)
	f.mu.Unlock()
	events, all := f.take()
	require.False(t, all)
	require.Empty(t, events)
	_, all = f.take()
	require.True(t, all)

	require.NoError(t, os.Rename(f.path, f.path+"-moved"))
	require.NoError(t, os.Mkdir(f.path, 0o700))
	_, all = f.take()
	require.False(t, all, "the path leads to another directory")
}
