package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// whileSwapping exchanges two paths as fast as it can while work runs.
func whileSwapping(a, b string, work func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = swap(a, b)
		}
	})
	work()
	cancel()
	wg.Wait()
}

func inodeOf(path string) uint64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// swapped is a row in which an intruder exchanges a guest's directory with
// another's while a signed destroy of one of them runs. Whatever comes of it,
// the other one is neither destroyed nor under the name of the first in the
// trash.
func swapped(id, what string, second func(w *world)) attack {
	return attack{id: id, what: what, want: lostRace, run: func(w *world) error {
		w.makeGuest("mark")
		second(w)
		kept := inodeOf(w.path("second"))
		w.arm()
		w.allow.trash, w.allow.unlogged, w.allow.silent = true, "it may happen in time", true
		w.allow.tree = []string{"mark", "second"}
		for range 25 {
			j, err := w.submit(hub, ask("guest.destroy", "mark"))
			if err != nil {
				continue // it looked while the other one was there
			}
			r := w.reread(j.Steps[0].ID)
			w.ends(r.ID, op.StateRefused, nonce.Used)
			if _, err := w.approve(r); err != nil {
				w.cancel(hub, j.ID)
				w.ends(r.ID, op.StateCancelled, nonce.Cancelled)
				continue
			}
			whileSwapping(w.path("mark"), w.path("second"), func() { err = w.executor().execute(w.ctx, r.ID) })
			found := 0
			for _, name := range []string{"mark", "second"} {
				if inodeOf(w.path(name)) == kept {
					found++
				}
			}
			require.Equal(w.t, 1, found, "the other guest is not where guests are: %v", err)
			for _, e := range must.Get(os.ReadDir(w.path(".trash")))(w.t) {
				require.NotEqual(w.t, kept, inodeOf(w.path(".trash", e.Name())), "the other guest is in the trash")
			}
			if inodeOf(w.path("second")) != kept {
				require.NoError(w.t, os.Rename(w.path("mark"), w.path("second-back")))
				_ = os.Rename(w.path("second"), w.path("mark"))
				require.NoError(w.t, os.Rename(w.path("second-back"), w.path("second")))
			}
			if !exists(w.path("mark")) {
				break // the destroy hit what was signed
			}
		}
		return lostRace
	}}
}

var ownDriverRows = []attack{
	swapped("X02", "a guest's directory is exchanged with an unknown guest's while its signed destroy runs", func(w *world) { w.plant("second") }),
	swapped("X04", "a guest's directory is exchanged with that of another guest of this gate while its signed destroy runs",
		func(w *world) { w.makeGuest("second") }),
	{id: "X03", what: "data/ is exchanged with a symlink to another guest's data while signed wipes, restores and snapshots run", want: lostRace,
		run: func(w *world) error {
			w.do("guest.snapshot", "victim", "snapshot", "s")
			require.NoError(w.t, os.Symlink("../bystander/data", w.path("victim", ".link")))
			w.arm()
			w.allow.trash, w.allow.unlogged, w.allow.silent = true, "it may happen in time", true
			w.allow.tree = []string{"victim"}
			for i := range 12 {
				a := []op.Ask{ask("guest.wipe", "victim"), ask("guest.restore", "victim", "snapshot", "s"),
					ask("guest.snapshot", "victim", "snapshot", fmt.Sprintf("n%d", i))}[i%3]
				j, err := w.submit(hub, a)
				if err != nil {
					continue
				}
				if j.State() == op.StatePending {
					r := w.reread(j.Steps[0].ID)
					w.mustApprove(r)
					w.ends(r.ID, op.StateSucceeded, nonce.Used)
				}
				whileSwapping(w.path("victim", "data"), w.path("victim", ".link"), func() { _ = w.executor().execute(w.ctx, j.Steps[0].ID) })
				link, err := os.Readlink(w.path("victim", "data"))
				if err == nil && link != "" {
					require.NoError(w.t, swap(w.path("victim", "data"), w.path("victim", ".link")))
				}
			}
			require.Equal(w.t, outside(w.before.tree, []string{"victim"}), outside(hashTree(w.t, w.root), []string{"victim"}))
			return lostRace
		}},
	{id: "X16", what: "guest.json is a FIFO, a directory, a device, a link or huge: nobody waits for it", want: refusal.Conflict, run: func(w *world) error {
		path := w.path("victim", "guest.json")
		require.NoError(w.t, os.Rename(path, w.path("victim", "data", "aside")))
		w.arm()
		var last error
		for _, make := range []func() error{
			func() error { return unix.Mkfifo(path, 0o600) },
			func() error { return os.Mkdir(path, 0o700) },
			func() error { return os.Symlink("/dev/zero", path) },
			func() error { return os.Symlink("data/aside", path) },
			func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
			func() error { return os.WriteFile(path, []byte(strings.Repeat("[", 1<<20)), 0o600) },
		} {
			require.NoError(w.t, make())
			_, last = w.submit(hub, ask("guest.destroy", "victim"))
			require.ErrorIs(w.t, last, refusal.Conflict)
			require.NoError(w.t, os.RemoveAll(path))
		}
		w.allow.repair = func() { require.NoError(w.t, os.Rename(w.path("victim", "data", "aside"), path)) }
		return last
	}},
	{id: "X17", what: "labels so large that guest.json could not be read again", want: refusal.Oversized, run: func(w *world) error {
		w.arm()
		var last error
		for _, n := range []int{1<<20 - 100, 2 << 20} {
			_, err := w.submit(hub, ask("guest.set-config", "victim", "labels", labels("a", strings.Repeat("x", n))))
			last = errors.Join(err, w.runAll())
			require.True(w.t, w.observe("victim").Present, "the guest can still be looked at")
		}
		return last
	}},
}

