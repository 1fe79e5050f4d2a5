package matrix_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// uncopyable is a row in which a guest has made what a copy of its data could
// hang on, or never end with. The snapshot is refused when it is asked for or, if the guest made that later, when it runs. It
// leaves nothing.
func uncopyable(id, what string, make func(w *world, at string)) attack {
	return attack{id: id, what: "a snapshot of a guest with " + what, want: refusal.TooComplex, run: func(w *world) error {
		j := must.Get(w.submit(hub, ask("guest.snapshot", "victim", "snapshot", "s")))(w.t)
		make(w, w.path("victim", "data", "odd"))
		w.arm()
		w.allow.repair = func() { require.NoError(w.t, os.RemoveAll(w.path("victim", "data", "odd"))) }
		require.ErrorIs(w.t, failure(w.submit(hub, ask("guest.snapshot", "victim", "snapshot", "t"))), refusal.TooComplex)
		err := w.executor().execute(w.ctx, j.Steps[0].ID)
		require.Empty(w.t, w.observe("victim").Snapshots)
		return err
	}}
}

// sparseSize is what a sparse file says that it has, in bytes.
const sparseSize = 1 << 40

var oddFileRows = []attack{
	uncopyable("H14a", "a FIFO in it, which nobody writes to", func(w *world, at string) { require.NoError(w.t, unix.Mkfifo(at, 0o600)) }),
	uncopyable("H14b", "a device node in it, which never ends", func(w *world, at string) {
		if err := unix.Mknod(at, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
			w.t.Skipf("needs mknod(2) with CAP_MKNOD: %v", err)
		}
	}),
	uncopyable("H14c", "a socket in it", func(w *world, at string) {
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: shortPath(w), Net: "unix"}))(w.t)
		l.SetUnlinkOnClose(false)
		require.NoError(w.t, os.Rename(l.Addr().String(), at))
		require.NoError(w.t, l.Close())
	}),
	uncopyable("H14d", "300 directories in each other", func(w *world, at string) {
		require.NoError(w.t, os.MkdirAll(filepath.Join(at, strings.Repeat("d/", 300)), 0o700))
	}),
	{id: "H14e", what: "a guest with a sparse file of a terabyte is copied without its holes, and its destroy shown", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.makeGuest("big")
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"big"}
			require.NoError(w.t, os.WriteFile(w.path("big", "data", "sparse"), []byte("x"), 0o600))
			require.NoError(w.t, os.Truncate(w.path("big", "data", "sparse"), sparseSize))
			w.do("guest.snapshot", "big", "snapshot", "s")
			copied := w.path("big", "snapshots", "s", "sparse")
			info := must.Get(os.Stat(copied))(w.t)
			require.Equal(w.t, int64(sparseSize), info.Size())
			var st unix.Stat_t
			require.NoError(w.t, unix.Stat(copied, &st))
			require.Less(w.t, st.Blocks*512, int64(1<<20), "holes were written out")
			j, err := w.submit(hub, ask("guest.destroy", "big"))
			require.NoError(w.t, errors.Join(os.Remove(copied), os.Remove(w.path("big", "data", "sparse")))) // what looks at every byte comes next
			w.allow.finale = []string{"big"}
			return w.waits(j, err)
		}},
	{id: "H14f", what: "desired state that is a FIFO, a device and a directory", want: nothingPlanned, run: func(w *world) error {
		dir := w.t.TempDir()
		require.NoError(w.t, unix.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600))
		require.NoError(w.t, os.Symlink("/dev/zero", filepath.Join(dir, "b.yaml")))
		require.NoError(w.t, os.Mkdir(filepath.Join(dir, "c.yaml"), 0o700))
		w.armUnlogged("there is no wish; status says so")
		s := w.reconcile(w.dirSource(dir))
		require.NotEmpty(w.t, s.Sources)
		return w.planned("victim")
	}},
}

// shortPath is a path that a socket's name can be.
func shortPath(w *world) string {
	dir := must.Get(os.MkdirTemp("", "gm"))(w.t)
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}
