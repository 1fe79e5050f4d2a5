package matrix_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/nonce"
	"gated/internal/reconcile"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// guestRows are about what is done to guests, and backendRows all rows.
var (
	guestRows   = slices.Concat(staleRows, scratchRows, verbRows, earlierRows, shareRows, stopRows, brokenRows, beliedRows)
	backendRows = slices.Concat(guestRows, wishRows)
)

func (s *stand) ask(verb, name string, kv ...any) op.Ask {
	return op.Ask{Op: "guest." + verb, Target: s.w.Target(name), Params: gateworld.Params(kv...)}
}

// has reports whether the back end has an operation.
func (s *stand) has(verb string) bool {
	ops := drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Ops
	return ops == nil || slices.Contains(ops, "guest."+verb)
}

// scratch makes a guest as the builder's scratch.
func (s *stand) scratch() {
	s.t.Helper()
	a := s.ask("create", drivertest.Fresh, "scratch", true)
	maps.Copy(a.Params, s.w.Create)
	s.Done(drivertest.Builder, a)
}

// waits turns a job that waits for a signature into that, as a code; a job that
// does not is nil and thus accepted.
func (s *stand) waits(j op.Job, err error) error {
	s.t.Helper()
	if err != nil {
		return err
	}
	if j.State() == op.StatePending {
		return refusal.New(refusal.PendingSignature, "%s waits", j.ID)
	}
	return nil
}

// onApproval is a row in which the victim becomes another between the signature
// and the approval.
func onApproval(id, what, needs string, then op.State, change func(drivertest.World)) row {
	return row{id: id, what: what + ", between signature and approval", needs: needs, want: refusal.StaleTarget, run: func(s *stand) error {
		r := s.Waiting(drivertest.Hub, s.w.Taking(drivertest.Victim))
		change(s.w)
		s.arm()
		_, err := s.Approve(r)
		require.NoError(s.t, s.Refresh(s.t.Context(), r.Step.Target))
		require.Equal(s.t, then, s.Step(r.ID).State)
		s.spent[r.ID] = nonce.Superseded
		if then == op.StatePending {
			s.onlyOld(r)
		}
		return err
	}}
}

// onlyOld says that it is the nonce of the payload that was signed which is spent,
// and not that of the one which takes its place.
func (s *stand) onlyOld(r op.Request) {
	s.t.Helper()
	delete(s.spent, r.ID)
	p := must.Get(op.DecodePayload(r.Payload))(s.t)
	old := s.before.nonces[p.Nonce]
	require.Equal(s.t, nonce.Unspent, old.fate)
	old.fate = nonce.Superseded
	s.before.nonces[p.Nonce] = old
}

// onExecution is a row in which that happens between the approval and the step:
// the nonce stays spent and the step ends as refused.
func onExecution(id, what, needs string, change func(drivertest.World)) row {
	return row{id: id, what: what + ", between approval and execution", needs: needs, want: refusal.StaleTarget, run: func(s *stand) error {
		r := s.Approved(drivertest.Hub, s.w.Taking(drivertest.Victim))
		change(s.w)
		s.arm()
		err := s.Execute(r.ID)
		require.Equal(s.t, op.StateRefused, s.Step(r.ID).State)
		must.Fail(s.Approve(r))(s.t, refusal.Replayed)
		return err
	}}
}

func remadeBy(w drivertest.World)    { w.Remake(drivertest.Victim) }
func changedBy(w drivertest.World)   { w.Change(drivertest.Victim) }
func protectedBy(w drivertest.World) { w.Protect(drivertest.Victim) }

var staleRows = []row{
	onApproval("B07", "the target is destroyed and made again", "", op.StateSuperseded, remadeBy),
	onExecution("B08", "the target is destroyed and made again", "", remadeBy),
	onApproval("B09a", "the target is protected", "Protect", op.StatePending, protectedBy),
	onExecution("B09b", "the target is protected", "Protect", protectedBy),
	onApproval("B09c", "the target is changed", "", op.StatePending, changedBy),
	onExecution("B09d", "the target is changed", "", changedBy),
}

