package reconcile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// folder is a directory source over files that tests write. Its clock is ahead
// of the files by more than they need to settle, unless a test says otherwise.
type folder struct {
	t     *testing.T
	path  string
	ahead time.Duration
	*Dir
}

func newFolder(t *testing.T) *folder {
	f := &folder{t: t, path: t.TempDir(), ahead: time.Hour}
	d := must.Get(NewDir(f.path, time.Minute, func() time.Time { return time.Now().Add(f.ahead) }))(t)
	t.Cleanup(func() { _ = d.Close() })
	d.after = func(time.Duration, func()) func() { return func() {} }
	f.Dir = d
	return f
}

func document1(guests ...string) string {
	return "apiVersion: gated/v1\nhost: pve1\nguests:\n  - {name: " + strings.Join(guests, "}\n  - {name: ") + "}\n"
}

func (f *folder) write(name, content string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.path, name), []byte(content), 0o644))
}

// sets reads and returns the guests' names by set.
func (f *folder) sets() (map[string][]string, error) {
	docs, err := f.Read(f.t.Context())
	out := map[string][]string{}
	for _, d := range docs {
		out[d.Set] = []string{}
		for _, g := range d.Doc.Guests {
			out[d.Set] = append(out[d.Set], g.Name)
		}
	}
	return out, err
}

func (f *folder) require(want map[string][]string) {
	f.t.Helper()
	require.Equal(f.t, want, must.Get(f.sets())(f.t))
}

func (f *folder) refused(code refusal.Code, text string) {
	f.t.Helper()
	got, err := f.sets()
	require.ErrorIs(f.t, err, code)
	require.Contains(f.t, err.Error(), text)
	require.Empty(f.t, got, "an incomplete read has no documents")
}

// awaitChange waits for what inotify says.
func (f *folder) awaitChange() {
	f.t.Helper()
	select {
	case <-f.Changed():
	case <-time.After(time.Minute):
		f.t.Fatal("no change was announced")
	}
}

func (f *folder) quiet() {
	f.t.Helper()
	f.watch.Writing("") // takes in what the kernel has
	select {
	case <-f.Changed():
		f.t.Fatal("a change was announced")
	default:
	}
}

func TestDirReadsItsDocuments(t *testing.T) {
	f := newFolder(t)
	f.write("b.yaml", document1("b1", "b2"))
	f.write("a.yml", document1("a1"))
	f.write(".hidden.yaml", "not: [valid")
	f.write("notes.txt", "not: [valid")
	f.write("c.yaml~", "not: [valid")
	docs := must.Get(f.Read(t.Context()))(t)
	require.Len(t, docs, 2)
	require.Equal(t, []string{"a.yml", "b.yaml"}, []string{docs[0].Set, docs[1].Set})
	require.Equal(t, op.SHA256([]byte(document1("a1"))), docs[0].Digest)

	again := must.Get(f.Read(t.Context()))(t)
	require.Same(t, &docs[0], &again[0], "nothing changed, so nothing was put together again")
}

func TestDirNotices(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", document1("a1"))
	f.require(map[string][]string{"a.yaml": {"a1"}})
	f.quiet()

	f.write("a.yaml", document1("a2"))
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a2"}})

	f.write(".b.tmp", document1("b1"))
	f.quiet()
	require.NoError(t, os.Rename(filepath.Join(f.path, ".b.tmp"), filepath.Join(f.path, "b.yaml")))
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a2"}, "b.yaml": {"b1"}})

	require.NoError(t, os.Remove(filepath.Join(f.path, "a.yaml")))
	f.awaitChange()
	f.require(map[string][]string{"b.yaml": {"b1"}})

	require.NoError(t, os.Rename(filepath.Join(f.path, "b.yaml"), filepath.Join(f.path, "c.yaml")))
	f.awaitChange()
	f.require(map[string][]string{"c.yaml": {"b1"}})
}

// One changed file does not cost a look at the others: they may even be gone.
func TestDirLooksOnlyAtWhatChanged(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", document1("a1"))
	f.write("b.yaml", document1("b1"))
	f.require(map[string][]string{"a.yaml": {"a1"}, "b.yaml": {"b1"}})
	before := f.files["b.yaml"]
	f.write("a.yaml", document1("a2"))
	f.awaitChange()
	scanned := f.scanned
	f.require(map[string][]string{"a.yaml": {"a2"}, "b.yaml": {"b1"}})
	require.Equal(t, scanned, f.scanned, "that was no scan over everything")
	require.Same(t, before, f.files["b.yaml"])

	f.write("a.yaml", document1("a3"))
	f.awaitChange()
	f.ahead += 2 * time.Minute
	f.require(map[string][]string{"a.yaml": {"a3"}, "b.yaml": {"b1"}})
	require.True(t, f.scanned.After(scanned.Add(time.Minute)), "after a while everything is looked at all the same")
}

func TestDirParsesByDigest(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", document1("a1"))
	docs := must.Get(f.Read(t.Context()))(t)
	guests := &docs[0].Doc.Guests[0]
	f.write("a.yaml", document1("a1"))
	f.awaitChange()
	docs = must.Get(f.Read(t.Context()))(t)
	require.Same(t, guests, &docs[0].Doc.Guests[0], "the same bytes are not parsed again")
}

