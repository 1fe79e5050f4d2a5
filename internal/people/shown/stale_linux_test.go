package shown_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/people/shown"
	"gated/internal/test/must"
)

// asOrdinary runs fn as a user to whom modes apply, with a directory of that user's. Root's thread becomes nobody, and ends
// with fn.
func asOrdinary(t *testing.T, fn func(dir string)) {
	dir := must.Get(os.MkdirTemp("/tmp", "gq"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if os.Geteuid() != 0 {
		fn(dir)
		return
	}
	const nobody = 65534
	require.NoError(t, os.Chown(dir, nobody, nobody))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the runtime ends the thread
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			t.Errorf("setresuid: %v", errno)
			return
		}
		fn(dir)
	}()
	<-done
}

// TestWhatCannotBeReplacedIsNotBelieved: a directory that cannot be written keeps an older record, and nobody can tell that it
// is older.
func TestWhatCannotBeReplacedIsNotBelieved(t *testing.T) {
	older, newer, one, two := record(t, "j1.1", nil), record(t, "j1.1", beside()), id(t, "j1.1"), id(t, "j1.2")
	asOrdinary(t, func(dir string) {
		d := shown.Dir{Path: filepath.Join(dir, "shown")}
		if err := d.Keep(older); err != nil {
			t.Error(err)
			return
		}
		gates := filepath.Join(d.Path, string(gate))
		if err := os.Chmod(gates, 0o500); err != nil {
			t.Error(err)
		}
		kept := d.Keep(newer)
		_, last := d.Last(gate, one)
		none, other := d.Last(gate, two)
		if err := os.Chmod(gates, 0o700); err != nil {
			t.Error(err)
		}
		if kept == nil || refusal.CodeOf(last) != refusal.NotAllowed || none != nil || other != nil {
			t.Errorf("kept: %v, last: %v, of another request: %v %v", kept, last, none, other)
		}
		if _, err := d.Last(gate, one); err != nil {
			t.Error(err)
		}
	})
}
