package matrix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/life"
)

// diskSize is the size of a disk that a row fills: some times what a state that
// was just made needs, in bytes.
const diskSize = 8 << 20

// smallWorld is a host whose state is on a disk of its own.
func smallWorld(t *testing.T, size int64) *world {
	base := t.TempDir()
	disk := filepath.Join(base, "disk")
	require.NoError(t, os.Mkdir(disk, 0o700))
	mountSmall(t, disk, size)
	w := bareWorldAt(t, t, filepath.Join(disk, "state"), filepath.Join(base, "guests"))
	w.makeGuests()
	return w
}

// mountSmall mounts a file system of that size, where the test may.
func mountSmall(t *testing.T, at string, size int64) {
	t.Helper()
	if err := unix.Mount("gated-matrix", at, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", size)); err != nil {
		t.Skipf("needs mount(2) with CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, unix.MNT_DETACH)) })
}

// full fills the disk that the state is on, to the last byte, and returns what
// makes room again.
func (w *world) full() (free func()) {
	w.t.Helper()
	f, err := os.OpenFile(w.filler(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	require.NoError(w.t, err)
	for _, n := range []int{1 << 16, 1} {
		b := make([]byte, n)
		for err = nil; err == nil; {
			_, err = f.Write(b)
		}
		require.ErrorIs(w.t, err, unix.ENOSPC)
	}
	require.NoError(w.t, f.Close())
	return func() { require.NoError(w.t, os.Remove(w.filler())) }
}

// whenFull is a row in which the disk is full while something is decided, which
// works as soon as there is room.
func whenFull(id, what string, prepare func(w *world) (decide func() error)) attack {
	return attack{id: id, what: "a full disk: " + what, want: refusal.Unavailable, disk: diskSize, run: func(w *world) error {
		decide := prepare(w)
		w.arm()
		w.allow.unlogged = "there is no room for an entry"
		free := w.full()
		err := decide()
		require.ErrorIs(w.t, decide(), refusal.Unavailable, "a second try finds what the first one found")
		w.unchanged()
		free()
		return err
	}}
}

var diskRows = []attack{
	whenFull("H03a", "an approval", func(w *world) func() error {
		r := w.destroyRequest()
		return func() error { _, err := w.approve(r); return err }
	}),
	whenFull("H03b", "a job that waits for a signature", func(w *world) func() error {
		return func() error { _, err := w.submit(hub, ask("guest.destroy", "victim")); return err }
	}),
	whenFull("H03c", "a job that needs none", func(w *world) func() error {
		return func() error { _, err := w.submit(hub, ask("guest.create", "new")); return err }
	}),
	whenFull("H03d", "a rejection", func(w *world) func() error {
		r := w.destroyRequest()
		e := w.rejection(r, w.bob)
		return func() error { _, err := w.gate.Reject(w.ctx, hub, r.ID, e); return err }
	}),
	whenFull("H03e", "an operation that was signed offline", func(w *world) func() error {
		r := w.destroyRequest()
		fresh := w.altered(r, func(p *op.Payload) { p.Nonce = op.NewNonce(time.Now()) })
		e := w.alice.envelope(w.t, fresh)
		return func() error { return w.sendOffline(e) }
	}),
	{id: "H03f", what: "a full disk between the approval and the run: the driver's permit cannot be used", want: refusal.Unavailable, disk: diskSize,
		run: func(w *world) error {
			r := w.destroyRequest()
			w.mustApprove(r)
			w.arm()
			w.allow.unlogged, w.allow.runs = "there is no room for an entry", true
			free := w.full()
			err := w.executor().execute(w.ctx, r.ID)
			w.unchanged()
			free()
			require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
			return err
		}},
	{id: "H03g", what: "the state is on a file system that became read-only before the start", want: notStarted, disk: diskSize, run: func(w *world) error {
		w.settle()
		r := w.destroyRequest()
		w.arm()
		w.allow.unlogged = "it does not start"
		w.shut()
		disk := filepath.Dir(w.dir)
		require.NoError(w.t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		err := serveAt(w)
		require.NoError(w.t, unix.Mount("", disk, "", unix.MS_REMOUNT, fmt.Sprintf("mode=0700,size=%d", diskSize)))
		w.open()
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		if err == nil {
			return nil
		}
		return notStarted
	}},
	{id: "H08a", what: "a database that a newer version wrote", want: refusal.SchemaTooNew, run: func(w *world) error {
		w.settle()
		r := w.destroyRequest()
		w.arm()
		w.allow.unlogged = "it does not start"
		w.shut()
		db := filepath.Join(w.dir, "gated.db")
		putBack := patch(w, db, userVersionAt, []byte{0, 0, 0x7f, 0xff})
		before := must(os.ReadFile(db))
		err := serveAt(w)
		require.NotEmpty(w.t, refusal.As(err).Hint, "it says what to do")
		_, fsckErr := life.Fsck(w.ctx, w.dir)
		require.Error(w.t, fsckErr)
		var newer *store.TooNewError
		require.ErrorAs(w.t, w.tryOpen(), &newer)
		require.Equal(w.t, before, must(os.ReadFile(db)), "a database of the future was changed")
		putBack()
		w.open()
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return err
	}},
	{id: "H10c", what: "a disk that runs full amid commit groups: who was told success has it, who was not has nothing", want: refusal.Unavailable,
		disk: diskSize, run: func(w *world) error {
			had := w.jobCount()
			w.arm()
			w.allow.unlogged = "there was no room for the last entries"
			free := w.full()
			w.spare(200 << 10)
			var kept []op.JobID
			var last error
			for last == nil {
				var wg sync.WaitGroup
				jobs, errs := make([]op.Job, 16), make([]error, 16)
				for i := range jobs {
					wg.Go(func() { jobs[i], errs[i] = w.submit(hub, ask("guest.start", "victim")) })
				}
				wg.Wait()
				for i, err := range errs {
					if err == nil {
						kept = append(kept, jobs[i].ID)
					} else {
						require.ErrorIs(w.t, err, refusal.Unavailable)
						last = err
					}
				}
			}
			free()
			w.restart()
			require.NotEmpty(w.t, kept, "none was accepted while there was room")
			for _, id := range kept {
				_, err := w.gate.Job(w.ctx, id)
				require.NoError(w.t, err, "a job that was accepted is gone")
			}
			require.Equal(w.t, had+len(kept), w.jobCount(), "a job is there whose caller was told that it is not")
			return last
		}},
}

// jobCount is how many jobs there are.
func (w *world) jobCount() int {
	w.t.Helper()
	all, err := w.gate.Jobs(w.ctx, gate.JobFilter{Limit: 100_000})
	require.NoError(w.t, err)
	return len(all)
}

// filler is the file that takes the disk's room.
func (w *world) filler() string { return filepath.Join(filepath.Dir(w.dir), "filler") }

// spare makes so many bytes of a full disk free.
func (w *world) spare(n int64) {
	w.t.Helper()
	info, err := os.Stat(w.filler())
	require.NoError(w.t, err)
	require.NoError(w.t, os.Truncate(w.filler(), info.Size()-n))
}

// userVersionAt is where a database file has its schema version, big-endian
// (sqlite.org/fileformat.html, section 1.3).
const userVersionAt = 60

// patch changes bytes of a file in place.
func patch(w *world, path string, at int64, b []byte) (putBack func()) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(w.t, err)
	defer f.Close()
	old := make([]byte, len(b))
	_, err = f.ReadAt(old, at)
	require.NoError(w.t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(w.t, err)
	return func() { patch(w, path, at, old) }
}
