package matrix_test

import (
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/nonce"
)

// bound is a row in which an operator's valid signature stands over a payload
// that differs from the request's in one thing. It is tried at both end points,
// with the request's nonce, and against the request with a fresh one.
func bound(id, what string, want refusal.Code, change func(*op.Payload)) attack {
	return attack{id: id, what: "a listed key signs another " + what, want: want, run: func(w *world) error {
		w.do("guest.snapshot", "victim", "snapshot", "good")
		w.do("guest.snapshot", "victim", "snapshot", "bad")
		r := w.request(ask("guest.restore", "victim", "snapshot", "good"))
		same := w.altered(r, change)
		fresh := w.altered(r, func(p *op.Payload) { change(p); p.Nonce = op.NewNonce(time.Now()) })
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.alice.envelope(w.t, fresh)), want)
		require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, same)), want)
		return w.send(r.ID, w.alice.envelope(w.t, same))
	}}
}

// do runs a benign step of the hub's.
func (w *world) do(name, target string, kv ...any) {
	w.t.Helper()
	require.NoError(w.t, w.runJob(hub, ask(name, target, kv...)))
}

// again looks again at the victim, as reconcile does when the gate wakes it.
func (w *world) again() {
	w.t.Helper()
	require.NoError(w.t, w.gate.Refresh(w.ctx, guest("victim")))
}

// staleAtApproval is a row in which the target becomes another between the
// signature and the approval.
func staleAtApproval(id, what string, then op.State, change func(w *world)) attack {
	return attack{id: id, what: what + ", between signing and approval", want: refusal.StaleTarget, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.alice.envelope(w.t, r.Payload)
		change(w)
		w.arm()
		err := w.send(r.ID, e)
		w.again()
		w.ends(r.ID, then, nonce.Superseded)
		return err
	}}
}

// staleAtExecution is a row in which that happens between approval and
// execution: the nonce stays spent and the step ends as refused.
func staleAtExecution(id, what string, change func(w *world)) attack {
	return attack{id: id, what: what + ", between approval and execution", want: refusal.StaleTarget, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		change(w)
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate)
		require.ErrorIs(w.t, w.send(r.ID, w.alice.envelope(w.t, r.Payload)), refusal.Replayed)
		return err
	}}
}

func remade(w *world)   { w.vanish("victim"); w.plant("victim") }
func guarded(w *world)  { w.edit(`"protected":false`, `"protected":true`, "victim", "guest.json") }
func labelled(w *world) { w.edit(`"labels":{}`, `"labels":{"keep":"yes"}`, "victim", "guest.json") }
func copied(w *world)   { w.write("x", "victim", "snapshots", "by-hand", "file") }

var bindingRows = []attack{
	bound("B01", "host", refusal.TargetMismatch, func(p *op.Payload) { p.Host = "pve2" }),
	bound("B02", "gate id", refusal.TargetMismatch, func(p *op.Payload) { p.Gate = op.GateID(strings.Repeat("a", 32)) }),
	bound("B03", "operation", refusal.BindingMismatch, func(p *op.Payload) { p.Op = "guest.snapshot-delete" }),
	bound("B04", "target", refusal.BindingMismatch, func(p *op.Payload) { p.Target.Name = "bystander" }),
	bound("B05a", "incarnation", refusal.BindingMismatch, func(p *op.Payload) { p.Incarnation += "0" }),
	bound("B05b", "state", refusal.BindingMismatch, func(p *op.Payload) { p.State = op.FingerprintOf(nil) }),
	bound("B06a", "parameter's value", refusal.BindingMismatch, func(p *op.Payload) { p.Params = op.Params{"snapshot": "bad"} }),
	bound("B06b", "parameter more", refusal.BindingMismatch, func(p *op.Payload) {
		p.Params = op.Params{"snapshot": "good", "force": true}
	}),
	bound("B06c", "parameter less", refusal.BindingMismatch, func(p *op.Payload) { p.Params = op.Params{} }),
	bound("B06d", "reason", refusal.BindingMismatch, func(p *op.Payload) { p.Reason = "routine" }),
	{id: "B06e", what: "an offline payload, validly signed, for an incarnation that is no more", want: refusal.StaleTarget,
		run: func(w *world) error {
			r := w.destroyRequest()
			b := w.altered(r, func(p *op.Payload) { p.Nonce, p.Incarnation = op.NewNonce(time.Now()), p.Incarnation+"0" })
			w.arm()
			return w.sendOffline(w.alice.envelope(w.t, b))
		}},
	staleAtApproval("B07", "the target is destroyed and made again", op.StateSuperseded, remade),
	staleAtExecution("B08", "the target is destroyed and made again", remade),
	staleAtApproval("B09a", "the target is protected", op.StatePending, guarded),
	staleAtExecution("B09b", "the target is protected", guarded),
	staleAtApproval("B09c", "the target is labelled", op.StatePending, labelled),
	staleAtExecution("B09d", "a snapshot is put in by hand", copied),
	{id: "B14a", what: "request A is approved with the envelope of request B", want: refusal.BindingMismatch, run: func(w *world) error {
		a, b := w.destroyRequest(), w.request(ask("guest.destroy", "bystander"))
		w.arm()
		require.ErrorIs(w.t, w.send(b.ID, w.alice.envelope(w.t, a.Payload)), refusal.BindingMismatch)
		return w.send(a.ID, w.alice.envelope(w.t, b.Payload))
	}},
	{id: "B18a", what: "the guest.json of a scratch guest is copied into another guest", want: refusal.StaleTarget, run: func(w *world) error {
		w.makeFor(builder, "tmp", "scratch", true)
		w.allow.repair = w.copyOver("tmp/guest.json", "victim/guest.json")
		w.arm()
		return failure(w.submit(builder, ask("guest.destroy", "victim")))
	}},
	{id: "B18b", what: "the same, between the approval of a destroy of the scratch guest and its execution", want: refusal.StaleTarget,
		run: func(w *world) error {
			w.makeFor(builder, "tmp", "scratch", true)
			r := w.requestBy(hub, ask("guest.destroy", "tmp"))
			w.mustApprove(r)
			w.allow.repair = w.copyOver("tmp/guest.json", "victim/guest.json")
			w.arm()
			return w.executor().execute(w.ctx, r.ID)
		}},
	{id: "B18c", what: "a scratch guest is copied whole under another name", want: refusal.StaleTarget, run: func(w *world) error {
		w.makeFor(builder, "tmp", "scratch", true)
		w.copyTree("tmp", "copy")
		w.arm()
		w.allow.finale = []string{"victim", "copy"}
		return failure(w.submit(builder, ask("guest.destroy", "copy")))
	}},
	{id: "B18d", what: "a real guest gets the uuid of a scratch guest, with its own inode and birth time", want: refusal.StaleTarget,
		run: func(w *world) error {
			w.makeFor(builder, "tmp", "scratch", true)
			uuid, _, _ := strings.Cut(string(w.observe("tmp").Incarnation), ":")
			w.plantAs("real", uuid)
			w.arm()
			w.allow.repair = func() { w.vanish("real") }
			w.allow.finale = []string{"victim", "real"}
			return failure(w.submit(builder, ask("guest.destroy", "real")))
		}},
}

