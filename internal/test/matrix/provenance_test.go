package matrix_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/nonce"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// unsigned is a row in which somebody asks for what takes data, after some
// preparation that is to make it look harmless.
func unsigned(id, what string, prepare func(w *world), by op.Requester, a op.Ask) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		prepare(w)
		if w.late != nil {
			w.late(w)
		}
		w.arm()
		w.allow.finale = []string{a.Target.Name}
		return w.waits(w.submit(by, a))
	}}
}

// asked is a row in which a job is refused for its words.
func asked(id, what string, want refusal.Code, asks ...op.Ask) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		w.do("guest.snapshot", "victim", "snapshot", "s")
		w.arm()
		var last error
		for _, a := range asks {
			_, last = w.submit(builder, a)
			require.ErrorIs(w.t, last, want, "%v", a)
		}
		return last
	}}
}

// claimed puts each claim on operations on a guest that exists.
func claimed() (out []op.Ask) {
	for _, claim := range []string{"scratch", "provenance", "created_by", "class", "benign", "verdict", "birth", "incarnation", "undoes"} {
		for _, name := range []string{"guest.destroy", "guest.wipe", "guest.set-config", "guest.stop"} {
			out = append(out, ask(name, "victim", claim, true), ask(name, "victim", claim, "benign"))
		}
	}
	return out
}

func nothing(*world) {}

func scratch(w *world) { w.makeFor(builder, "tmp", "scratch", true) }

// foreignData puts a data tree that the gate did not make into the scratch guest.
func foreignData(w *world) {
	scratch(w)
	mkdirs(w, ".kept")
	w.write("a disk from elsewhere", ".kept", "data", "disk.img")
	require.NoError(w.t, swap(w.path(".kept", "data"), w.path("tmp", "data")))
}

func movedDisk(w *world) {
	scratch(w)
	w.do("guest.snapshot", "bystander", "snapshot", "s")
	require.NoError(w.t, os.Rename(w.path("bystander", "snapshots", "s"), w.path("tmp", "snapshots", "s")))
}

