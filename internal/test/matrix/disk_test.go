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
	"gated/internal/test/must"
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
		w.armUnlogged("there is no room for an entry")
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
		w.armUnlogged("it does not start")
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
		w.armUnlogged("it does not start")
		w.shut()
		db := filepath.Join(w.dir, "gated.db")
		putBack := patch(w, db, userVersionAt, []byte{0, 0, 0x7f, 0xff})
		before := must.Get(os.ReadFile(db))(w.t)
		err := serveAt(w)
		require.NotEmpty(w.t, refusal.As(err).Hint, "it says what to do")
		must.Err(life.Fsck(w.ctx, w.dir))(w.t)
		var newer *store.TooNewError
		require.ErrorAs(w.t, w.tryOpen(), &newer)
		require.Equal(w.t, before, must.Get(os.ReadFile(db))(w.t), "a database of the future was changed")
		putBack()
		w.open()
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return err
	}},
	{id: "H10c", what: "a disk that runs full amid commit groups: who was told success has it, who was not has nothing", want: refusal.Unavailable,
		disk: diskSize, run: func(w *world) error {
			had := w.jobCount()
			w.armUnlogged("there was no room for the last entries")
			free := w.full()
			w.spare(200 << 10)
			var kept []op.JobID
			var last error
			for last == nil {
				var wg sync.WaitGroup
				jobs, errs := make([]op.Job, 16), make([]error, 16)
				for i := range jobs {
					wg.Go(func() { jobs[i], errs[i] = w.submit(hub, ask("guest.stop", "victim")) })
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
				must.Get(w.gate.Job(w.ctx, id))(w.t, "a job that was accepted is gone")
			}
			require.Equal(w.t, had+len(kept), w.jobCount(), "a job is there whose caller was told that it is not")
			return last
		}},
}

// jobCount is how many jobs there are.
func (w *world) jobCount() int {
	w.t.Helper()
	all := must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{Limit: 100_000}))(w.t)
	return len(all)
}

// filler is the file that takes the disk's room.
func (w *world) filler() string { return filepath.Join(filepath.Dir(w.dir), "filler") }

// spare makes so many bytes of a full disk free.
func (w *world) spare(n int64) {
	w.t.Helper()
	info := must.Get(os.Stat(w.filler()))(w.t)
	require.NoError(w.t, os.Truncate(w.filler(), info.Size()-n))
}

// userVersionAt is where a database file has its schema version, big-endian
// (sqlite.org/fileformat.html, section 1.3).
const userVersionAt = 60

// patch changes bytes of a file in place.
func patch(w *world, path string, at int64, b []byte) (putBack func()) {
	w.t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(w.t)
	defer f.Close()
	old := make([]byte, len(b))
	must.Get(f.ReadAt(old, at))(w.t)
	must.Get(f.WriteAt(b, at))(w.t)
	return func() { patch(w, path, at, old) }
}
