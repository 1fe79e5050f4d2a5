package local

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// copyFacts are the facts, by name, of a look for a step on a snapshot.
func (w *world) copyFacts(verb, snapshot string) (op.Observed, map[string]string) {
	w.t.Helper()
	o := must.Get(w.d.Observe(w.ctx, w.step(verb, "web", "snapshot", snapshot).Look()))(w.t)
	out := map[string]string{}
	for _, f := range o.Facts {
		require.NotContains(w.t, out, f.Name)
		require.True(w.t, op.Shows(f.Name+f.Text), f)
		out[f.Name] = f.Text
	}
	return o, out
}

// tick returns when the file system gives a new time, because the kernel's clock for file times
// is coarse.
func (w *world) tick() {
	w.t.Helper()
	path := w.t.(*testing.T).TempDir() + "/tick"
	changed := func() int64 {
		require.NoError(w.t, os.WriteFile(path, nil, 0o600))
		require.NoError(w.t, os.Chmod(path, 0o600))
		var st unix.Stat_t
		require.NoError(w.t, unix.Stat(path, &st))
		return st.Ctim.Nano()
	}
	for first := changed(); changed() == first; {
	}
}

// TestWhatARestoreTakesIsShown: the time and the size of the snapshot, and everything written
// since, even if the guest changed its files' times.
func TestWhatARestoreTakesIsShown(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("one", "web", dataDir, "a")
	w.write("two", "web", dataDir, "sub", "b")
	w.tick()
	began := time.Now()
	w.do("snapshot", "web", "snapshot", "s1")
	o, facts := w.copyFacts("restore", "s1")
	require.WithinRange(t, o.Copy.Made, began.Add(-time.Second), time.Now())
	require.Equal(t, "s1, taken "+timeText(o.Copy.Made), facts["snapshot"])
	holds := facts["snapshot holds"]
	require.Regexp(t, `^2 files, 6 B \((8|12)\.0 KiB on disk\)$`, holds, "a directory takes a block, and in memory none")
	require.Equal(t, "none of 2 files was written or changed since then; what was deleted since comes back", facts["overwritten"])

	// A guest sets a file's time back to before the snapshot.
	w.write("newer", "web", dataDir, "a")
	w.write("x", "web", dataDir, "c")
	long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	require.NoError(t, os.Chtimes(w.path("web", dataDir, "a"), long, long))
	_, facts = w.copyFacts("restore", "s1")
	require.Regexp(t, `^2 files \(6 B\) of 3, written or changed since then, the last \d{4}-`, facts["overwritten"])
	require.Equal(t, holds, facts["snapshot holds"], "the snapshot is as it was")
	require.NoError(t, os.Remove(w.path("web", dataDir, "c")))
	_, facts = w.copyFacts("restore", "s1")
	require.Regexp(t, `^1 file \(5 B\) of 2, written`, facts["overwritten"])

	_, facts = w.copyFacts("snapshot-delete", "s1")
	require.Contains(t, facts, "snapshot holds")
	require.NotContains(t, facts, "overwritten")
	o, facts = w.copyFacts("restore", "s2")
	require.Nil(t, o.Copy, "there is none of that name")
	require.NotContains(t, facts, "snapshot")
	require.Nil(t, w.observe("web").Copy)
}
