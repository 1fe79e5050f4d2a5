package matrix_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// mistaken is a back end that says something else of a guest than it sees.
type mistaken struct {
	*local.Driver
	says func(op.Observed) op.Observed
}

func (d mistaken) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	o, err := d.Driver.Observe(ctx, l)
	if err == nil && t == guest("victim") {
		o = d.says(o)
	}
	return o, err
}

func (d mistaken) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	now, err := d.Observe(ctx, step.Look())
	return now, driver.Does(func(context.Context) (driver.Result, error) { panic("it may run") }), err
}

// looksWrong is a row in which the back end's look at the victim cannot be
// believed, when a destroy is asked for and when a signed one is about to run.
func looksWrong(id, what string, says func(w *world) func(op.Observed) op.Observed) attack {
	return attack{id: id, what: "the back end, asked for a guest, " + what, want: refusal.Unavailable, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		w.allow.runs = true
		w.back = mistaken{w.driver, says(w)}
		must.Fail(w.submit(hub, ask("guest.wipe", "victim")))(w.t, refusal.Unavailable)
		err := w.executor().execute(w.ctx, r.ID)
		w.back = nil
		require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
		return err
	}}
}

// backEndRows are attacks by, or through, back ends and guests' processes.
var backEndRows = []attack{
	looksWrong("X95a", "answers for another one", func(w *world) func(op.Observed) op.Observed {
		theirs := w.observe("bystander")
		return func(op.Observed) op.Observed { return theirs }
	}),
	looksWrong("X95b", "does not say which one it is", func(*world) func(op.Observed) op.Observed {
		return func(o op.Observed) op.Observed { o.Incarnation = ""; return o }
	}),
	looksWrong("X95c", "answers for no target at all", func(*world) func(op.Observed) op.Observed {
		return func(op.Observed) op.Observed { return op.Observed{} }
	}),
	{id: "X95d", what: "the back end gives a real guest the incarnation and the storage of scratch, whose creator destroys it", want: refusal.PendingSignature,
		run: func(w *world) error {
			scratch(w)
			tmp := w.observe("tmp")
			w.arm()
			w.back = mistaken{w.driver, func(o op.Observed) op.Observed {
				o.Incarnation, o.Storage, o.Birth = tmp.Incarnation, tmp.Storage, tmp.Birth
				return o
			}}
			j, err := w.submit(builder, ask("guest.destroy", "victim"))
			err = w.waits(j, err)
			w.back = nil
			w.cancel(builder, j.ID)
			w.ends(j.Steps[0].ID, op.StateCancelled, nonce.Cancelled)
			return err
		}},
	{id: "X95e", what: "the back end panics each time before it takes the permit of a signed destroy", want: refusal.Code(op.StateRefused), run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		w.back = mistaken{w.driver, func(op.Observed) op.Observed { panic("a back end's bug") }}
		w.reconcile()
		w.back = nil
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate)
		must.Fail(w.approve(r))(w.t, refusal.Replayed)
		return refusal.Code(w.stepOf(r.ID).State)
	}},
	{id: "X95f", what: "a back end keeps a permit, says that it cannot, and uses it when the step was given up", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		must.Get(w.gate.Refuse(w.ctx, r.ID, refusal.New(refusal.Conflict, "it cannot be done")))(w.t)
		w.arm()
		return p.Use(w.ctx, w.observe("victim"))
	}},
	{id: "X95g", what: "a back end lets a step begin while another one of its target has begun, by a permit from before", want: refusal.Unavailable,
		run: func(w *world) error {
			wipe, destroy := w.request(ask("guest.wipe", "victim")), w.destroyRequest()
			w.mustApprove(wipe)
			w.mustApprove(destroy)
			first, second := must.Get(w.gate.Permit(w.ctx, wipe.ID))(w.t), must.Get(w.gate.Permit(w.ctx, destroy.ID))(w.t)
			seen := w.observe("victim")
			require.NoError(w.t, first.Use(w.ctx, seen))
			w.arm()
			err := second.Use(w.ctx, seen)
			must.Get(w.gate.Record(w.ctx, wipe.ID, gate.Outcome{Unknown: true}))(w.t)
			w.allow.runs = true
			return err
		}},
	{id: "X96a", what: "a guest's process leaves its session, group and environment, and goes on writing while the guest is wiped", want: refusal.Code(op.StateSucceeded),
		run: func(w *world) error {
			pid := w.startEscaped("web")
			r := w.request(ask("guest.wipe", "web"))
			w.mustApprove(r)
			w.arm()
			w.allow.trash, w.allow.tree, w.allow.finale = true, []string{"web"}, []string{"web", "victim"}
			require.NoError(w.t, w.runAll())
			old := must.Get(filepath.Glob(w.path(".trash", "*~part~*", "beat")))(w.t)
			require.Len(w.t, old, 1)
			size := fileSize(old[0])
			require.Eventually(w.t, func() bool { return fileSize(old[0]) > size || zombie(pid) }, time.Minute, time.Millisecond)
			require.Empty(w.t, must.Get(os.ReadDir(w.path("web", "data")))(w.t), "it wrote into what is new")
			return refusal.Code(w.stepOf(r.ID).State)
		}},
	{id: "X96b", what: "a guest's process makes files as fast as it can while the guest is destroyed", want: refusal.Code(op.StateSucceeded), run: func(w *world) error {
		w.withCommands("busy")
		w.makeGuest("web", "command", "busy")
		w.do("guest.start", "web")
		require.Eventually(w.t, func() bool { return exists(w.path("web", "data", "f.100")) }, time.Minute, time.Millisecond)
		r := w.request(ask("guest.destroy", "web"))
		w.mustApprove(r)
		w.arm()
		w.allow.trash, w.allow.tree, w.allow.finale = true, []string{"web"}, []string{"web", "victim"}
		require.NoError(w.t, w.runAll())
		require.False(w.t, exists(w.path("web")))
		at := must.Get(filepath.Glob(w.path(".trash", "web~*")))(w.t)
		was := hashTree(w.t, at[0])
		require.NoError(w.t, w.driver.Sweep(w.ctx))
		require.Equal(w.t, was, hashTree(w.t, at[0]), "something still writes into what was destroyed")
		return refusal.Code(w.stepOf(r.ID).State)
	}},
}

// escaper leaves everything by which it could be found as its guest's, and says
// which process it is.
const escaper = `env -i setsid sh -c 'echo $$ > pid; while :; do echo . >> beat; done' & exec sleep 1000`

const busy = `i=0; while :; do i=$((i+1)); : > f.$i; test $i -gt 2000 && i=0; done`

func init() {
	env := map[string]string{"PATH": "/usr/bin:/bin"}
	commands["escaper"] = local.Command{Argv: []string{"/bin/sh", "-c", escaper}, Env: env}
	commands["busy"] = local.Command{Argv: []string{"/bin/sh", "-c", busy}, Env: env}
}

// withCommands lets jobs name further commands.
func (w *world) withCommands(names ...string) {
	w.t.Helper()
	w.rules.Commands = append(w.rules.Commands, names...)
	w.reload()
}

// startEscaped starts a guest whose process escapes, and returns which one that
// is. It ends with the case.
func (w *world) startEscaped(name string) (pid int) {
	w.t.Helper()
	w.withCommands("escaper")
	w.makeGuest(name, "command", "escaper")
	w.do("guest.start", name)
	require.Eventually(w.t, func() bool {
		b, err := os.ReadFile(w.path(name, "data", "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && pid > 1
	}, time.Minute, time.Millisecond)
	w.cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// fileSize is in bytes, 0 of a file that is not there.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
