package matrix_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// backup copies the database as gated backup does.
func (w *world) backup() string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "backup")
	require.NoError(w.t, w.store.Snapshot(w.ctx, file))
	return file
}

// restored puts a backup in the place of the database, and goes on.
func (w *world) restored(file string) life.RestoreResult {
	w.t.Helper()
	w.shut()
	r := must.Get(life.Restore(w.ctx, file, w.dir))(w.t)
	w.open()
	return r
}

// afterRestore is a row on a gate that was restored: before makes what is in the
// backup, since what happened after it, and the attack comes when it runs again.
func afterRestore(id, what string, want refusal.Code, before func(w *world) (since func(), attack func() error)) attack {
	return attack{id: id, what: "a backup is restored, and " + what, want: want, bare: true, run: func(w *world) error {
		w.today()
		since, attack := before(w)
		file := w.backup()
		since()
		w.restored(file)
		w.arm()
		return attack()
	}}
}

// forgedBackup is a row in which somebody could write to a backup before it is
// restored. Nothing changes.
func forgedBackup(id, what string, want refusal.Code, forge func(w *world, file string) string) attack {
	return attack{id: id, what: "a backup is to be restored " + what, want: want, bare: true, run: func(w *world) error {
		w.today()
		r := w.destroyRequest()
		file := w.backup()
		w.armUnlogged("nothing was restored")
		before := w.gate.ID()
		w.shut()
		was := w.stateFiles()
		_, err := life.Restore(w.ctx, forge(w, file), w.dir)
		require.Equal(w.t, was, w.stateFiles(), "the state directory is what it was")
		w.open()
		require.Equal(w.t, before, w.gate.ID())
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return err
	}}
}

// stateFiles is the state directory, without what whoever reads a database leaves
// beside it.
func (w *world) stateFiles() map[string]string {
	w.t.Helper()
	out := hashTree(w.t, w.dir)
	delete(out, "gated.db-wal")
	delete(out, "gated.db-shm")
	return out
}

// inBackup changes a backup.
func inBackup(change func(w *world, tx *store.Tx) error) func(w *world, file string) string {
	return func(w *world, file string) string {
		//fsck:none each row ends with fsck
		s := must.Get(store.Open(w.ctx, file, store.Options{Migrations: life.Migrations()}))(w.t)
		require.NoError(w.t, s.Update(w.ctx, func(tx *store.Tx) error { return change(w, tx) }))
		require.NoError(w.t, s.Close())
		return file
	}
}

// sqlInBackup is inBackup by any program for SQLite.
func sqlInBackup(statements string) func(w *world, file string) string {
	return func(w *world, file string) string {
		db := must.Get(sql.Open("sqlite", "file:"+file))(w.t)
		must.Get(db.ExecContext(w.ctx, statements))(w.t)
		require.NoError(w.t, db.Close())
		return file
	}
}

// listsMallory writes a list of signers with mallory into a database, and the
// entry that root would have made by taking it over.
func listsMallory(epoch int64, told bool) func(w *world, tx *store.Tx) error {
	return func(w *world, tx *store.Tx) error {
		v := journal.TrustVersion{Epoch: epoch, Text: []byte(w.trust + w.mallory.line(operational)), How: "adopted by uid 0", At: w.now()}
		err := journal.AddTrust(tx, v)
		if err != nil || !told {
			return err
		}
		trust := must.Get(authz.LoadTrust(v.Text))(w.t)
		e := gate.RotatedEntry("uid:0", authz.Rotation{Trust: trust, Added: trust.Signers()[len(trust.Signers())-1:]}, v)
		e.Gate, e.Time, e.Target = w.gateOf(tx), v.At, op.Signers.String()
		if _, err := audit.Append(tx, e); err != nil {
			return err
		}
		return audit.Seal(tx)
	}
}

// gateOf is the gate id that a database names.
func (w *world) gateOf(tx *store.Tx) (id op.GateID) {
	w.t.Helper()
	require.NoError(w.t, tx.QueryRow(`SELECT gate FROM gate_identity`).Scan(&id))
	return id
}

// signedBy is an envelope for what waits as it is now.
func (w *world) signedBy(k key, r op.Request) authz.Envelope {
	w.t.Helper()
	return k.envelope(w.t, w.reread(r.ID).Payload)
}

