package retention_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/retention"
	"gated/internal/test/must"
)

// watched is what looks at a world's segment files, and a function that lets time pass and has it look.
func watched(w *world) (f *retention.Files, after func(time.Duration) retention.FilesState) {
	elapsed := time.Duration(0)
	f = retention.NewFiles(retention.FilesConfig{Store: w.store, Dir: w.dir, Elapsed: func() time.Duration { return elapsed },
		Rest: func(context.Context, time.Duration) {}})
	return f, func(d time.Duration) retention.FilesState {
		w.t.Helper()
		elapsed += d
		require.NoError(w.t, f.Step(w.t.Context()))
		return f.State()
	}
}

// twoSegments has a history of which two segments are archived, and the paths of the files.
func twoSegments(t *testing.T) (w *world, files []string) {
	w = archivedWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	for _, name := range w.files() {
		files = append(files, filepath.Join(w.dir.Path(), name))
	}
	require.Len(t, files, 2)
	return w, files
}

// TestFilesThatAreWhole: each is read, and nothing is said.
func TestFilesThatAreWhole(t *testing.T) {
	w, _ := twoSegments(t)
	f, after := watched(w)
	require.False(t, f.State().Looked)
	require.Equal(t, retention.FilesState{Segments: 2, Looked: true, Read: 1}, after(0))
	require.Equal(t, retention.FilesState{Segments: 2, Looked: true, Read: 2}, after(time.Minute))
	require.Equal(t, retention.FilesState{Segments: 2, Looked: true, Read: 2}, after(time.Minute))
}

// TestAGateWithoutSegmentsHasNoFiles: a directory that is not there is no fault then.
func TestAGateWithoutSegmentsHasNoFiles(t *testing.T) {
	_, after := watched(newWorld(t))
	require.Equal(t, retention.FilesState{Looked: true}, after(0))
}

// TestFilesThatAreNotThere: said at the first look and at that of the next day, and no more when they are back.
func TestFilesThatAreNotThere(t *testing.T) {
	w, files := twoSegments(t)
	away := files[1] + ".away"
	_, after := watched(w)
	require.NoError(t, os.Rename(files[1], away))
	s := after(0)
	require.Equal(t, 1, s.Bad)
	require.Contains(t, s.Why, filepath.Base(files[1]))
	require.NoError(t, os.Rename(away, files[1]))
	require.Zero(t, after(time.Minute).Bad)
	after(time.Minute) // all were read

	require.NoError(t, os.Rename(files[0], files[0]+".away"))
	require.Zero(t, after(time.Hour).Bad, "it looks once a day")
	require.Equal(t, 1, after(23*time.Hour).Bad)
	require.NoError(t, os.Rename(w.dir.Path(), w.dir.Path()+".away"))
	s = after(24 * time.Hour)
	require.Equal(t, 2, s.Bad)
	require.Contains(t, s.Why, filepath.Base(files[0]))
	require.Contains(t, s.Why, "1 other segment file")
	require.NoError(t, os.Rename(w.dir.Path()+".away", w.dir.Path()))
	require.Equal(t, 1, after(time.Minute).Bad)
	require.NoError(t, os.Rename(files[0]+".away", files[0]))
	require.Zero(t, after(time.Minute).Bad)
}

// TestFilesThatAreDamaged: cut, changed with the same length, of another gate, and no file at all. Nothing but a file that is whole
// again clears it.
func TestFilesThatAreDamaged(t *testing.T) {
	other := archivedWorld(t)
	foreign := must.Get(os.ReadFile(filepath.Join(other.dir.Path(), other.files()[0])))(t)
	w, files := twoSegments(t)
	whole := must.Get(os.ReadFile(files[0]))(t)
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for name, place := range map[string]func() error{
		"cut":             func() error { return os.WriteFile(files[0], whole[:len(whole)-1], 0o600) },
		"changed":         func() error { return os.WriteFile(files[0], flipped, 0o600) },
		"of another gate": func() error { return os.WriteFile(files[0], foreign, 0o600) },
		"a directory":     func() error { return os.Mkdir(files[0], 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			_, after := watched(w)
			require.NoError(t, os.Remove(files[0]))
			require.NoError(t, place())
			s := after(0)
			require.Equal(t, 1, s.Bad)
			require.Contains(t, s.Why, files[0])
			require.Equal(t, 1, after(time.Minute).Bad, "it stays so")
			require.NoError(t, os.RemoveAll(files[0]))
			require.NoError(t, os.WriteFile(files[0], whole, 0o600))
			require.Zero(t, after(time.Minute).Bad)
		})
	}
}

// TestAFileThatRotsLater: what was read once is read again in the course of days.
func TestAFileThatRotsLater(t *testing.T) {
	w, files := twoSegments(t)
	_, after := watched(w)
	require.Zero(t, after(0).Bad)
	require.Zero(t, after(time.Minute).Bad)
	b := must.Get(os.ReadFile(files[1]))(t)
	b[100] ^= 1
	require.NoError(t, os.WriteFile(files[1], b, 0o600))
	found := time.Duration(0)
	for after(time.Hour).Bad == 0 {
		found += time.Hour
		require.Less(t, found, 4*24*time.Hour)
	}
	require.Positive(t, found, "its length is the same, so that only reading it finds it")
	b[100] ^= 1
	require.NoError(t, os.WriteFile(files[1], b, 0o600))
	require.Zero(t, after(time.Minute).Bad)
}

// TestANewSegmentIsReadSoon: also between two turns.
func TestANewSegmentIsReadSoon(t *testing.T) {
	w := archivedWorld(t)
	_, after := watched(w)
	require.Equal(t, 1, after(0).Read)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	require.Equal(t, retention.FilesState{Segments: 2, Looked: true, Read: 2}, after(time.Minute))
}