// unproven is a row in which the builder asks for a destroy of what it made as
// scratch, after something happened to it.
func unproven(id, what, needs, ops string, prepare func(*stand), verb string) row {
	return row{id: id, what: what, needs: needs, ops: ops, want: refusal.PendingSignature, run: func(s *stand) error {
		prepare(s)
		s.arm()
		return s.waits(s.Submit(drivertest.Builder, s.ask(verb, drivertest.Fresh)))
	}}
}

var scratchRows = []row{
	unproven("P02", "a scratch guest destroyed out of band, a real one made with its name", "", "", func(s *stand) {
		s.scratch()
		s.w.Remake(drivertest.Fresh)
	}, "destroy"),
	{id: "P14", what: "storage that existed before, in the place of a scratch guest's", needs: "Leftover", want: "kept", run: func(s *stand) error {
		content := s.w.Leftover(drivertest.Fresh)
		before := content()
		require.NotEmpty(s.t, before)
		s.arm()
		s.unlogged = "whether the create is refused, or makes its storage elsewhere, is the back end's"
		a := s.ask("create", drivertest.Fresh, "scratch", true)
		maps.Copy(a.Params, s.w.Create)
		if made := s.Do(drivertest.Builder, a); made.State == op.StateSucceeded {
			s.Do(drivertest.Builder, s.w.Taking(drivertest.Fresh))
		}
		require.Equal(s.t, before, content(), "what was there before was taken over")
		return refusal.Code("kept")
	}},
	unproven("P16a", "a foreign disk moved into scratch", "MoveDisk", "", func(s *stand) {
		s.scratch()
		s.w.MoveDisk(drivertest.Bystander, drivertest.Fresh)
	}, "destroy"),
	unproven("P16c", "a snapshot of it, destroyed unsigned by its creator", "", "snapshot", func(s *stand) {
		s.scratch()
		s.Done(drivertest.Hub, s.ask("snapshot", drivertest.Fresh, "snapshot", "copy"))
	}, "destroy"),
}

// signedOnly is a row about a step that takes something: where the back end has
// it, it waits, and where it has not, nobody does it, with any parameters. What a look
// knows to be impossible asks nobody.
func signedOnly(id, what, verb string, prepare func(*stand) []any, sample ...any) row {
	return row{id: id, what: what, want: refusal.PendingSignature, run: func(s *stand) error {
		kv := sample
		if s.has(verb) {
			kv = prepare(s)
		} else {
			s.want = refusal.UnknownOp
		}
		ask := s.ask(verb, drivertest.Victim, kv...)
		if o := must.Get(s.w.Driver.Observe(s.t.Context(), op.Look{Target: ask.Target, Op: ask.Op, Params: ask.Params}))(s.t); s.want == "" {
			s.want = o.CannotCode // none: it waits
		}
		s.arm()
		return s.waits(s.Submit(drivertest.Builder, ask))
	}}
}

func snapshotted(s *stand) []any {
	s.Done(drivertest.Hub, s.ask("snapshot", drivertest.Victim, "snapshot", "copy"))
	return []any{"snapshot", "copy"}
}

func bare(*stand) []any { return nil }

// anyDisk names a disk of the victim.
func anyDisk(s *stand) []any {
	disks := drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Disks
	require.NotEmpty(s.t, disks)
	return []any{"disk", disks[0].Name}
}

func backedUp(s *stand) []any {
	s.Done(drivertest.Hub, s.ask("backup", drivertest.Victim))
	backups := drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Backups
	require.NotEmpty(s.t, backups)
	return []any{"backup", backups[0]}
}