var provenanceRows = []attack{
	asked("P01a", "a job claims scratch, provenance, class … of a guest that exists", refusal.BadParams, claimed()...),
	unsigned("P01b", "the claims stand in the labels of a create; the destroy comes after", func(w *world) {
		w.makeFor(builder, "tmp", "labels", labels("scratch", "true", "created_by", "agent:builder", "class", "benign"))
	}, builder, ask("guest.destroy", "tmp")),
	{id: "P01c", what: "desired state says scratch", want: refusal.BadParams, run: func(w *world) error {
		w.armUnlogged("the document is refused whole; status says so")
		s := w.apply(map[string]string{"hub": document("  - name: victim\n    scratch: true\n    state: absent\n")})
		return inStatus(w, s)
	}},
	unsigned("P02", "a scratch guest destroyed out of band, a real one made with its name", func(w *world) {
		scratch(w)
		w.vanish("tmp")
		w.plant("tmp")
	}, builder, ask("guest.destroy", "tmp")),
	unsigned("P03a", "scratch older than its maximum age", func(w *world) { scratch(w); w.pass(24 * time.Hour) }, builder, ask("guest.destroy", "tmp")),
	unsigned("P03b", "scratch that desired state mentions", func(w *world) {
		scratch(w)
		w.apply(map[string]string{"web": document("  - name: tmp\n    memory: 64MiB\n")})
	}, builder, ask("guest.destroy", "tmp")),
	unsigned("P03c", "another agent asks for it", scratch, tester, ask("guest.destroy", "tmp")),
	unsigned("P03d", "scratch that somebody protected, and then unprotected by a signature", func(w *world) {
		scratch(w)
		w.do("guest.set-config", "tmp", "protected", true)
		w.mustApprove(w.request(ask("guest.set-config", "tmp", "protected", false)))
		require.NoError(w.t, w.runAll())
	}, builder, ask("guest.destroy", "tmp")),
	unsigned("P03e", "scratch, and a clock that is not believed", scratch, builder, ask("guest.destroy", "tmp")).
		with(func(w *world) {
			w.setClock(-10 * time.Hour)
			w.allow.repair = func() { w.setClock(10 * time.Hour) }
		}),
	unsigned("P04", "destroying what an earlier job of the same agent made, not as scratch", func(w *world) { w.makeFor(builder, "tmp") },
		builder, ask("guest.destroy", "tmp")),
	{id: "P05", what: "jobs that fail on purpose: what takes them back reaches what they made alone", want: refusal.Conflict, run: compensations},
	{id: "P05b", what: "a job that fails sets a guest back that an operator set and started since", want: refusal.Superseded, run: undoneLate},
	unsigned("P06a", "taking the protection away", func(w *world) { w.makeGuest("tmp", "protected", true) }, hub,
		ask("guest.set-config", "tmp", "protected", false)),
	unsigned("P06b", "destroying what was protected until an operator took that away", func(w *world) {
		w.makeGuest("tmp", "protected", true)
		w.mustApprove(w.request(ask("guest.set-config", "tmp", "protected", false)))
		require.NoError(w.t, w.runAll())
	}, hub, ask("guest.destroy", "tmp")),
	unsigned("P06c", "changing a label", func(w *world) { w.makeGuest("tmp", "labels", labels("tier", "prod")) }, hub,
		ask("guest.set-config", "tmp", "labels", labels("tier", "scratch"))),
	unsigned("P06d", "adding a label, which is benign, then destroying", func(w *world) {
		w.do("guest.set-config", "victim", "labels", labels("scratch", "true"))
	}, builder, ask("guest.destroy", "victim")),
	unsigned("P06e", "desired state takes the protection away", func(w *world) { w.makeGuest("tmp", "protected", true) }, hub,
		ask("guest.set-config", "tmp", "protected", false)).via("  - name: tmp\n    protected: false\n"),
	asked("P07a", "rename, shrink, detach and delete a disk, by the names of other tools", refusal.UnknownOp, ask("guest.rename", "victim"),
		ask("guest.shrink", "victim"), ask("guest.detach-disk", "victim"), ask("guest.delete-disk", "victim"), ask("guest.migrate", "victim")),
	unsigned("P07b", "restoring onto a guest", func(w *world) { w.do("guest.snapshot", "victim", "snapshot", "s") }, hub,
		ask("guest.restore", "victim", "snapshot", "s")),
	unsigned("P07c", "deleting a snapshot", func(w *world) { w.do("guest.snapshot", "victim", "snapshot", "s") }, hub,
		ask("guest.snapshot-delete", "victim", "snapshot", "s")),
	unsigned("P07d", "wiping", nothing, hub, ask("guest.wipe", "victim")),
	asked("P08a", "operations that do not exist, or in another case", refusal.UnknownOp, ask("guest.obliterate", "victim"), ask("Guest.destroy", "victim"),
		ask("guest.Destroy", "victim"), ask("GUEST.DESTROY", "victim"), ask("guest.destroy ", "victim"), ask("", "victim"), ask("destroy", "victim")),
	asked("P08b", "parameters that do not exist", refusal.BadParams, ask("guest.destroy", "victim", "force", true), ask("guest.stop", "victim", "wipe", true),
		ask("guest.snapshot", "victim", "snapshot", "s2", "Snapshot", "s"), ask("guest.set-config", "victim", "Protected", false)),
	asked("P13a", "a job sets environment, user, mounts, disks", refusal.NotAllowed, ask("guest.set-config", "victim", "environment", labels("A", "b")),
		ask("guest.set-config", "victim", "user", "root"), ask("guest.create", "new", "mounts", "/:/"), ask("guest.create", "new", "disk", "/dev/sda"),
		ask("guest.start", "victim", "argv", "sh"), ask("guest.restore", "victim", "snapshot", "s", "path", "/")),
	asked("P13b", "a job sets a command that the configuration does not name", refusal.NotAllowed, ask("guest.set-config", "victim", "command", "sh"),
		ask("guest.create", "new", "command", "rm")),
	{id: "P12", what: "rows written into the database by hand, that say scratch", want: reported, run: forgedRows},
	unsigned("P14", "scratch whose data/ is storage that existed before", foreignData, builder, ask("guest.destroy", "tmp")),
	{id: "P15a", what: "create X and destroy another in one job: nothing is made while the destroy waits, nor after its rejection", want: refusal.Rejected,
		run: func(w *world) error {
			j := must.Get(w.submit(hub, ask("guest.create", "x"), ask("guest.destroy", "victim")))(w.t)
			w.arm()
			require.NoError(w.t, w.runAll())
			require.False(w.t, w.observe("x").Present)
			r := w.reread(j.Steps[1].ID)
			w.ends(r.ID, op.StateRejected, nonce.Rejected)
			must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.alice)))(w.t)
			require.NoError(w.t, w.runAll())
			require.False(w.t, w.observe("x").Present)
			w.allow.silent = true
			return w.send(r.ID, w.envelopeOf(r))
		}},
	unsigned("P16a", "a foreign disk moved into scratch", movedDisk, builder, ask("guest.destroy", "tmp")),
	unsigned("P16b", "a file put beside scratch's own", func(w *world) { scratch(w); w.write("x", "tmp", "disk.img") }, builder, ask("guest.destroy", "tmp")),
	unsigned("P16c", "a snapshot of it, wiped unsigned by its creator", func(w *world) {
		scratch(w)
		w.do("guest.snapshot", "tmp", "snapshot", "s")
	}, builder, ask("guest.wipe", "tmp")),
	unsigned("P18a", "the uid of scratch's creator, without being the agent", scratch, hub, ask("guest.destroy", "tmp")),
	unsigned("P18b", "an agent whose scratch was made by a bare uid", func(w *world) { w.makeFor(hub, "tmp", "scratch", true) }, builder,
		ask("guest.destroy", "tmp")),
	unsigned("P18c", "the bare uid that made scratch", func(w *world) { w.makeFor(hub, "tmp", "scratch", true) }, hub, ask("guest.destroy", "tmp")),
}

