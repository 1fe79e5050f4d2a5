package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/test/must"
)

// replace has carol come and alice go, and returns what the file says then.
func (w *world) replace(epoch int64, come, goes, by person) string {
	w.t.Helper()
	id := must.Get(w.rotate(epoch, []any{come.line(w.t, op.Operational)}, []any{goes.fingerprint()}))(w.t)
	must.Get(w.sign(id, op.Operational, come, by))(w.t)
	require.Equal(w.t, op.StateSucceeded, w.done(id))
	return read(w.t, w.signers())
}

// whole asserts that fsck and a walk through the audit log find nothing.
func (w *world) whole() {
	w.t.Helper()
	w.sound()
	must.Get(life.VerifyAudit(w.t.Context(), w.state))(w.t)
}

// loseDatabases removes the database and those that were put aside.
func (w *world) loseDatabases() {
	w.t.Helper()
	all := must.Get(filepath.Glob(w.database() + "*"))(w.t)
	require.NotEmpty(w.t, all)
	for _, path := range all {
		require.NoError(w.t, os.Remove(path))
	}
}

func (w *world) database() string { return filepath.Join(w.state, "gated.db") }

// TestARestoreBringsNoKeyBack: a key that was removed since the backup was made
// approves nothing afterwards, unless somebody asks for the backup's list.
func TestARestoreBringsNoKeyBack(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	old, waits := read(t, w.signers()), w.waiting("web")
	file := w.backup("backup")
	later := w.replace(2, w.person("carol"), alice, bob)
	w.halt()

	for range 2 { // and a second time, of a database that was restored
		r := must.Get(life.Restore(t.Context(), file, w.state))(t)
		require.Equal(t, signers.RestoredTrust{Of: signers.SignersKept, Epoch: 2, Backup: 1, Replaced: 2, Changes: r.Trust.Changes}, r.Trust)
		require.Len(t, r.Trust.Changes, 2)
		require.Contains(t, r.Trust.Changes[0], "+ carol@example.com")
		require.Contains(t, r.Trust.Changes[1], "- alice@example.com")
		require.Empty(t, r.KeptSigners)
		require.FileExists(t, r.Kept)
		require.Equal(t, later, read(t, w.signers()))
		all := w.history()
		require.Len(t, all, 2)
		require.Equal(t, []string{old, later}, []string{string(all[0].Text), string(all[1].Text)})
		require.Contains(t, all[1].How, "kept by a restore (")
		w.whole()

		w.serve()
		require.EqualValues(t, 2, w.status().Epoch)
		w.issuedFor(waits, r.GateID)
		require.ErrorIs(t, w.approve(waits), refusal.UnknownSigner, "alice was removed")
		w.halt()
	}

	r := must.Get(life.RestoreWith(t.Context(), w.state, life.Restoring{File: file, Signers: true}))(t)
	require.Equal(t, signers.SignersTaken, r.Trust.Of)
	require.EqualValues(t, 3, r.Trust.Epoch, "above both")
	require.Contains(t, r.Trust.Changes[0], "+ alice@example.com")
	require.Equal(t, later, read(t, r.KeptSigners))
	require.Equal(t, old, read(t, w.signers()))
	require.Contains(t, w.history()[2].How, "a restore that asked for it")
	w.whole()
	w.serve()
	w.issuedFor(waits, r.GateID)
	require.NoError(t, w.approve(waits))
	w.halt()

	// What was asked for is in force now, and stays at the next restore.
	r = must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.Equal(t, signers.SignersKept, r.Trust.Of)
	require.EqualValues(t, 3, r.Trust.Epoch)
	require.Empty(t, r.Trust.Changes, "they list the same")
	w.whole()
}

