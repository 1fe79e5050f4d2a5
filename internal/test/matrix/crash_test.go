package matrix_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/host/config"
	"gated/internal/host/daemon"
	"gated/internal/host/life"
	"gated/internal/nonce"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// helperEnv makes the test binary another process: one that is killed while it
// holds the state, or a caller of another uid.
const helperEnv = "GATED_MATRIX_HELPER"

// orders is what a helper is told to do.
type orders struct {
	What     string
	Dir      string
	Root     string
	UIDs     local.UIDRange // of guests
	Trust    string
	Wall     int64
	Request  *op.RequestID `json:",omitzero"`
	Envelope authz.Envelope
	Call     []string // method, path, body; Dir is the socket
}

func helper(ctx context.Context, text string) int {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	err := o.obey(ctx)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (o orders) obey(ctx context.Context) error {
	switch o.What {
	case "call":
		return callOnce(o.Dir, o.Call)
	case "squat":
		return squat(o.Dir)
	case "daemon": // as the recommended unit has it
		//fsck:none its test runs fsck when it has ended
		return daemon.Serve(ctx, daemon.ServeOptions{StateDir: o.Dir, Socket: o.Call[0], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	case "unit":
		return underUnit(ctx, o.Dir, o.Call[0], o.Call[1], o.Call[2])
	case "ask":
		return callGate(o.Dir, o.Call[0], o.Call[1], o.Call[2])
	case "fsck":
		r, err := life.Fsck(ctx, o.Dir)
		if err == nil && len(r.Problems) > 0 {
			err = fmt.Errorf("%v", r.Problems)
		}
		return err
	case "init":
		_, err := life.Init(ctx, life.InitOptions{StateDir: o.Dir, Host: testHost, Operators: []pubkey.Arg{{Path: o.Call[0]}}})
		return err
	case "act":
		return play(ctx, o.Call[0], o.Dir, o.Call[1])
	}
	h, err := openHost(ctx, hostConfig{dir: o.Dir, root: o.Root, trust: o.Trust, rules: matrixPolicy(), grace: time.Hour, uids: o.UIDs,
		read: func() nonce.Reading { return nonce.Reading{Wall: time.Unix(0, o.Wall).UTC()} }, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	switch o.What {
	case "approve":
		if _, err := h.gate.Approve(ctx, hub, *o.Request, o.Envelope); err != nil {
			return err
		}
		fmt.Println("done")
	case "execute":
		dispatched := make(chan struct{}, 1)
		h.store.OnCommit(func() {
			select {
			case dispatched <- struct{}{}:
			default:
			}
		})
		go func() {
			for range dispatched {
				if j, err := h.gate.Job(ctx, o.Request.Job); err == nil && j.State() == op.StateDispatched {
					fmt.Println("done")
				}
			}
		}()
		return executor{h.gate, h}.execute(ctx, *o.Request) // stopping the guest takes an hour
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until killed
	return err
}

// killed runs a helper on this world's state until it says that it is done, and
// kills it with SIGKILL.
func (w *world) killed(o orders) {
	w.t.Helper()
	o.Dir, o.Root, o.UIDs, o.Trust, o.Wall = w.dir, w.root, w.uids, w.trust, w.now().UnixNano()
	w.shut()
	text := must.Get(json.Marshal(o))(w.t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperEnv+"="+string(text))
	in := must.Get(cmd.StdinPipe())(w.t)
	defer in.Close()
	out := must.Get(cmd.StdoutPipe())(w.t)
	require.NoError(w.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(w.t, cmd.Process.Kill())
	require.Error(w.t, cmd.Wait())
	require.NoError(w.t, err)
	require.Equal(w.t, "done\n", line)
	w.open()
}

// lossy is a back end whose answer is lost, after it did its work or before.
type lossy struct {
	*local.Driver
	works bool
}

func (l lossy) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, act, err := l.Driver.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		if l.works {
			if did, err := do(ctx); err != nil {
				return did, err
			}
		}
		return driver.Result{}, driver.Unknown(io.ErrUnexpectedEOF)
	}), err
}

// moved is a row in which what is at the state directory's place is not what was
// bound there. The change returns what takes it back.
func moved(id, what string, want refusal.Code, change func(w *world) (putBack func())) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		w.armUnlogged("it does not start")
		w.shut()
		putBack := change(w)
		err := w.tryOpen()
		if err == nil { // a daemon could not start beside it, and would say nothing about the copy
			w.shut()
			putBack()
			w.open()
			return nil
		}
		w.free()
		serveErr := serveAt(w)
		putBack()
		require.ErrorIs(w.t, serveErr, refusal.CodeOf(err), "the daemon says the same")
		w.open()
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return err
	}}
}

// serveAt starts a whole daemon on the state directory, which has to refuse.
func serveAt(w *world) error {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	//fsck:none each row ends with fsck
	return daemon.Serve(ctx, daemon.ServeOptions{StateDir: w.dir, Socket: filepath.Join(w.t.TempDir(), "s"), Logger: slog.New(slog.DiscardHandler)})
}

// servesAt starts a whole daemon on the state directory, which has to come to
// serve, and stops it.
func servesAt(w *world) error {
	ctx, stop := context.WithTimeout(w.ctx, time.Minute)
	defer stop()
	socket := filepath.Join(w.t.TempDir(), "s")
	ended := make(chan error, 1)
	go func() {
		//fsck:none each row ends with fsck
		ended <- daemon.Serve(ctx, daemon.ServeOptions{StateDir: w.dir, Socket: socket, Logger: slog.New(slog.DiscardHandler)})
	}()
	for ctx.Err() == nil {
		if conn, err := net.Dial("unix", socket); err == nil {
			require.NoError(w.t, conn.Close())
			stop()
			return <-ended
		}
		select {
		case err := <-ended:
			return cmp.Or(err, errors.New("it ended by itself"))
		case <-time.After(time.Millisecond):
		}
	}
	return errors.Join(errors.New("it does not come to serve"), <-ended)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b := must.Get(os.ReadFile(from))(t)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// settle writes the files that only the whole daemon reads.
func (w *world) settle() {
	w.t.Helper()
	text := must.Get(config.Render(config.Initial{Host: testHost, SingleUser: true, State: w.dir}))(w.t)
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "gated.yaml"), text, 0o600))
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "allowed_signers"), []byte(w.trust), 0o600))
}