// both runs two calls at once.
func both(a, b func()) {
	var wg sync.WaitGroup
	wg.Go(a)
	wg.Go(b)
	wg.Wait()
}

var ownRaceRows = []attack{
	{id: "X15a", what: "approve and reject at once, many times: it ends as rejected and never runs", want: lostRace, run: func(w *world) error {
		w.armUnlogged("both are allowed")
		for i := range 12 {
			r := w.destroyBecause(fmt.Sprint("try ", i))
			yes, no := w.envelopeOf(r), w.rejection(r, w.bob)
			both(func() { _, _ = w.gate.Approve(w.ctx, hub, r.ID, yes) }, func() {
				must.Get(w.gate.Reject(w.ctx, hub, r.ID, no))(w.t)
			})
			require.Equal(w.t, op.StateRejected, w.stepOf(r.ID).State)
			require.ErrorIs(w.t, w.executor().execute(w.ctx, r.ID), refusal.Conflict)
			fate := w.nonceRows()[r.Nonce].fate
			require.Contains(w.t, []nonce.Fate{nonce.Used, nonce.Rejected}, fate)
			w.ends(r.ID, op.StateRejected, fate)
		}
		return lostRace
	}},
	{id: "X15b", what: "cancel and dispatch at once, many times: one of them happened", want: lostRace, run: func(w *world) error {
		w.arm()
		w.allow.trash, w.allow.unlogged = true, "both are allowed"
		for i := range 12 {
			name := fmt.Sprintf("g%d", i)
			w.plant(name)
			w.allow.tree = append(w.allow.tree, name)
			r := w.request(ask("guest.destroy", name))
			w.mustApprove(r)
			var cancelled error
			both(func() { _ = w.executor().execute(w.ctx, r.ID) }, func() { _, cancelled = w.gate.Cancel(w.ctx, hub, r.ID.Job) })
			s := w.stepOf(r.ID)
			w.ends(r.ID, s.State, nonce.Used)
			if cancelled == nil {
				require.Equal(w.t, op.StateCancelled, s.State)
				require.True(w.t, w.observe(name).Present)
			} else {
				require.ErrorIs(w.t, cancelled, refusal.Conflict)
				require.Equal(w.t, op.StateSucceeded, s.State)
				require.False(w.t, w.observe(name).Present)
			}
		}
		w.allow.finale = append(w.allow.tree, "victim")
		return lostRace
	}},
	{id: "X15c", what: "the payload is issued anew while it is approved, many times: one payload counts or none", want: lostRace, run: func(w *world) error {
		w.armUnlogged("both are allowed")
		for range 8 {
			r := w.destroyRequest()
			e := w.envelopeOf(r)
			w.pass(24*time.Hour + gate.Skew)
			var approved error
			both(func() { approved = w.send(r.ID, e) }, func() { w.pass(time.Second); require.NoError(w.t, w.gate.Tick(w.ctx)) })
			now := w.reread(r.ID)
			if approved == nil {
				require.Equal(w.t, op.StateAuthorized, now.Step.State)
				require.Equal(w.t, r.Payload, now.Payload)
			} else {
				require.Contains(w.t, []refusal.Code{refusal.Expired, refusal.Superseded}, refusal.CodeOf(approved))
				require.Equal(w.t, op.StatePending, now.Step.State)
			}
			w.cancel(hub, r.ID.Job)
			fate := nonce.Cancelled
			if approved == nil {
				fate = nonce.Used
			}
			for n, row := range w.nonceRows() {
				if row.request == r.ID && n != r.Nonce {
					require.Equal(w.t, nonce.Cancelled, row.fate)
				}
			}
			w.ends(r.ID, op.StateCancelled, fate)
			w.allow.anyFate = true
		}
		return lostRace
	}},
	{id: "X15d", what: "one step's permits are used by eight drivers at once", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		seen := w.observe("victim")
		w.arm()
		errs, permits := make([]error, 8), make([]gate.Permit, 8)
		for i := range permits {
			permits[i] = must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		}
		var wg sync.WaitGroup
		for i, p := range permits {
			wg.Go(func() { errs[i] = p.Use(w.ctx, seen) })
		}
		wg.Wait()
		used := 0
		var last error
		for _, err := range errs {
			if err == nil {
				used++
			} else {
				require.Contains(w.t, []refusal.Code{refusal.Conflict, refusal.Unavailable}, refusal.CodeOf(err))
				last = refusal.New(refusal.Conflict, "%v", err)
				w.allow.loggedAs = refusal.CodeOf(err)
			}
		}
		require.Equal(w.t, 1, used)
		must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Unknown: true}))(w.t)
		return last
	}},
	{id: "X26", what: "two whole daemons start on one state at once", want: refusal.Conflict, run: func(w *world) error {
		w.armUnlogged("one of them does not start")
		w.shut()
		hosts, errs := make([]*host, 2), make([]error, 2)
		both(func() { hosts[0], errs[0] = openHost(w.ctx, w.config()) }, func() { hosts[1], errs[1] = openHost(w.ctx, w.config()) })
		require.NotEqual(w.t, errs[0] == nil, errs[1] == nil, "%v", errs)
		for i, h := range hosts {
			if errs[i] == nil {
				w.host = h
			}
		}
		require.True(w.t, exists(filepath.Join(w.dir, "lock")))
		return errors.Join(errs...)
	}},
}