var ownRestoreRows = []attack{
	{id: "X62a", what: "a backup is restored in which a key is listed that was removed since: it approves what waits", want: refusal.UnknownSigner, bare: true,
		run: func(w *world) error {
			w.today()
			r := w.destroyRequest()
			file := w.backup()
			w.rotate(nil, []string{w.bob.print(w.t)}, w.alice.votes(operational))
			epoch := w.gate.Epoch()
			require.Equal(w.t, signers.SignersKept, w.restored(file).Trust.Of)
			require.Equal(w.t, epoch, w.gate.Epoch())
			require.NoError(w.t, w.gate.Tick(w.ctx))
			w.arm()
			return w.send(r.ID, w.signedBy(w.bob, r))
		}},
	{id: "X62b", what: "the copy from before a migration is restored, to have the list of signers of then; then the one that was put aside by that", want: refusal.UnknownSigner,
		bare: true, run: func(w *world) error {
			w.today()
			r := w.destroyRequest()
			copied := filepath.Join(w.dir, "gated.db.pre-7")
			require.NoError(w.t, w.store.Snapshot(w.ctx, copied))
			w.rotate(nil, []string{w.bob.print(w.t)}, w.alice.votes(operational))
			first := w.restored(copied)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			require.ErrorIs(w.t, w.send(r.ID, w.signedBy(w.bob, r)), refusal.UnknownSigner)
			w.restored(first.Kept)
			w.restored(copied)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			w.arm()
			return w.send(r.ID, w.signedBy(w.bob, r))
		}},
	{id: "X63a", what: "a backup with a list of signers of a far higher epoch, told of in its log as if root had taken it over, where the list was changed since",
		want: refusal.UnknownSigner, bare: true, run: func(w *world) error {
			w.today()
			r := w.destroyRequest()
			file := w.backup()
			w.rotate(nil, []string{w.bob.print(w.t)}, w.alice.votes(operational))
			inBackup(listsMallory(2, true))(w, file)
			inBackup(listsMallory(3, true))(w, file)
			inBackup(listsMallory(4, true))(w, file)
			require.Equal(w.t, signers.SignersKept, w.restored(file).Trust.Of)
			require.EqualValues(w.t, 5, w.gate.Epoch(), "above both")
			require.NoError(w.t, w.gate.Tick(w.ctx))
			w.arm()
			return w.send(r.ID, w.signedBy(w.mallory, r))
		}},
	forgedBackup("X63b", "that has a list of signers of which its log does not tell", refusal.Conflict, inBackup(listsMallory(2, false))),
	forgedBackup("X63c", "that leaves epochs out, so that its own is higher than any", refusal.Conflict, sqlInBackup(
		`INSERT INTO trust(epoch, text, how, at) SELECT 900, text, how, at FROM trust`)),
	forgedBackup("X64a", "with a trigger that makes scratch of whatever is made", refusal.Conflict, sqlInBackup(
		`CREATE TRIGGER t AFTER INSERT ON incarnations BEGIN UPDATE incarnations SET scratch = 1; END`)),
	forgedBackup("X64b", "with a view in a table's place, which says what somebody likes", refusal.Conflict, sqlInBackup(
		`ALTER TABLE nonces RENAME TO aside; CREATE VIEW nonces AS SELECT nonce, job, idx, payload, expires_at, '' AS fate FROM aside`)),
	forgedBackup("X64c", "with an index that makes a second approval fail", refusal.Conflict, sqlInBackup(`CREATE UNIQUE INDEX i ON nonces(fate) WHERE fate = 'used'`)),
	{id: "X65", what: "one backup is restored twice: what was signed for the first life is handed in in the second", want: refusal.TargetMismatch, bare: true,
		run: func(w *world) error {
			w.today()
			r := w.destroyRequest()
			file := w.backup()
			w.restored(file)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			e := w.envelopeOf(w.reread(r.ID))
			w.restored(file)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(e), refusal.TargetMismatch)
			return w.send(r.ID, e)
		}},
	afterRestore("X66a", "an approval that was held back is handed in, of what operators rejected since", refusal.TargetMismatch, func(w *world) (func(), func() error) {
		r := w.destroyRequest()
		e := w.envelopeOf(r)
		return func() { must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t) },
			func() error {
				require.ErrorIs(w.t, w.sendOffline(e), refusal.TargetMismatch)
				return w.send(r.ID, e)
			}
	}),
	afterRestore("X66b", "a permit that was taken before is used", refusal.Unavailable, func(w *world) (func(), func() error) {
		r := w.destroyRequest()
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		return func() { w.ends(r.ID, op.StatePending, "") },
			func() error {
				w.allow.unlogged = "this gate was not asked"
				return failure(driver.Run(w.ctx, p, w.driver))
			}
	}),
	afterRestore("X67", "an idempotency key of before is used with another body", refusal.Conflict, func(w *world) (func(), func() error) {
		sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "victim")}, IdempotencyKey: "k"}
		first := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		return func() {}, func() error {
			again := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			require.Equal(w.t, first.ID, again.ID, "the same body gets the first answer")
			sub.Steps = []op.Ask{ask("guest.destroy", "bystander")}
			return failure(w.gate.Submit(w.ctx, sub))
		}
	}),
	afterRestore("X68", "who held paths then, and gave them up, lets go of them, for those who have them now", refusal.UnknownTarget,
		func(w *world) (func(), func() error) {
			f := newFloor(w)
			return func() { must.Get(w.book.Release(w.ctx, f.alma, rid(f.t, f.r1)))(w.t) }, func() error {
				w.allow.unlogged = "refusals of reservations are counted"
				require.Empty(w.t, must.Get(w.book.List(w.ctx, reserve.Query{Limit: reserve.MaxList}))(w.t), "nobody holds anything")
				must.Fail(w.book.Transfer(w.ctx, f.alma, rid(f.t, f.r1), "cora"))(w.t, refusal.UnknownTarget)
				return failure(w.book.Release(w.ctx, f.alma, rid(f.t, f.r1)))
			}
		}),
	forgedBackup("X69a", "that is another host's, renamed", refusal.TargetMismatch, func(w *world, _ string) string {
		dir := filepath.Join(w.t.TempDir(), "other")
		must.Get(life.Init(w.ctx, life.InitOptions{StateDir: dir, Host: "pve2",
			Operators: []pubkey.Arg{{Path: w.mallory.path + ".pub", Principal: "mallory@example.com"}}}))(w.t)
		return filepath.Join(dir, "gated.db")
	}),
	forgedBackup("X69b", "that is another host's, whose name was written over", refusal.Conflict, sqlInBackup(`UPDATE requests SET payload = CAST(replace(CAST(payload AS TEXT), 'pve1', 'pve2') AS BLOB)`)),
	{id: "X70", what: "a key is revoked, the daemon stops, the file of revoked keys goes, and a backup of before is restored, twice", want: refusal.Unavailable, bare: true,
		run: func(w *world) error {
			w.today()
			r := w.destroyRequest()
			file := w.backup()
			revoked := filepath.Join(w.dir, "revoked")
			require.NoError(w.t, os.WriteFile(revoked, []byte(w.bob.print(w.t)+"\n"), 0o600))
			w.daemon().halt()
			require.NoError(w.t, os.Remove(revoked))
			w.open()
			require.True(w.t, w.restored(file).Trust.Revoked)
			require.True(w.t, w.restored(file).Trust.Revoked)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			e := w.signedBy(w.bob, r)
			w.arm()
			log := w.daemon()
			_, err := log.Approve(w.ctx, r.ID.String(), api.EnvelopeOf(e.Payload, e.Signatures...))
			log.halt()
			require.NoError(w.t, os.WriteFile(revoked, nil, 0o600))
			w.open()
			return err
		}},
	{id: "X71", what: "a restore beside a running gate, and eight restores at once", want: refusal.Conflict, bare: true, run: func(w *world) error {
		w.today()
		w.destroyRequest()
		file := w.backup()
		_, err := life.Restore(w.ctx, file, w.dir)
		w.shut()
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = life.Restore(w.ctx, file, w.dir) })
		}
		all.Wait()
		done := 0
		for _, e := range errs {
			if e == nil {
				done++
			} else {
				require.ErrorIs(w.t, e, refusal.Conflict)
			}
		}
		require.Positive(w.t, done)
		w.open()
		require.NoError(w.t, w.gate.Tick(w.ctx))
		w.armUnlogged("the gate was not asked")
		return err
	}},
	forgedBackup("X72a", "that is a link to a file of somebody's choice", refusal.BadParams, func(w *world, file string) string {
		require.NoError(w.t, os.Symlink(file, file+"-link"))
		return file + "-link"
	}),
	forgedBackup("X72b", "that is a pipe, so that it waits for ever", refusal.BadParams, func(w *world, file string) string {
		require.NoError(w.t, syscall.Mkfifo(file+"-pipe", 0o600))
		return file + "-pipe"
	}),
}