func TestDirNeverReadsHalfAFile(t *testing.T) {
	f := newFolder(t)
	whole := document1("a1", "a2")
	f.write("a.yaml", document1("old"))
	f.require(map[string][]string{"a.yaml": {"old"}})

	// In the place of an old one: what was said stands until its writer is done.
	h := must.Get(os.OpenFile(filepath.Join(f.path, "a.yaml"), os.O_WRONLY|os.O_TRUNC, 0))(t)
	f.quiet()
	_, err := h.WriteString(whole[:len(whole)-14]) // valid, with a1 alone
	require.NoError(t, err)
	f.quiet()
	f.ahead += 2 * time.Minute // a scan over everything
	f.require(map[string][]string{"a.yaml": {"old"}})
	must.Get(h.WriteString(whole[len(whole)-14:]))(t)
	f.require(map[string][]string{"a.yaml": {"old"}})
	require.NoError(t, h.Close())
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a1", "a2"}})

	// A new one: it is not there until its writer is done.
	h = must.Get(os.Create(filepath.Join(f.path, "b.yaml")))(t)
	must.Get(h.WriteString(whole[:len(whole)-14]))(t)
	f.quiet()
	f.ahead += 2 * time.Minute
	f.require(map[string][]string{"a.yaml": {"a1", "a2"}})
	require.NoError(t, h.Close())
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a1", "a2"}, "b.yaml": {"a1"}})
}

// Before there was a watch, nobody can say whether a file's writer is done. One
// that was touched just now is not read.
func TestDirWaitsUntilAFileSettles(t *testing.T) {
	f := newFolder(t)
	var announce func()
	f.after = func(d time.Duration, fn func()) func() {
		require.Equal(t, settle, d)
		announce = fn
		return func() {}
	}
	f.write("a.yaml", document1("a1"))
	f.ahead = settle / 2
	f.refused(refusal.Unavailable, "a.yaml: it may still be written to")
	require.NotNil(t, announce)
	f.ahead = time.Hour
	announce()
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a1"}})
}

func TestDirRefusesWhatItCannotRead(t *testing.T) {
	good := document1("a1")
	for name, c := range map[string]struct {
		make func(f *folder)
		code refusal.Code
		text string
	}{
		"no directory": {func(f *folder) { require.NoError(f.t, os.RemoveAll(f.path)) }, refusal.Unavailable, "no such file"},
		"a file": {func(f *folder) {
			require.NoError(f.t, os.Remove(f.path))
			require.NoError(f.t, os.WriteFile(f.path, nil, 0o644))
		}, refusal.Unavailable, "not a directory"},
		"no files":      {func(*folder) {}, refusal.Unavailable, "has no *.yaml file"},
		"empty file":    {func(f *folder) { f.write("b.yaml", "") }, refusal.Malformed, "b.yaml:1:1: the file is empty"},
		"broken":        {func(f *folder) { f.write("b.yaml", "apiVersion: gated/v1\nhost: [\n") }, refusal.Malformed, "b.yaml:2:1"},
		"html":          {func(f *folder) { f.write("b.yaml", "<html>502</html>") }, refusal.Malformed, "b.yaml:1:1"},
		"unknown field": {func(f *folder) { f.write("b.yaml", strings.Replace(good, "}", ", scratch: true}", 1)) }, refusal.BadParams, "b.yaml:4:"},
		"too large": {func(f *folder) {
			f.write("b.yaml", "")
			require.NoError(f.t, os.Truncate(filepath.Join(f.path, "b.yaml"), 2<<30))
		}, refusal.Oversized, "b.yaml"},
		"directory":     {func(f *folder) { require.NoError(f.t, os.Mkdir(filepath.Join(f.path, "b.yaml"), 0o755)) }, refusal.Malformed, "not a regular file"},
		"FIFO":          {func(f *folder) { require.NoError(f.t, unix.Mkfifo(filepath.Join(f.path, "b.yaml"), 0o644)) }, refusal.Malformed, "not a regular file"},
		"symlink":       {func(f *folder) { require.NoError(f.t, os.Symlink("/etc/passwd", filepath.Join(f.path, "b.yaml"))) }, refusal.Malformed, "not a regular file"},
		"dangling link": {func(f *folder) { require.NoError(f.t, os.Symlink("nowhere", filepath.Join(f.path, "b.yaml"))) }, refusal.Malformed, "not a regular file"},
		"name":          {func(f *folder) { f.write("b\u202e.yaml", good) }, refusal.Malformed, "is not a name for a set"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			if name != "no files" && name != "a file" {
				f.write("a.yaml", good)
			}
			c.make(f)
			f.refused(c.code, c.text)
			f.refused(c.code, c.text)
		})
	}
}

func TestDirRecovers(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", document1("a1"))
	f.require(map[string][]string{"a.yaml": {"a1"}})
	f.write("a.yaml", "broken")
	f.awaitChange()
	f.refused(refusal.Malformed, "a.yaml:1:1")
	f.write("a.yaml", document1("a1"))
	f.awaitChange()
	f.require(map[string][]string{"a.yaml": {"a1"}})

	require.NoError(t, os.Remove(filepath.Join(f.path, "a.yaml")))
	require.NoError(t, os.Remove(f.path))
	f.awaitChange()
	f.refused(refusal.Unavailable, "no such file")
	require.NoError(t, os.Mkdir(f.path, 0o755))
	f.write("b.yaml", document1("b1"))
	f.require(map[string][]string{"b.yaml": {"b1"}})
	f.write("b.yaml", document1("b2"))
	f.awaitChange()
	f.require(map[string][]string{"b.yaml": {"b2"}})
}

func TestDirWithoutAWatchStillReads(t *testing.T) {
	f := newFolder(t)
	require.NoError(t, f.Close())
	f.write("a.yaml", document1("a1"))
	f.require(map[string][]string{"a.yaml": {"a1"}})
	f.write("a.yaml", document1("a2", "a3"))
	f.require(map[string][]string{"a.yaml": {"a2", "a3"}})
}