var verbRows = []row{
	{id: "P06a", what: "taking away a protection that others set", needs: "Protect", ops: "set-config", want: refusal.PendingSignature, run: func(s *stand) error {
		s.w.Protect(drivertest.Victim)
		s.arm()
		return s.waits(s.Submit(drivertest.Hub, s.ask("set-config", drivertest.Victim, "protected", false)))
	}},
	{id: "P06b", what: "destroying what was protected until an operator took that away", needs: "Protect", ops: "set-config", want: refusal.PendingSignature,
		run: func(s *stand) error {
			s.w.Protect(drivertest.Victim)
			s.Done(drivertest.Hub, s.ask("set-config", drivertest.Victim, "protected", false))
			s.arm()
			return s.waits(s.Submit(drivertest.Builder, s.w.Taking(drivertest.Victim)))
		}},
	{id: "P06c", what: "changing a label", ops: "set-config", want: refusal.PendingSignature, run: func(s *stand) error {
		s.Done(drivertest.Hub, s.ask("set-config", drivertest.Victim, "labels", labels("tier", "prod")))
		s.arm()
		return s.waits(s.Submit(drivertest.Hub, s.ask("set-config", drivertest.Victim, "labels", labels("tier", "scratch"))))
	}},
	{id: "P06e", what: "desired state takes a protection away that others set", needs: "Protect", want: refusal.PendingSignature, run: func(s *stand) error {
		s.w.Protect(drivertest.Victim)
		s.arm()
		s.wish("  - name: victim\n    protected: false\n")
		return s.planned(drivertest.Victim)
	}},
	{id: "P07a", what: "operations by the names of other tools", want: refusal.UnknownOp, run: func(s *stand) (err error) {
		s.arm()
		for _, verb := range []string{"rename", "shrink", "undefine", "detach-disk", "delete-disk", "migrate", "rollback", "purge"} {
			_, err = s.Submit(drivertest.Builder, s.ask(verb, drivertest.Victim))
			require.ErrorIs(s.t, err, refusal.UnknownOp, verb)
		}
		return err
	}},
	signedOnly("P07b", "restoring onto a guest", "restore", snapshotted, "snapshot", "copy"),
	signedOnly("P07c", "deleting a snapshot", "snapshot-delete", snapshotted, "snapshot", "copy"),
	signedOnly("P07d", "wiping a guest", "wipe", bare),
	signedOnly("P07e", "detaching a disk", "disk-detach", anyDisk, "disk", "vda"),
	signedOnly("P07f", "deleting a disk", "disk-delete", anyDisk, "disk", "vda"),
	signedOnly("P07g", "wiping a disk", "disk-wipe", anyDisk, "disk", "vda"),
	signedOnly("P07h", "cutting the end of a disk off", "disk-resize", func(s *stand) []any { return append(anyDisk(s), "size", int64(1)) },
		"disk", "vda", "size", int64(1)),
	signedOnly("P07i", "putting a backup in the place of a guest", "backup-restore", backedUp, "backup", "b"),
	signedOnly("P07j", "deleting a backup", "backup-delete", backedUp, "backup", "b"),
	signedOnly("P07k", "a backup that lets older ones be deleted", "backup", func(*stand) []any { return []any{"rotate", true} }, "rotate", true),
}

// ofTheOneBefore: a step asks for a backup that another guest left under the same name or number.
func ofTheOneBefore(id, what, verb string, kv func(backup string) []any, want refusal.Code) row {
	return row{id: id, what: what, ops: "backup", want: want, run: func(s *stand) error {
		// One that a retention counts and deletes: with rotate, the backup is not protected.
		s.Done(drivertest.Hub, s.ask("backup", drivertest.Victim, "rotate", true))
		old := drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Backups[0]
		s.w.Remake(drivertest.Victim)
		s.arm()
		_, err := s.Submit(drivertest.Hub, s.ask(verb, drivertest.Victim, kv(old)...))
		require.NotContains(s.t, drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Backups, old)
		return err
	}}
}

func theBackup(backup string) []any { return []any{"backup", backup} }

