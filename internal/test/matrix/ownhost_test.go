package matrix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// hidden is a row in which somebody puts a tree beside scratch's own under a
// name that looks like unfinished work of the driver's.
func hidden(id, name string) attack {
	return unsigned(id, "a tree put into scratch as "+name+", which looks like unfinished work", func(w *world) {
		scratch(w)
		w.write("a disk from elsewhere", "tmp", name, "disk.img")
	}, builder, ask("guest.destroy", "tmp"))
}

// movedIn puts what the driver never makes into the victim, after which nothing
// that was signed for it holds.
func (w *world) movedIn() {
	w.write("a disk from elsewhere", "victim", ".new-disk", "disk.img")
	w.allow.repair = func() { require.NoError(w.t, os.RemoveAll(w.path("victim", ".new-disk"))) }
}

// guestHostRows are attacks by what lies on the disk beside, in or instead of
// guests.
var guestHostRows = []attack{
	hidden("X89a", ".new-disk"),
	hidden("X89b", ".new-data"),
	hidden("X89c", ".new-snapshot-s"),
	{id: "X89d", what: "a tree is moved into a guest as unfinished work, between the approval of its destroy and the run", want: refusal.StaleTarget,
		run: func(w *world) error {
			r := w.destroyRequest()
			w.mustApprove(r)
			w.movedIn()
			w.arm()
			return w.executor().execute(w.ctx, r.ID)
		}},
	{id: "X89e", what: "a tree is put where a snapshot is about to be staged, so that an unsigned step deletes it", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.write("a disk from elsewhere", "victim", ".new-snapshot-s", "disk.img")
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"victim"}
			w.do("guest.snapshot", "victim", "snapshot", "s")
			require.Equal(w.t, []string{"a disk from elsewhere"}, w.contents(".trash", "*~part~*", "disk.img"))
			return w.waits(w.submit(hub, ask("guest.destroy", "victim")))
		}},
	{id: "X89f", what: "a tree is put into a guest as unfinished work, and the daemon starts, which clears up", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.write("a disk from elsewhere", "victim", ".new-disk", "disk.img")
			w.arm()
			w.restart()
			w.unchanged()
			return w.waits(w.submit(hub, ask("guest.destroy", "victim")))
		}},
	{id: "X90", what: "a snapshot's files are exchanged for hard links to another guest's, and what is restored is written to", want: refusal.Code(op.StateSucceeded),
		run: func(w *world) error {
			w.do("guest.snapshot", "victim", "snapshot", "s")
			r := w.request(ask("guest.restore", "victim", "snapshot", "s"))
			file := w.path("victim", "snapshots", "s", "precious.txt")
			require.NoError(w.t, os.Remove(file))
			require.NoError(w.t, os.Link(w.path("bystander", "data", "precious.txt"), file))
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"victim"}
			w.mustApprove(r)
			w.ends(r.ID, op.StateSucceeded, nonce.Used)
			require.NoError(w.t, w.runAll())
			require.NoError(w.t, os.Truncate(w.path("victim", "data", "precious.txt"), 0))
			require.NoError(w.t, os.Chmod(w.path("victim", "data", "precious.txt"), 0o777))
			return refusal.Code(w.stepOf(r.ID).State)
		}},
	{id: "X91a", what: "the guests' root is exchanged for a symlink to other guests, and the daemon starts", want: refusal.Conflict, run: func(w *world) error {
		w.mustApprove(w.destroyRequest())
		w.shut()
		require.NoError(w.t, os.Rename(w.root, w.root+"-aside"))
		require.NoError(w.t, os.Symlink(w.root+"-aside", w.root))
		err := w.tryOpen()
		require.NoError(w.t, os.Remove(w.root))
		require.NoError(w.t, os.Rename(w.root+"-aside", w.root))
		w.open()
		w.arm()
		w.allow.unlogged, w.allow.runs = "it does not start", true
		return err
	}},
	{id: "X91b", what: "local.root is another one after a restart, between the approval and the run, with a guest of that name copied there", want: refusal.StaleTarget,
		run: func(w *world) error {
			r := w.destroyRequest()
			w.mustApprove(r)
			w.shut()
			real := w.root
			w.root += "-copy"
			require.NoError(w.t, os.CopyFS(w.root, os.DirFS(real)))
			require.NoError(w.t, os.Chmod(w.root, 0o700))
			w.open()
			w.arm()
			err := w.executor().execute(w.ctx, r.ID)
			w.unchanged()
			w.shut()
			w.root = real
			w.open()
			require.True(w.t, w.observe("victim").Present)
			w.before.tree = hashTree(w.t, w.root)
			return err
		}},
	{id: "X91c", what: "another root is mounted over the guests' while an approved destroy waits: it reaches what was looked at, or nothing", want: refusal.Code(op.StateSucceeded),
		run: func(w *world) error {
			w.makeGuest("mark")
			r := w.request(ask("guest.destroy", "mark"))
			w.mustApprove(r)
			over := filepath.Join(w.t.TempDir(), "over")
			require.NoError(w.t, os.CopyFS(over, os.DirFS(w.root)))
			was := hashTree(w.t, over)
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"mark"}
			unmount := w.bind(over, w.root)
			require.NoError(w.t, w.runAll())
			unmount()
			require.Equal(w.t, was, hashTree(w.t, over))
			require.False(w.t, w.observe("mark").Present)
			w.allow.finale = []string{"victim", "mark"}
			return refusal.Code(w.stepOf(r.ID).State)
		}},
	{id: "X92", what: "a create with a command is signed, and the configuration names that command no more when it runs", want: refusal.NotAllowed,
		run: func(w *world) error {
			b := w.altered(w.destroyRequest(), func(p *op.Payload) {
				p.Nonce, p.Op, p.Target.Name, p.Incarnation = op.NewNonce(time.Now()), "guest.create", "web", ""
				p.Params, p.State = op.Params{"command": "idle", "state": "running"}, w.observe("web").Fingerprint
			})
			require.NoError(w.t, w.sendOffline(w.alice.envelope(w.t, b)))
			w.rules.Commands = nil
			w.reload()
			w.arm()
			err := w.runAll()
			require.False(w.t, w.observe("web").Present)
			return err
		}},
	{id: "X93a", what: "a file says that it was written 200 billion years from now, and another one before there was time", want: refusal.PendingSignature,
		run: func(w *world) error {
			for name, at := range map[string]int64{"precious.txt": 1 << 62, "deep": -1 << 62} {
				ts := []unix.Timespec{{Sec: at}, {Sec: at}}
				require.NoError(w.t, unix.UtimesNanoAt(unix.AT_FDCWD, w.path("victim", "data", name), ts, 0))
			}
			w.arm()
			j, err := w.submit(hub, ask("guest.destroy", "victim"))
			require.NoError(w.t, err)
			require.NoError(w.t, problem(w.t, w.callAs(w.serve(), "GET", "/v1/requests/"+j.Steps[0].ID.String(), "", "")))
			return w.waits(j, err)
		}},
	unshowable("X93b", "an escape sequence and a line's end", "a\x1b[2Kb\nrejected by alice"),
	unshowable("X93c", "bytes that are no text", "a\xff\xfeb"),
	unshowable("X93d", "a right-to-left override", "a\u202egpj.exe"),
	{id: "X94a", what: "a guest is brought back and another one made under its name at once, many times: one of the two is there, the other's data is whole",
		want: lostRace, run: func(w *world) error {
			inc := string(w.spent().Step.Incarnation)
			w.arm()
			w.allow.trash, w.allow.tree, w.allow.unlogged = true, []string{"gone"}, "one of two that are both allowed"
			for range 5 {
				w.destroyedFor(builder, "gone")
				back := must.Get(w.submit(builder, ask("guest.undelete", "gone", "incarnation", inc)))(w.t)
				fresh := must.Get(w.submit(builder, ask("guest.create", "gone", "scratch", true)))(w.t)
				both(func() { _ = w.executor().execute(w.ctx, back.Steps[0].ID) }, func() { _ = w.executor().execute(w.ctx, fresh.Steps[0].ID) })
				_ = w.runAll()
				won := w.stepOf(back.Steps[0].ID).State == op.StateSucceeded
				require.NotEqual(w.t, won, w.stepOf(fresh.Steps[0].ID).State == op.StateSucceeded)
				if !won {
					require.NoError(w.t, w.runJob(builder, ask("guest.destroy", "gone")))
					require.NoError(w.t, w.runJob(builder, ask("guest.undelete", "gone", "incarnation", inc)))
				}
				require.Equal(w.t, "the only copy of gone", string(must.Get(os.ReadFile(w.path("gone", "data", "precious.txt")))(w.t)))
			}
			w.allow.finale = []string{"victim", "gone"}
			return lostRace
		}},
	{id: "X94b", what: "a guest is brought back while the trash is swept, whose time is over, many times: it is there whole", want: lostRace,
		run: func(w *world) error {
			w.arm()
			w.allow.trash, w.allow.unlogged = true, "both are allowed"
			for i := range 8 {
				name := fmt.Sprintf("g%d", i)
				w.allow.tree = append(w.allow.tree, name)
				w.plant(name)
				w.destroyed(name)
				j := must.Get(w.submit(hub, ask("guest.undelete", name)))(w.t)
				w.pass(25 * time.Hour)
				both(func() { _ = w.executor().execute(w.ctx, j.Steps[0].ID) }, func() { require.NoError(w.t, w.driver.Sweep(w.ctx)) })
				_ = w.runAll()
				require.Equal(w.t, op.StateSucceeded, w.stepOf(j.Steps[0].ID).State, "the step was accepted before the sweep began")
				require.Contains(w.t, string(must.Get(os.ReadFile(w.path(name, "data", "real.db")))(w.t)), "planted in "+name)
			}
			w.allow.finale = append(w.allow.tree, "victim")
			return lostRace
		}},
}