// with adds to what a row prepares, after everything else.
func (a attack) with(more func(w *world)) attack {
	run := a.run
	a.run = func(w *world) error { w.late = more; return run(w) }
	return a
}

// via asks by desired state in place of a job.
func (a attack) via(guests string) attack {
	name := strings.Fields(guests)[2]
	a.run = func(w *world) error {
		w.makeGuest(name, "protected", true)
		w.arm()
		w.allow.finale = []string{name}
		w.apply(map[string]string{"hub": document(guests)})
		return w.planned(name)
	}
	return a
}

// compensations runs jobs of benign steps on things of their own whose last one
// cannot be done, beside guests that others own.
func compensations(w *world) error {
	w.makeFor(other, "theirs", "command", "idle")
	w.do("guest.start", "theirs") // its data is its own uid's from its first start on
	w.do("guest.stop", "theirs")
	w.arm()
	w.allow.trash = true
	var last error
	for i := range 5 {
		w.pass(time.Second) // what was done before is not what others did since
		asks := []op.Ask{}
		for n := range i {
			asks = append(asks, ask("guest.create", fmt.Sprintf("own%d-%d", i, n)))
		}
		asks = append(asks, ask("guest.start", "theirs"), ask("guest.start", "victim")) // victim has no command
		j := must.Get(w.submit(builder, asks...))(w.t)
		last = w.runAll()
		require.ErrorIs(w.t, last, refusal.Conflict)
		done := must.Get(w.gate.Job(w.ctx, j.ID))(w.t)
		for _, s := range done.Steps[len(asks):] {
			taken := done.Steps[s.Undoes-1]
			require.Equal(w.t, taken.Target, s.Target)
			require.Equal(w.t, taken.Incarnation, s.Incarnation)
			require.Equal(w.t, op.StateSucceeded, s.State, "%s %s", s.Op, s.Detail)
		}
		require.Len(w.t, done.Steps, 2*len(asks)-1)
	}
	return last
}