var earlierRows = []row{
	ofTheOneBefore("U16a", "a backup of the guest before is put in the place of its successor", "backup-restore", theBackup, refusal.UnknownTarget),
	ofTheOneBefore("U16b", "a backup of the guest before is deleted as its successor's", "backup-delete", theBackup, refusal.UnknownTarget),
	ofTheOneBefore("U16c", "a backup of the successor lets the retention delete those of the guest before", "backup",
		func(string) []any { return []any{"rotate", true} }, refusal.Conflict),
	{id: "U16d", what: "a guest is made after one was destroyed and the daemon restarted, and is said to have the backups of the one before", ops: "backup",
		want: refusal.UnknownTarget, run: func(s *stand) error {
			s.scratch()
			s.Done(drivertest.Hub, s.ask("backup", drivertest.Fresh))
			old := drivertest.LookAt(s.t, s.w.Driver, drivertest.Fresh).Backups[0]
			s.Done(drivertest.Hub, s.ask("destroy", drivertest.Fresh))
			s.w.Driver = s.w.Restart()
			s.Use(s.w.Driver)
			s.scratch()
			require.NotContains(s.t, drivertest.LookAt(s.t, s.w.Driver, drivertest.Fresh).Backups, old)
			s.arm()
			_, err := s.Submit(drivertest.Builder, s.ask("backup-delete", drivertest.Fresh, "backup", old))
			return err
		}},
}

// startShared: two systems that write one disk destroy what is on it, so the start of
// either waits.
func startShared(id, what, from, to, verb string) row {
	return row{id: id, what: what, needs: "Share", ops: verb, want: refusal.PendingSignature, run: func(s *stand) error {
		apart := s.w.Share(from, to)
		s.arm()
		s.finale = func() { apart(); s.conclude() }
		j := must.Get(s.Submit(drivertest.Hub, s.ask(verb, drivertest.Victim)))(s.t)
		require.Equal(s.t, "start-shared", j.Steps[0].Verdict.Rule)
		return s.waits(j, nil)
	}}
}

var shareRows = []row{
	startShared("U01j", "the start of a guest that has a disk of another guest", drivertest.Bystander, drivertest.Victim, "start"),
	startShared("U01k", "the start of a guest whose disk another guest has as well", drivertest.Victim, drivertest.Bystander, "start"),
	startShared("U01l", "the restart of a guest that has a disk of another guest", drivertest.Bystander, drivertest.Victim, "restart"),
	{id: "U01m", what: "the creator of scratch destroys it, and another guest has a disk of it", needs: "Share", ops: "destroy", want: refusal.PendingSignature,
		run: func(s *stand) error {
			s.scratch()
			apart := s.w.Share(drivertest.Fresh, drivertest.Bystander)
			s.arm()
			s.finale = func() { apart(); s.conclude() }
			j := must.Get(s.Submit(drivertest.Builder, s.ask("destroy", drivertest.Fresh)))(s.t)
			require.Equal(s.t, "cascade", j.Steps[0].Verdict.Rule)
			return s.waits(j, nil)
		}},
	{id: "U38a", what: "other hands give a disk of scratch to another guest when its unsigned destroy was let through", needs: "Share", ops: "destroy",
		want: refusal.PendingSignature, run: func(s *stand) error {
			s.scratch()
			x := s.Ask(drivertest.Builder, s.ask("destroy", drivertest.Fresh))
			require.Equal(s.t, op.StatePlanned, x.State)
			apart := s.w.Share(drivertest.Fresh, drivertest.Bystander)
			s.arm()
			s.finale = func() { apart(); s.conclude() }
			return s.Execute(x.ID)
		}},
	{id: "U38b", what: "other hands give a disk of a guest to another one when its destroy was signed", needs: "Share", ops: "destroy",
		want: refusal.StaleTarget, run: func(s *stand) error {
			r := s.Approved(drivertest.Hub, s.ask("destroy", drivertest.Victim))
			apart := s.w.Share(drivertest.Victim, drivertest.Bystander)
			s.arm()
			s.finale = func() { apart(); s.conclude() }
			return s.Execute(r.ID)
		}},
}