// mounted is a row in which a bystander's files are mounted inside the victim.
func mounted(id, name string, kv ...any) attack {
	return attack{id: id, what: "a bind mount of another guest's data inside the target, then a signed " + name, want: refusal.Conflict,
		run: func(w *world) error {
			w.do("guest.snapshot", "victim", "snapshot", "s")
			at := mkdirs(w, "victim", "data", "mnt")
			r := w.request(ask(name, "victim", kv...))
			w.mustApprove(r)
			w.allow.repair = w.bind(w.path("bystander", "data"), at)
			w.arm()
			return w.executor().execute(w.ctx, r.ID)
		}}
}

// linked is a row in which a file of the victim is another name of a file of the
// bystander. The step waits; when it is signed it runs, and the finale sees that
// the bystander's file is what it was.
func linked(id, name string, kv ...any) attack {
	return attack{id: id, what: "hard links and symlinks to another guest's files inside the target, then " + name,
		want: refusal.PendingSignature, run: func(w *world) error {
			w.do("guest.snapshot", "victim", "snapshot", "s")
			w.write("overwritten", "victim", "snapshots", "s", "precious.txt")
			require.NoError(w.t, os.Remove(w.path("victim", "data", "precious.txt")))
			require.NoError(w.t, os.Link(w.path("bystander", "data", "precious.txt"), w.path("victim", "data", "precious.txt")))
			require.NoError(w.t, os.Symlink(w.path("bystander", "data"), w.path("victim", "data", "dir")))
			require.NoError(w.t, os.Symlink("../../bystander/data/precious.txt", w.path("victim", "snapshots", "s", "link")))
			w.arm()
			return w.waits(w.submit(hub, ask(name, "victim", kv...)))
		}}
}

var hostFileRows = []attack{
	mounted("B19a", "guest.destroy"),
	mounted("B19b", "guest.wipe"),
	mounted("B19c", "guest.restore", "snapshot", "s"),
	linked("B19d", "guest.destroy"),
	linked("B19e", "guest.wipe"),
	linked("B19f", "guest.restore", "snapshot", "s"),
	{id: "B15b", what: "the guest's directory is exchanged for a symlink to another guest", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		require.NoError(w.t, os.Rename(w.path("victim"), w.path(".aside")))
		require.NoError(w.t, os.Symlink("bystander", w.path("victim")))
		w.allow.repair = func() {
			require.NoError(w.t, os.Remove(w.path("victim")))
			require.NoError(w.t, os.Rename(w.path(".aside"), w.path("victim")))
		}
		w.allow.finale = []string{"victim", ".aside"}
		w.arm()
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "B15c", what: "the guest's data/ is a symlink to another guest's", want: refusal.Conflict, run: func(w *world) error {
		require.NoError(w.t, os.Rename(w.path("victim", "data"), w.path("victim", "aside")))
		require.NoError(w.t, os.Symlink("../bystander/data", w.path("victim", "data")))
		w.allow.repair = func() {
			require.NoError(w.t, os.Remove(w.path("victim", "data")))
			require.NoError(w.t, os.Rename(w.path("victim", "aside"), w.path("victim", "data")))
		}
		w.arm()
		return failure(w.submit(hub, ask("guest.wipe", "victim")))
	}},
	{id: "B15d", what: "snapshots/ is a symlink to another guest's", want: refusal.Conflict, run: func(w *world) error {
		w.do("guest.snapshot", "bystander", "snapshot", "s")
		require.NoError(w.t, os.Remove(w.path("victim", "snapshots")))
		require.NoError(w.t, os.Symlink("../bystander/snapshots", w.path("victim", "snapshots")))
		w.allow.repair = func() {
			require.NoError(w.t, os.Remove(w.path("victim", "snapshots")))
			mkdirs(w, "victim", "snapshots")
		}
		w.arm()
		return failure(w.submit(hub, ask("guest.snapshot-delete", "victim", "snapshot", "s")))
	}},
}