// destroyed has an operator destroy a guest.
func (w *world) destroyed(name string) {
	w.t.Helper()
	w.destroyedFor(hub, name)
}

// destroyedFor has an operator sign the destroy that a requester asks for.
func (w *world) destroyedFor(by op.Requester, name string) {
	w.t.Helper()
	r := w.requestBy(by, ask("guest.destroy", name))
	w.mustApprove(r)
	require.NoError(w.t, w.executor().execute(w.ctx, r.ID))
	w.ends(r.ID, op.StateSucceeded, nonce.Used)
}

// contents returns what is in the files below the guests' root that a pattern
// of filepath.Match fits.
func (w *world) contents(pattern ...string) (all []string) {
	w.t.Helper()
	for _, path := range must.Get(filepath.Glob(w.path(pattern...)))(w.t) {
		all = append(all, string(must.Get(os.ReadFile(path))(w.t)))
	}
	return all
}

// unshowable is a row in which a guest names a file so that the refusal to copy
// it would show as something else on a terminal, or could not be written down.
func unshowable(id, what, name string) attack {
	return attack{id: id, what: "a guest has a FIFO with " + what + " in its name, and a snapshot is refused for it", want: refusal.TooComplex,
		run: func(w *world) error {
			at := w.path("victim", "data", name)
			j := must.Get(w.submit(hub, ask("guest.snapshot", "victim", "snapshot", "s")))(w.t)
			require.NoError(w.t, unix.Mkfifo(at, 0o600))
			w.arm()
			w.allow.repair = func() { require.NoError(w.t, os.Remove(at)) }
			asked := failure(w.submit(hub, ask("guest.snapshot", "victim", "snapshot", "t")))
			require.ErrorIs(w.t, asked, refusal.TooComplex)
			require.NoError(w.t, op.CheckText("the refusal", refusal.As(asked).Detail))
			err := w.executor().execute(w.ctx, j.Steps[0].ID)
			require.Equal(w.t, op.StateRefused, w.stepOf(j.Steps[0].ID).State)
			require.NoError(w.t, op.CheckText("the refusal", w.stepOf(j.Steps[0].ID).Detail))
			for _, e := range must.Get(w.gate.Events(w.ctx, w.before.seq, 100))(w.t) {
				require.NoError(w.t, op.CheckText("the log's entry", e.Detail))
			}
			return err
		}}
}