// wish puts a document of desired state and reconciles.
func (s *stand) wish(guests string) reconcile.Status {
	s.t.Helper()
	return s.put("apiVersion: gated/v1\nhost: " + drivertest.Host + "\nguests:\n" + guests)
}

func (s *stand) put(text string) reconcile.Status {
	s.t.Helper()
	must.Get(s.PutSet(s.t.Context(), drivertest.Daemon, "hub", "", []byte(text)))(s.t)
	s.sources = func() []reconcile.Source { return []reconcile.Source{reconcile.NewAPI(s.Gate.Gate)} }
	return s.Reconcile(s.sources()...)
}

// planned returns how wishes for a target stand: as waiting, or as nothing.
func (s *stand) planned(name string) error {
	s.t.Helper()
	open := must.Get(s.Open(s.t.Context(), s.w.Target(name)))(s.t)
	if slices.ContainsFunc(open, func(x op.Step) bool { return x.State == op.StatePending }) {
		return refusal.New(refusal.PendingSignature, "a step of %s waits", name)
	}
	require.Empty(s.t, open)
	return nothingPlanned
}

// unreadable is a row in which what was a document becomes something else: nothing
// is planned, and what waits goes on waiting.
func unreadable(id, what, text string) row {
	return row{id: id, what: what, want: nothingPlanned, run: func(s *stand) error {
		s.wish("  - name: victim\n    state: absent\n")
		s.arm()
		s.unlogged = "what cannot be read asks for nothing; status says so"
		status := s.put(text)
		require.False(s.t, status.Sources[0].OK)
		require.NotEmpty(s.t, status.Sources[0].Error)
		require.ErrorIs(s.t, s.planned(drivertest.Victim), refusal.PendingSignature, "the wish that waits goes on waiting")
		return s.planned(drivertest.Bystander)
	}}
}