// undoneLate has a job change and start another's guest, and fail after an operator did the same.
func undoneLate(w *world) error {
	w.makeFor(other, "theirs", "command", "idle", "memory", int64(512))
	j := must.Get(w.submit(builder, ask("guest.set-config", "theirs", "memory", int64(600)), ask("guest.start", "theirs"),
		ask("guest.start", "victim")))(w.t) // victim has no command
	require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
	require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[1].ID))
	set := must.Get(w.submit(hub, ask("guest.set-config", "theirs", "memory", int64(8192)), ask("guest.restart", "theirs")))(w.t)
	require.NoError(w.t, w.executor().execute(w.ctx, set.Steps[0].ID))
	require.NoError(w.t, w.executor().execute(w.ctx, set.Steps[1].ID))
	w.arm()
	require.ErrorIs(w.t, w.executor().execute(w.ctx, j.Steps[2].ID), refusal.Conflict)
	err := w.runAll()
	for _, s := range must.Get(w.gate.Job(w.ctx, j.ID))(w.t).Steps[3:] {
		require.Equal(w.t, op.StateSuperseded, s.State, "%s %s", s.Op, s.Detail)
	}
	o := w.observe("theirs")
	require.Equal(w.t, int64(8192), o.Spec.Int("memory"))
	require.Equal(w.t, op.Running, o.Running)
	return err
}

func forgedRows(w *world) error {
	o := w.observe("bystander")
	w.makeFor(builder, "tmp", "scratch", true)
	w.plant("foreign")
	inc := string(w.observe("foreign").Incarnation)
	w.armUnlogged("whoever writes the database does not ask")
	w.allow.finale = []string{"victim"}
	for _, change := range [][2]string{
		{`UPDATE incarnations SET scratch = 1, agent = 'builder', scratch_until = 9000000000000000000 WHERE incarnation = '` + string(o.Incarnation) + `'`,
			`UPDATE incarnations SET scratch = 0, agent = '', scratch_until = 0 WHERE incarnation = '` + string(o.Incarnation) + `'`},
		{`INSERT INTO incarnations(incarnation, kind, name, creator, agent, job, scratch, scratch_until, created_at)
			VALUES('` + inc + `', 'guest', 'foreign', 'agent:builder', 'builder', 1, 1, 9000000000000000000, 0)`,
			`DELETE FROM incarnations WHERE incarnation = '` + inc + `'`},
		{`INSERT INTO storage(incarnation, id, job) VALUES('` + string(o.Incarnation) + `', 'data:1:1', 1)`, `DELETE FROM storage WHERE id = 'data:1:1'`},
	} {
		w.sql(change[0])
		require.False(w.t, w.fsck().Sound, "%s", change[0])
		require.Equal(w.t, fsck.Provenance, w.fsck().Problems[0].Rule)
		w.sql(change[1])
		require.True(w.t, w.fsck().Sound, "%s: %v", change[1], w.fsck().Problems)
	}
	return reported
}

func (w *world) sql(text string) {
	w.t.Helper()
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error { _, err := tx.Exec(text); return err }))
}

func (w *world) fsck() (r fsck.Report) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) { r, err = fsck.Run(tx); return err }))
	return r
}

// inStatus returns what status says of the first source, as its code.
func inStatus(w *world, s reconcile.Status) error {
	w.t.Helper()
	require.Len(w.t, s.Sources, 1)
	require.False(w.t, s.Sources[0].OK)
	return refusal.New(s.Sources[0].Code, "%s", s.Sources[0].Error)
}
