package local

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// looks is a look for a step that changes nothing.
func (w *world) looks(verb, name string, kv ...any) op.Observed {
	w.t.Helper()
	before := w.hash()
	l := op.Step{Op: "guest." + verb, Target: target(name), Params: gateworld.Params(kv...)}.Look()
	o := must.Get(w.d.Observe(w.ctx, l))(w.t)
	require.Equal(w.t, before, w.hash(), "a look changed something")
	return o
}

// foreseen checks that the look for a step says what the step itself is refused for.
func (w *world) foreseen(code refusal.Code, verb, name string, kv ...any) op.Observed {
	w.t.Helper()
	o := w.looks(verb, name, kv...)
	no := w.refused(code, verb, name, kv...)
	require.Equal(w.t, op.Observed{Cannot: no.Detail, Clear: no.Hint, CannotCode: code},
		op.Observed{Cannot: o.Cannot, Clear: o.Clear, CannotCode: o.CannotCode}, verb)
	return o
}

// clear checks that a look says nothing against a step.
func (w *world) clear(verb, name string, kv ...any) {
	w.t.Helper()
	o := w.looks(verb, name, kv...)
	require.Empty(w.t, o.Cannot+o.Missing, verb)
}

// TestALookSaysWhatItsStepWouldBeRefusedFor: so nobody signs what cannot be done.
func TestALookSaysWhatItsStepWouldBeRefusedFor(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.do("snapshot", "web", "snapshot", "s")
	for _, verb := range []string{"restore", "snapshot-delete"} {
		require.Equal(t, `guest/web has no snapshot "nope"`, w.looks(verb, "web", "snapshot", "nope").Missing)
		w.refused(refusal.UnknownTarget, verb, "web", "snapshot", "nope")
		w.clear(verb, "web", "snapshot", "s")
	}
	w.foreseen(refusal.Conflict, "snapshot", "web", "snapshot", "s")
	w.clear("snapshot", "web", "snapshot", "t")
	for _, verb := range []string{"start", "restart"} {
		require.Contains(t, w.foreseen(refusal.Conflict, verb, "web").Clear, "guest.set-config web -p command=NAME")
	}
	w.foreseen(refusal.Conflict, "create", "new", "state", "running")
	w.foreseen(refusal.NotAllowed, "create", "new", "command", "other")
	w.foreseen(refusal.NotAllowed, "set-config", "web", "command", "other")
	w.foreseen(refusal.BadParams, "create", "new", "template", "debian")
	w.clear("create", "new", "command", "sleep", "state", "running")
	require.Empty(t, w.looks("create", "web").Cannot, "the gate itself says that it exists")
	w.clear("set-config", "web", "command", "sleep", "memory", int64(64))

	w.do("set-config", "web", "command", "sleep")
	w.clear("start", "web")
	require.NoError(t, unix.Mkfifo(w.path("web", "snapshots", "s", "pipe"), 0o600))
	require.NoError(t, unix.Mkfifo(w.path("web", "data", "pipe"), 0o600))
	w.foreseen(refusal.TooComplex, "restore", "web", "snapshot", "s")
	w.foreseen(refusal.TooComplex, "snapshot", "web", "snapshot", "t")
	w.clear("snapshot-delete", "web", "snapshot", "s")
	w.cfg.Commands = map[string]Command{}
	w.restart()
	for _, verb := range []string{"start", "restart"} {
		w.foreseen(refusal.NotAllowed, verb, "web")
	}
	w.clear("stop", "web")

	for range 2 {
		w.do("create", "twin")
		w.do("destroy", "twin")
	}
	w.foreseen(refusal.Conflict, "undelete", "twin")
	w.clear("undelete", "twin", "incarnation", string(w.observe("twin").Trash[0].Incarnation))
}

// TestALookTellsParametersThatNoGuestMakesRight: also of a guest that there is not, because an earlier step of the job may make it.
func TestALookTellsParametersThatNoGuestMakesRight(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	for _, name := range []string{"web", "new"} {
		o := w.looks("set-config", name, "command", "other")
		require.True(t, o.Never, name)
		require.Equal(t, refusal.NotAllowed, o.CannotCode, name)
		require.False(t, w.looks("set-config", name, "command", "sleep").Never, name)
	}
	require.True(t, w.looks("create", "new", "template", "debian").Never)
	require.True(t, w.foreseen(refusal.Conflict, "create", "new", "state", "running").Never)
	o := w.looks("start", "web")
	require.NotEmpty(t, o.Cannot)
	require.False(t, o.Never, "a command may be set")
}

