package retention_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/log/archive"
	"gated/internal/test/must"
)

// ready has something to archive after a segment.
func ready(t *testing.T) *world {
	w := archivedWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	return w
}

// TestADiskThatIsNotMounted: an empty directory, or none, is not the one with the segments. Nothing is written there.
func TestADiskThatIsNotMounted(t *testing.T) {
	w := ready(t)
	away := w.dir.Path() + ".away"
	require.NoError(t, os.Rename(w.dir.Path(), away))
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, "is not there")
	require.NoDirExists(t, w.dir.Path())

	require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
	_, err = w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, "is not the directory with this gate's segment files")
	require.Contains(t, w.keeper.State().Held, "on device")
	require.Empty(t, w.files())

	require.NoError(t, os.Remove(w.dir.Path()))
	require.NoError(t, os.Rename(away, w.dir.Path()))
	require.Positive(t, w.archive())
}

// TestTheDirectoryOfAnotherGate: two gates do not share one, and a copy without the mark is believed for its newest file.
func TestTheDirectoryOfAnotherGate(t *testing.T) {
	w, other := ready(t), archivedWorld(t)
	mark := filepath.Join(w.dir.Path(), archive.MarkName)
	before, err := os.ReadFile(mark)
	require.NoError(t, err)
	theirs, err := os.ReadFile(filepath.Join(other.dir.Path(), archive.MarkName))
	require.NoError(t, err)
	require.NotEqual(t, before, theirs)
	require.NoError(t, os.WriteFile(mark, theirs, 0o600))
	_, err = w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, w.keeper.State().Held, "is of another one")
	require.Len(t, w.files(), 1)

	require.NoError(t, os.Remove(mark))
	require.Positive(t, w.archive())
	after, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// TestADirectoryThatOthersCanChange: neither is it believed, nor a link in its place.
func TestADirectoryThatOthersCanChange(t *testing.T) {
	w := ready(t)
	require.NoError(t, os.Chmod(w.dir.Path(), 0o777))
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.NoError(t, os.Chmod(w.dir.Path(), 0o700))
	away := w.dir.Path() + ".away"
	require.NoError(t, os.Rename(w.dir.Path(), away))
	require.NoError(t, os.Symlink(away, w.dir.Path()))
	_, err = w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.Contains(t, w.keeper.State().Held, "is no directory")
	require.Len(t, w.files(), 1)
}

// TestABackupFromBeforeTheMark: after its restore the directory has the mark of the database that was there. The state says what the
// operator can do. With an empty mark archiving goes on, and the earlier segments stay.
func TestABackupFromBeforeTheMark(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	require.NoError(t, w.store.Close())
	backup, err := os.ReadFile(w.path)
	require.NoError(t, err)
	w.open()
	require.Positive(t, w.archive())
	earlier := w.files()

	require.NoError(t, w.store.Close())
	require.NoError(t, os.WriteFile(w.path, backup, 0o600))
	w.open()
	w.do("guest.create", "after")
	_, err = w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, w.keeper.State().Held, "make "+archive.MarkName+" there an empty file")
	require.Equal(t, earlier, w.files())

	require.NoError(t, os.Truncate(filepath.Join(w.dir.Path(), archive.MarkName), 0))
	require.Positive(t, w.archive())
	require.Subset(t, w.files(), earlier)
}

// TestARestoredGateWithoutItsDisk: its backup is from before the first segment, so an empty place may be one where the disk with the
// segments is to be mounted. An operator's empty mark says that it is right.
func TestARestoredGateWithoutItsDisk(t *testing.T) {
	for _, made := range []bool{false, true} { // whether the empty mount point is there
		w := newWorld(t)
		w.busy(110)
		w.pass(25 * time.Hour)
		w.keeperOf("fedcba9876543210fedcba9876543210")
		if made {
			require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
		}
		_, err := w.keeper.Step(t.Context())
		require.ErrorIs(t, err, refusal.Unavailable)
		require.Contains(t, w.keeper.State().Held, "this gate was restored")
		require.Contains(t, w.keeper.State().Held, "make an empty file segments.id there")
		require.Empty(t, w.files())
		if !made {
			require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
		}
		require.NoError(t, os.WriteFile(filepath.Join(w.dir.Path(), archive.MarkName), nil, 0o600))
		require.Positive(t, w.archive())
		require.NotEmpty(t, must.Get(os.ReadFile(filepath.Join(w.dir.Path(), archive.MarkName)))(t))
	}
}

// TestAnEmptyMarkIsNoProof: if there are segments, it does not make another place of an empty one.
func TestAnEmptyMarkIsNoProof(t *testing.T) {
	w := ready(t)
	require.NoError(t, os.Rename(w.dir.Path(), w.dir.Path()+".away"))
	require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir.Path(), archive.MarkName), nil, 0o600))
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, "is not the directory with this gate's segment files")
	require.NoError(t, os.RemoveAll(w.dir.Path()))
	require.NoError(t, os.Rename(w.dir.Path()+".away", w.dir.Path()))
}

// TestTwoProcessesAndOneDirectory: while another process writes there, nothing is written, and afterwards archiving goes on.
func TestTwoProcessesAndOneDirectory(t *testing.T) {
	w := ready(t)
	other := must.Get(os.Open(w.dir.Path()))(t)
	require.NoError(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))
	theirs := filepath.Join(w.dir.Path(), ".segment.tmp")
	require.NoError(t, os.WriteFile(theirs, []byte("half"), 0o600))
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, "another process writes a segment file")
	require.FileExists(t, theirs)
	require.NoError(t, other.Close())
	require.Positive(t, w.archive())
	require.NoFileExists(t, theirs)
}