// TestABackupThatKnowsTheListInForce brings its own, which came after.
func TestABackupThatKnowsTheListInForce(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	first := w.backup("first")
	later := w.replace(2, w.person("carol"), alice, bob)
	second := w.backup("second")
	w.halt()

	r := must.Get(life.Restore(t.Context(), second, w.state))(t)
	require.Equal(t, signers.RestoredTrust{Of: signers.SignersSame, Epoch: 2, Backup: 2, Replaced: 2}, r.Trust)
	r = must.Get(life.RestoreWith(t.Context(), w.state, life.Restoring{File: second, Signers: true}))(t)
	require.Equal(t, signers.SignersSame, r.Trust.Of, "asking for what is in force changes nothing")
	require.Len(t, w.history(), 2)

	// Nobody knows better than the backup; then the list that came after it.
	w.loseDatabases()
	r = must.Get(life.RestoreWith(t.Context(), w.state, life.Restoring{File: first, Signers: true}))(t)
	require.Equal(t, signers.RestoredTrust{Of: signers.SignersUnknown, Epoch: 1, Backup: 1}, r.Trust)
	require.Empty(t, r.Kept)
	require.Equal(t, later, read(t, r.KeptSigners))
	require.Len(t, r.FileChanges, 2)
	w.whole()
	r = must.Get(life.Restore(t.Context(), second, w.state))(t)
	require.Equal(t, signers.SignersNewer, r.Trust.Of)
	require.EqualValues(t, 2, r.Trust.Epoch)
	require.Equal(t, later, read(t, w.signers()))
	w.whole()

	// A gate that was only made decided nothing.
	fresh := newWorld(t)
	fresh.init()
	r = must.Get(life.Restore(t.Context(), second, fresh.state))(t)
	require.Equal(t, signers.SignersNewer, r.Trust.Of)
	require.Equal(t, later, read(t, fresh.signers()))
	fresh.whole()
}

// TestTwoListsOfOneEpoch: where neither knows the other, the one in force stays,
// above both.
func TestTwoListsOfOneEpoch(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	first := w.backup("first")
	w.replace(2, w.person("carol"), alice, bob)
	without := w.backup("without alice")
	w.halt()
	w.loseDatabases()
	must.Get(life.RestoreWith(t.Context(), w.state, life.Restoring{File: first, Signers: true}))(t)
	w.serve()
	inForce := w.replace(2, w.person("dave"), bob, alice)
	w.halt()

	r := must.Get(life.Restore(t.Context(), without, w.state))(t)
	require.Equal(t, signers.SignersKept, r.Trust.Of)
	require.EqualValues(t, []int64{3, 2, 2}, []int64{r.Trust.Epoch, r.Trust.Backup, r.Trust.Replaced})
	require.Len(t, r.Trust.Changes, 4)
	require.Equal(t, inForce, read(t, w.signers()))
	w.whole()
}

// TestADatabaseThatCannotBeRead does not let the backup's list win unasked where
// the file of signers does not bear it out; what the file says is kept and compared.
func TestADatabaseThatCannotBeRead(t *testing.T) {
	r := aliceRemoved(t)
	later := read(t, r.signers())
	for _, text := range []string{"", strings.Repeat("x", 8192), read(t, r.database())[:5000]} {
		require.NoError(t, os.WriteFile(r.database(), []byte(text), 0o600))
		require.NoError(t, os.WriteFile(r.signers(), []byte(later), 0o600))
		r.asks("not believed", "does not list what the backup lists: + alice@example.com")
		require.NoError(t, os.Remove(r.signers()))
		r.asks("not believed", "is missing")
		require.NoError(t, os.WriteFile(r.signers(), []byte("no list\n"), 0o600))
		r.asks("not believed", "cannot be read")
		require.NoError(t, os.WriteFile(r.signers(), []byte(later), 0o600))

		got := must.Get(life.RestoreWith(t.Context(), r.state, life.Restoring{File: r.file, Signers: true}))(t)
		require.Equal(t, signers.SignersUnknown, got.Trust.Of)
		require.NotEmpty(t, got.Trust.Why)
		require.EqualValues(t, 1, got.Trust.Epoch)
		require.Equal(t, later, read(t, got.KeptSigners))
		require.Contains(t, got.FileChanges[0], "+ alice@example.com")
		require.Len(t, got.Listed, 3)
		require.Equal(t, text, read(t, got.Kept), "it may be worth something to somebody")
		r.whole()

		// The file bears the backup out: it lists the same, and may list more.
		require.NoError(t, os.WriteFile(r.database(), []byte(text), 0o600))
		more := read(t, r.signers()) + r.person("dave").line(t, op.Operational) + "\n"
		require.NoError(t, os.WriteFile(r.signers(), []byte(more), 0o600))
		got = must.Get(life.Restore(t.Context(), r.file, r.state))(t)
		require.Equal(t, signers.SignersUnknown, got.Trust.Of)
		require.Len(t, got.Listed, 3)
		r.whole()
	}
}