var wishRows = []row{
	unreadable("P09a", "an empty document", ""),
	unreadable("P09b", "a half-written document", "apiVersion: gated/v1\nhost: host\nguests:\n  - name: bystander\n    stat"),
	unreadable("P09c", "HTML in the place of a document", "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"),
	{id: "P09f", what: "a directory of desired state whose file nobody can read any more", want: nothingPlanned, run: func(s *stand) error {
		dir := s.t.TempDir()
		file := filepath.Join(dir, "hub.yaml")
		text := "apiVersion: gated/v1\nhost: " + drivertest.Host + "\nguests:\n  - name: victim\n    state: absent\n"
		require.NoError(s.t, os.WriteFile(file, []byte(text), 0o600))
		s.sources = func() []reconcile.Source {
			src := must.Get(reconcile.NewDir(dir, time.Hour, func() time.Time { return time.Time{} }))(s.t)
			s.t.Cleanup(func() { _ = src.Close() })
			return []reconcile.Source{src}
		}
		s.Reconcile(s.sources()...)
		require.ErrorIs(s.t, s.planned(drivertest.Victim), refusal.PendingSignature)
		s.arm()
		s.unlogged = "what cannot be read asks for nothing; status says so"
		require.NoError(s.t, os.Remove(file))
		require.NoError(s.t, os.Symlink("hub.yaml", file))
		require.False(s.t, s.Reconcile(s.sources()...).Sources[0].OK)
		require.ErrorIs(s.t, s.planned(drivertest.Victim), refusal.PendingSignature, "the wish that waits goes on waiting")
		return s.planned(drivertest.Bystander)
	}},
	{id: "P09g", what: "a source that answers with an error", want: nothingPlanned, run: func(s *stand) error {
		s.arm()
		s.unlogged = "what cannot be read asks for nothing; status says so"
		require.Contains(s.t, s.Reconcile(staleSource{refusal.New(refusal.Unavailable, "500")}).Sources[0].Error, "500")
		return s.planned(drivertest.Victim)
	}},
	{id: "P10", what: "desired state for another host", want: refusal.TargetMismatch, run: func(s *stand) error {
		s.arm()
		s.unlogged = "the document is refused whole; status says so"
		status := s.put("apiVersion: gated/v1\nhost: another\nguests:\n  - name: victim\n    state: absent\n")
		require.ErrorIs(s.t, s.planned(drivertest.Victim), nothingPlanned)
		return refusal.New(status.Sources[0].Code, "%s", status.Sources[0].Error)
	}},
	{id: "P11", what: "a hub asks for a hundred destroys, again and again", want: refusal.OverLimit,
		policy: func(w *drivertest.World) {
			if w.Policy.OpenPerSource == 0 {
				w.Policy = matrixPolicy()
			}
			w.Policy.OpenPerSource = 1
		},
		run: func(s *stand) error {
			var text strings.Builder
			for i := range 100 {
				fmt.Fprintf(&text, "  - {name: n%d, state: absent}\n", i)
			}
			text.WriteString("  - {name: victim, state: absent}\n  - {name: bystander, state: absent}\n")
			s.arm()
			for range 3 { // the same wishes are the same requests
				require.Equal(s.t, []string{"hub"}, s.wish(text.String()).Full)
				require.Len(s.t, must.Get(s.Requests(s.t.Context(), op.StatePending))(s.t), 1)
			}
			left := drivertest.Victim
			if s.planned(left) != nothingPlanned {
				left = drivertest.Bystander
			}
			_, err := s.Want(s.t.Context(), "hub", s.w.Taking(left))
			j := must.Get(s.Submit(drivertest.Builder, s.w.Taking(left)))(s.t, "others are served")
			must.Get(s.Gate.Cancel(s.t.Context(), drivertest.Builder, j.ID))(s.t)
			s.spent[j.Steps[0].ID] = nonce.Cancelled
			s.finale = func() {}
			return err
		}},
}

// loses is a row in which somebody has a guest stopped that holds what ends with
// it.
func loses(id, what, ops string, run func(*stand) error) row {
	return row{id: id, what: what, needs: "Volatile", ops: ops, want: refusal.PendingSignature, run: func(s *stand) error {
		require.True(s.t, drivertest.LookAt(s.t, s.w.Driver, drivertest.Victim).Volatile)
		s.arm()
		s.finale = func() {} // what a back end does with one that is gone once it stands still is its own
		return run(s)
	}}
}

var stopRows = []row{
	loses("P17a", "a job stops a guest that holds what ends with it", "stop", func(s *stand) error {
		return s.waits(s.Submit(drivertest.Hub, s.ask("stop", drivertest.Victim)))
	}),
	loses("P17b", "a job restarts it", "restart", func(s *stand) error {
		return s.waits(s.Submit(drivertest.Hub, s.ask("restart", drivertest.Victim)))
	}),
	loses("P17c", "desired state wants it stopped", "stop", func(s *stand) error {
		s.wish("  - name: victim\n    state: stopped\n")
		return s.planned(drivertest.Victim)
	}),
}

// brokenEnd is a row in which a back end breaks while it does what was signed; the
// row's code is the state that the step ends in.
func brokenEnd(id, what, needs string, want op.State, run func(*stand, op.Request)) row {
	return row{id: id, what: what, needs: needs, want: refusal.Code(want), run: func(s *stand) error {
		r := s.Approved(drivertest.Hub, s.w.Taking(drivertest.Victim))
		s.arm()
		run(s, r)
		s.Reconcile() // also not at the next start
		return refusal.Code(s.Step(r.ID).State)
	}}
}

// gone says that the victim is rightly gone: what was signed was done.
func (s *stand) gone() {
	s.t.Helper()
	require.Empty(s.t, s.w.Content(drivertest.Victim))
	s.before.seen[drivertest.Victim] = s.see(drivertest.Victim)
	s.unlogged = "it succeeded"
	s.finale = func() {}
}