// TestALookTellsACommandThatNoSettingLetsRun: a create that starts it, whatever the name has. A start, if no other command could run.
func TestALookTellsACommandThatNoSettingLetsRun(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.GuestUIDs, c.SingleUser = UIDRange{}, false })
	w.do("create", "web", "command", "sleep")
	for _, name := range []string{"web", "new"} {
		o := w.looks("create", name, "command", "sleep", "state", "running")
		require.True(t, o.Never, name)
		require.Equal(t, refusal.NotAllowed, o.CannotCode, name)
		require.Contains(t, o.Cannot, "would run as", name)
		require.False(t, w.looks("create", name, "command", "sleep").Never, name)
	}
	require.True(t, w.foreseen(refusal.NotAllowed, "start", "web").Never)
	require.True(t, w.foreseen(refusal.NotAllowed, "restart", "web").Never)
	w.d.accounts["stubborn"] = account{Switch: true}
	require.False(t, w.foreseen(refusal.NotAllowed, "start", "web").Never, "another command could be set")
	require.True(t, w.looks("create", "new", "command", "sleep", "state", "running").Never)
}

// TestALookSaysWhatIsMounted: the old tree would be renamed into the trash with the mount.
func TestALookSaysWhatIsMounted(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.do("snapshot", "web", "snapshot", "s")
	for _, at := range []string{"data/mnt", "snapshots/s/x", ""} {
		point := w.path("web", at)
		w.d.mountinfo = func() ([]byte, error) { return []byte("1 2 0:1 / " + point + " rw - ext4 /dev/x rw\n"), nil }
		for verb, kv := range map[string][]any{"destroy": nil, "wipe": nil, "restore": {"snapshot", "s"}} {
			o := w.foreseen(refusal.Conflict, verb, "web", kv...)
			require.Equal(t, "guest."+verb+" would reach through the mount at "+point, o.Cannot)
			require.Equal(t, "unmount it first", o.Clear)
		}
		if at == "snapshots/s/x" {
			w.foreseen(refusal.Conflict, "snapshot-delete", "web", "snapshot", "s")
		} else {
			w.clear("snapshot-delete", "web", "snapshot", "s")
		}
		for _, verb := range []string{"start", "stop", "snapshot", "set-config"} {
			w.clear(verb, "web", "snapshot", "t")
		}
	}
	w.d.mountinfo = func() ([]byte, error) { return nil, os.ErrPermission }
	w.clear("destroy", "web") // the step itself says that the table cannot be read
	require.ErrorIs(t, w.try("destroy", "web"), os.ErrPermission)
}

// TestALookEndsNothing: the step would first end what an earlier run left. A look only asks.
func TestALookEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.do("snapshot", "web", "snapshot", "s")
	inc := w.observe("web").Incarnation
	rest := startMarked(t, inc)
	w.d.lost.add(lostGuest{name: "web", inc: inc, verdict: verdict{err: context.DeadlineExceeded}})
	for verb := range preparers {
		w.looks(verb[len("guest."):], "web", "snapshot", "s")
		require.False(t, rest.Ended(), verb)
	}
	w.do("stop", "web")
	require.True(t, rest.Ended())
}

// TestAPutBackGuestWhoseCommandIsGone: it runs, and no daemon has looked at that run. Its steps are foreseen as they end.
func TestAPutBackGuestWhoseCommandIsGone(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	w.do("snapshot", "web", "snapshot", "s")
	pid := w.process("web").run.PID
	w.cfg.Commands = map[string]Command{}
	w.putBack("web", false)
	for verb := range preparers {
		o := w.looks(verb[len("guest."):], "web", "snapshot", "s")
		require.Equal(t, verb == "guest.restart" || verb == "guest.snapshot", o.Cannot != "", "%s: %s", verb, o.Cannot)
	}
	w.foreseen(refusal.NotAllowed, "restart", "web")
	w.do("start", "web") // it runs already
	require.Equal(t, pid, w.process("web").run.PID)
	w.do("stop", "web")
	w.foreseen(refusal.NotAllowed, "start", "web")
}