// asks asserts that a restore does not take the backup's list by itself, and that
// nothing has changed.
func (r *removed) asks(says ...string) {
	r.t.Helper()
	before := tree(r.t, r.state)
	_, err := life.Restore(r.t.Context(), r.file, r.state)
	refused(r.t, err, refusal.Conflict, append(says, "nothing was changed", "--signers-of-backup")...)
	require.Equal(r.t, before, tree(r.t, r.state))
}

// TestNoDatabaseAndNoFile is a new machine, which has no more than the backup; a
// file without a key of the backup's is a sign that it was removed.
func TestNoDatabaseAndNoFile(t *testing.T) {
	r := aliceRemoved(t)
	r.loseDatabases()
	r.asks("there is no database here", "+ alice@example.com")
	require.NoError(t, os.Remove(r.signers()))
	got := must.Get(life.Restore(t.Context(), r.file, r.state))(t)
	require.Equal(t, signers.RestoredTrust{Of: signers.SignersUnknown, Epoch: 1, Backup: 1}, got.Trust)
	require.Empty(t, got.KeptSigners)
	r.whole()
}

// TestAListThatNobodySigned is not carried over: a restore is what follows when
// somebody wrote into the database.
func TestAListThatNobodySigned(t *testing.T) {
	w, _, _, _ := newPeople(t)
	w.serve()
	file := w.backup("backup")
	w.halt()
	mallory := w.person("mallory")
	good, line := read(t, w.database()), mallory.line(t, op.Operational)
	add := fmt.Sprintf(`INSERT INTO trust(epoch, text, how, at) SELECT 2, CAST(CAST(text AS TEXT) || '%s' AS BLOB), 'j1.1', 0 FROM trust`, line)
	for name, forge := range map[string]string{
		"a version of its own": add,
		"an edited one":        fmt.Sprintf(`UPDATE trust SET text = CAST(CAST(text AS TEXT) || '%s' AS BLOB)`, line),
		"one with an entry": add + `; INSERT INTO audit(seq, body, hash) SELECT max(seq) + 1, CAST('{"seq":' || (max(seq) + 1) ||
			',"v":2,"kind":"rotated","signers_file":{"epoch":2,"sha256":"` + op.SHA256([]byte(read(t, w.signers())+line)) + `"},"time":"2026-01-01T00:00:00Z"}' AS BLOB), zeroblob(32) FROM audit`,
		"a log without it": `DELETE FROM trust`,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(w.database(), []byte(good), 0o600))
			runSQL(t, w.database(), forge)
			r := must.Get(life.Restore(t.Context(), file, w.state))(t)
			require.Equal(t, signers.SignersUnknown, r.Trust.Of)
			require.NotEmpty(t, r.Trust.Why)
			require.EqualValues(t, 1, r.Trust.Epoch)
			require.NotContains(t, read(t, w.signers()), "mallory")
			w.whole()
		})
	}
}

// TestARestoreIsNoPardon: that keys were revoked is known after the restore of a
// backup from before they were.
func TestARestoreIsNoPardon(t *testing.T) {
	w, _, _, _ := newPeople(t)
	w.serve()
	waits := w.waiting("web")
	file := w.backup("backup")
	w.halt()
	revoked := filepath.Join(w.state, "revoked")
	require.NoError(t, os.WriteFile(revoked, []byte(w.fingerprint()+"\n"), 0o600))
	w.serve()
	require.ErrorIs(t, w.approve(waits), refusal.SignerRevoked)
	w.halt()
	require.NoError(t, os.Remove(revoked))

	r := must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.True(t, r.Trust.Revoked)
	w.whole()
	w.serve()
	w.issuedFor(waits, r.GateID)
	require.ErrorIs(t, w.approve(waits), refusal.Unavailable, "the file is missing")
	w.halt()
	require.NoError(t, os.WriteFile(revoked, nil, 0o600)) // which says that nothing is
	w.serve()
	require.NoError(t, w.approve(waits))
	w.halt()
	r = must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.False(t, r.Trust.Revoked)
}