var brokenRows = []row{
	brokenEnd("H09a", "the back end says that it is done, and did nothing", "Lie", op.StateFailed, func(s *stand, _ op.Request) {
		stop := s.w.Lie()
		s.Reconcile()
		stop()
	}),
	brokenEnd("H09b", "the back end does it and breaks off before it answers", "LoseAnswer", op.StateSucceeded, func(s *stand, _ op.Request) {
		s.w.LoseAnswer()
		s.Reconcile()
		s.gone()
	}),
	brokenEnd("H09f", "the back end answers twice", "Twice", op.StateSucceeded, func(s *stand, _ op.Request) {
		s.w.Twice()
		s.Reconcile()
		s.gone()
	}),
	brokenEnd("H09g", "the back end answers no look, and the daemon gives up: nothing was begun, and it runs later", "Hang", op.StateSucceeded,
		func(s *stand, r op.Request) {
			release := s.w.Hang(drivertest.AtLook)
			_, err := s.cut(r, 100*time.Millisecond)
			release()
			require.Error(s.t, err)
			require.Equal(s.t, op.StateAuthorized, s.Step(r.ID).State)
			s.Reconcile()
			s.gone()
		}),
	brokenEnd("H09h", "the back end goes silent at its work, and the daemon is killed: what the target shows is recorded, and the destroy is not run again", "Hang", op.StateInterrupted,
		func(s *stand, r op.Request) {
			release := s.w.Hang(drivertest.AtWork)
			// On a busy machine, the time can end before the permit is used. Then nothing was done, and the permit holds.
			for wait := 100 * time.Millisecond; s.Step(r.ID).State != op.StateDispatched; wait *= 2 {
				require.Less(s.t, wait, time.Minute, "the driver did not begin its work")
				did, err := s.cut(r, wait)
				require.Error(s.t, err)
				require.Empty(s.t, did.Task)
			}
			require.Equal(s.t, op.StateDispatched, s.Step(r.ID).State)
			s.w.Driver = s.w.Restart()
			s.Use(s.w.Driver)
			release()
			s.Reconcile()
			switch { // it may have heard, and said nothing
			case s.Step(r.ID).State == op.StateSucceeded:
				s.want = refusal.Code(op.StateSucceeded)
				s.gone()
			case s.w.Content(drivertest.Victim) == "": // half of what was signed is done, and nobody says that all of it is
				s.gone()
				s.unlogged = ""
			}
		}),
}

// belied is a row in which a back end says that a signed step is done, does nothing,
// and the look contradicts it; the row's code is the state that the step ends in.
func belied(id, verb string, prepare func(*stand) []any) row {
	return row{id: id, what: "the back end says that guest." + verb + " is done, and the look contradicts it", needs: "Lie", ops: verb,
		want: refusal.Code(op.StateFailed), run: func(s *stand) error {
			r := s.Approved(drivertest.Hub, s.ask(verb, drivertest.Victim, prepare(s)...))
			s.arm()
			stop := s.w.Lie()
			s.Reconcile()
			stop()
			s.Reconcile() // also not at the next start
			return refusal.Code(s.Step(r.ID).State)
		}}
}

// newDisk adds a disk to the victim and names it.
func newDisk(s *stand) []any {
	s.w.Needs(s.t, "NewDisk")
	s.Done(drivertest.Hub, s.ask("disk-create", drivertest.Victim, "disk", s.w.NewDisk, "size", int64(1024)))
	return []any{"disk", s.w.NewDisk}
}

var beliedRows = []row{
	belied("U07f", "disk-delete", newDisk),
	belied("U07g", "backup-delete", backedUp),
}

// cut runs a step whose context ends before the back end answers.
func (s *stand) cut(r op.Request, after time.Duration) (driver.Result, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), after)
	defer cancel()
	return driver.Run(ctx, s.Permitted(r.ID), s.w.Driver)
}