var crashRows = []attack{
	{id: "T03b", what: "replay after kill -9 right after the approval", want: refusal.Replayed, run: func(w *world) error {
		r := w.destroyRequest()
		w.killed(orders{What: "approve", Request: &r.ID, Envelope: w.envelopeOf(r)})
		w.arm()
		w.allow.runs = true
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Replayed)
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "T03c", what: "replay after backup and restore", want: refusal.TargetMismatch, bare: true, run: func(w *world) error {
		w.setClock(time.Since(w.now())) // a restore goes by the machine's clock
		w.restart()
		w.makeGuest("victim")
		w.settle()
		r := w.destroyRequest()
		used := w.spent()
		file := filepath.Join(w.t.TempDir(), "backup")
		require.NoError(w.t, w.store.Snapshot(w.ctx, file))
		w.shut()
		must.Get(life.Restore(w.ctx, file, w.dir))(w.t)
		w.open()
		w.arm()
		require.ErrorIs(w.t, w.send(used.ID, w.envelopeOf(used)), refusal.TargetMismatch)
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.TargetMismatch)
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "T13a", what: "kill -9 inside an action, while the guest is being stopped", want: interrupted, run: func(w *world) error {
		w.makeGuest("web", "command", "deaf")
		w.do("guest.start", "web")
		require.Eventually(w.t, func() bool { return exists(w.path("web", "data", "up")) }, time.Minute, time.Millisecond)
		r := w.request(ask("guest.destroy", "web"))
		w.mustApprove(r)
		w.killed(orders{What: "execute", Request: &r.ID})
		require.Equal(w.t, op.StateDispatched, w.stepOf(r.ID).State)
		w.arm()
		w.allow.finale = []string{"victim"}
		w.reconcile()
		require.ErrorIs(w.t, w.send(r.ID, w.envelopeOf(r)), refusal.Replayed)
		return refusal.Code(w.stepOf(r.ID).State)
	}},
	{id: "T13b", what: "the driver's answer is lost, and nothing was done", want: interrupted, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		require.ErrorIs(w.t, executor{w.gate, lossy{w.driver, false}}.execute(w.ctx, r.ID), io.ErrUnexpectedEOF)
		return refusal.Code(w.stepOf(r.ID).State)
	}},
	{id: "T13c", what: "the driver's answer is lost after a wipe, which does not show, and the wipe is not run again", want: interrupted,
		run: func(w *world) error {
			r := w.request(ask("guest.wipe", "victim"))
			w.mustApprove(r)
			require.ErrorIs(w.t, executor{w.gate, lossy{w.driver, true}}.execute(w.ctx, r.ID), io.ErrUnexpectedEOF)
			w.write("written since", "victim", "data", "new")
			w.arm()
			w.allow.loggedAs = refusal.Replayed
			require.ErrorIs(w.t, w.send(r.ID, w.envelopeOf(r)), refusal.Replayed)
			return refusal.Code(w.stepOf(r.ID).State)
		}},
	{id: "X27", what: "a restore to a time when scratch had not been brought back by somebody else yet: its creator destroys it", want: refusal.PendingSignature,
		bare: true, run: func(w *world) error {
			w.setClock(time.Since(w.now()))
			w.restart()
			w.makeGuest("victim")
			w.settle()
			scratch(w)
			file := filepath.Join(w.t.TempDir(), "backup")
			require.NoError(w.t, w.store.Snapshot(w.ctx, file))
			require.NoError(w.t, w.runJob(builder, ask("guest.destroy", "tmp")))
			require.NoError(w.t, w.runJob(admin, ask("guest.undelete", "tmp")))
			w.write("work of weeks", "tmp", "data", "work")
			w.shut()
			must.Get(life.Restore(w.ctx, file, w.dir))(w.t)
			w.open()
			w.arm()
			w.allow.finale = []string{"tmp"}
			return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
		}},
	moved("T14a", "an old copy of the database moved into its place", refusal.TargetMismatch, func(w *world) func() {
		db := filepath.Join(w.dir, "gated.db")
		copyFile(w.t, db, db+".old")
		require.NoError(w.t, swap(db, db+".old"))
		return func() { require.NoError(w.t, swap(db, db+".old")) }
	}),
	moved("T14b", "the state cloned to another directory", refusal.TargetMismatch, func(w *world) func() {
		clone := w.dir + "-clone"
		require.NoError(w.t, os.CopyFS(clone, os.DirFS(w.dir)))
		require.NoError(w.t, os.Chmod(clone, 0o700))
		for _, f := range must.Get(os.ReadDir(clone))(w.t) {
			require.NoError(w.t, os.Chmod(filepath.Join(clone, f.Name()), 0o600))
		}
		require.NoError(w.t, swap(clone, w.dir))
		return func() { require.NoError(w.t, swap(clone, w.dir)) }
	}),
	moved("H01a", "the state directory is a symlink", refusal.NotAllowed, func(w *world) func() {
		require.NoError(w.t, os.Rename(w.dir, w.dir+"-real"))
		require.NoError(w.t, os.Symlink(w.dir+"-real", w.dir))
		return func() {
			require.NoError(w.t, os.Remove(w.dir))
			require.NoError(w.t, os.Rename(w.dir+"-real", w.dir))
		}
	}),
	moved("H01b", "the state directory is group-writable", refusal.NotAllowed, func(w *world) func() { return mode(w, w.dir, 0o770, 0o700) }),
	moved("H01c", "the database is group-writable", refusal.NotAllowed, func(w *world) func() {
		return mode(w, filepath.Join(w.dir, "gated.db"), 0o660, 0o600)
	}),
	moved("H01d", "the database is a symlink", refusal.NotAllowed, func(w *world) func() {
		db := filepath.Join(w.dir, "gated.db")
		require.NoError(w.t, os.Rename(db, db+"-real"))
		require.NoError(w.t, os.Symlink("gated.db-real", db))
		return func() {
			require.NoError(w.t, os.Remove(db))
			require.NoError(w.t, os.Rename(db+"-real", db))
		}
	}),
	moved("H01e", "the database has a second name", refusal.NotAllowed, func(w *world) func() {
		db := filepath.Join(w.dir, "gated.db")
		require.NoError(w.t, os.Link(db, db+"-second"))
		return func() { require.NoError(w.t, os.Remove(db+"-second")) }
	}),
	moved("H01f", "the state directory belongs to another uid", refusal.NotAllowed, func(w *world) func() {
		return owner(w, w.dir)
	}),
	moved("H01g", "the database belongs to another uid", refusal.NotAllowed, func(w *world) func() {
		return owner(w, filepath.Join(w.dir, "gated.db"))
	}),
	{id: "H06", what: "a second daemon on the same state", want: refusal.Conflict, run: func(w *world) error {
		w.settle()
		r := w.destroyRequest()
		w.armUnlogged("the second one does not start")
		require.ErrorIs(w.t, serveAt(w), refusal.Conflict)
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return failure(openHost(w.ctx, w.config()))
	}},
}

func mode(w *world, path string, bad, good os.FileMode) func() {
	require.NoError(w.t, os.Chmod(path, bad))
	return func() { require.NoError(w.t, os.Chmod(path, good)) }
}

// owner gives a path away, where the test may.
func owner(w *world, path string) func() {
	if os.Getuid() != 0 {
		w.open() // so that nothing else fails before the skip
		w.t.Skip("needs root, to give a file to another uid (uid " + strconv.Itoa(os.Getuid()) + ")")
	}
	require.NoError(w.t, os.Chown(path, 64321, -1))
	return func() { require.NoError(w.t, os.Chown(path, os.Getuid(), -1)) }
}
