package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/test/must"
)

// TestARestoreThatWasCutOff between the renames knows what the one before it
// knew, and loses nothing of the database that was put aside.
func TestARestoreThatWasCutOff(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	file := w.backup("backup")
	later := w.replace(2, w.person("carol"), alice, bob)
	w.halt()
	must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.NoError(t, os.Rename(w.database(), w.database()+".restoring"), "as before the last rename")
	refused(t, w.run(t.Context()), refusal.UnknownTarget)
	r := must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.Equal(t, signers.SignersKept, r.Trust.Of)
	require.EqualValues(t, 2, r.Trust.Epoch)
	require.Equal(t, later, read(t, w.signers()))
	require.Empty(t, r.Kept)
	w.whole()

	// A database with a log, as a killed daemon leaves it.
	w.serve()
	waits := w.waiting("web")
	main, log := read(t, w.database()), read(t, w.database()+"-wal")
	require.NotEmpty(t, log)
	w.halt()
	require.NoError(t, os.Remove(w.database()))
	aside := w.database() + ".before-restore-2"
	require.NoError(t, os.WriteFile(aside, []byte(main), 0o600))
	require.NoError(t, os.WriteFile(w.database()+"-wal", []byte(log), 0o600))
	r = must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.Equal(t, aside, r.Kept, "its log follows it")
	require.Equal(t, log, read(t, aside+"-wal"))
	must.Get(life.Restore(t.Context(), aside, w.state))(t)
	w.whole()
	w.serve()
	must.Get(w.client.Request(t.Context(), waits))(t, "what only the log had")
	w.halt()
}

// An empty database whose daemon was killed keeps its log, which has the newest entries, whoever looks at it. A restore puts the
// log aside with it.
func TestTheLogOfAnEmptyDatabase(t *testing.T) {
	w := newServing(t)
	file := w.backup("backup")
	w.waiting("web")
	log := read(t, w.database()+"-wal")
	require.NotEmpty(t, log)
	w.halt()
	require.NoError(t, os.Truncate(w.database(), 0))
	require.NoError(t, os.WriteFile(w.database()+"-wal", []byte(log), 0o600))
	for range 2 { // the second look sees what the first one left
		refused(t, w.run(t.Context()), refusal.Unavailable, "the file is empty or gone, and its log ")
		_, err := life.Fsck(t.Context(), w.state)
		refused(t, err, refusal.Unavailable, "the file is empty or gone, and its log ")
	}
	r := must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.Empty(t, read(t, r.Kept))
	require.Equal(t, log, read(t, r.Kept+"-wal"))
	w.serve()
	w.halt()
}

// removed is a gate that has a backup from before alice was removed, and a
// request that she would approve.
type removed struct {
	*world
	file, waits string
}

func aliceRemoved(t *testing.T) *removed {
	t.Helper()
	w, alice, bob, _ := newPeople(t)
	w.serve()
	r := &removed{world: w, waits: w.waiting("web")}
	r.file = w.backup("backup")
	w.replace(2, w.person("carol"), alice, bob)
	w.halt()
	return r
}

// cutOff leaves the state as a restore that was killed between the renames: the
// database is aside, and what was to take its place is ready.
func (r *removed) cutOff() (aside string) {
	r.t.Helper()
	before := must.Get(life.Restore(r.t.Context(), r.file, r.state))(r.t)
	require.Equal(r.t, signers.SignersKept, before.Trust.Of)
	require.NoError(r.t, os.Rename(r.database(), r.restoring()))
	return before.Kept
}

func (r *removed) restoring() string { return r.database() + ".restoring" }

// staysRemoved restores, and asserts that alice approves nothing.
func (r *removed) staysRemoved() {
	r.t.Helper()
	after := must.Get(life.Restore(r.t.Context(), r.file, r.state))(r.t)
	require.Equal(r.t, signers.SignersKept, after.Trust.Of)
	require.EqualValues(r.t, 2, after.Trust.Epoch)
	r.whole()
	r.serve()
	r.issuedFor(r.waits, after.GateID)
	require.ErrorIs(r.t, r.approve(r.waits), refusal.UnknownSigner, "alice was removed")
	r.halt()
}

// TestWhoWasRemovedIsKnownAfterACut: whatever came between a restore that was cut
// off and the next one, the database that was put aside tells.
func TestWhoWasRemovedIsKnownAfterACut(t *testing.T) {
	for name, between := range map[string]func(r *removed, aside string){
		"nothing": func(*removed, string) {},
		"a wrong file": func(r *removed, _ string) {
			must.Fail(life.Restore(r.t.Context(), filepath.Join(r.state, "gated.yaml"), r.state))(r.t, refusal.Conflict)
			require.NoFileExists(r.t, r.restoring())
		},
		"another cut, after the copy": func(r *removed, _ string) {
			require.NoError(r.t, os.WriteFile(r.restoring(), []byte(read(r.t, r.file)), 0o600))
		},
		"another cut, in the copy": func(r *removed, _ string) {
			require.NoError(r.t, os.WriteFile(r.restoring(), []byte("half"), 0o600))
		},
		"the copy was cleared away": func(r *removed, _ string) { require.NoError(r.t, os.Remove(r.restoring())) },
		"an older one aside, with a higher number": func(r *removed, aside string) {
			older := aside + "-7"
			require.NoError(r.t, os.WriteFile(older, []byte(read(r.t, r.file)), 0o600))
			require.NoError(r.t, os.Rename(aside, aside+"-3"))
			require.NoError(r.t, os.Rename(aside+"-3", aside), "which dates it")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := aliceRemoved(t)
			between(r, r.cutOff())
			r.staysRemoved()
		})
	}
}

// TestACutBeforeTheLogWasAside: who was removed is in the log only, which has not
// followed its database; and a wrong file is tried before the right one.
func TestACutBeforeTheLogWasAside(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	r := &removed{world: w, waits: w.waiting("web")}
	r.file = w.backup("backup")
	w.replace(2, w.person("carol"), alice, bob)
	main, log := read(t, w.database()), read(t, w.database()+"-wal")
	require.NotEmpty(t, log)
	w.halt()
	require.NoError(t, os.Remove(w.database()))
	aside := w.database() + ".before-restore"
	require.NoError(t, os.WriteFile(aside, []byte(main), 0o600))
	require.NoError(t, os.WriteFile(w.database()+"-wal", []byte(log), 0o600))
	must.Fail(life.Restore(t.Context(), filepath.Join(w.state, "gated.yaml"), w.state))(t, refusal.Conflict)
	require.Equal(t, log, read(t, aside+"-wal"))
	r.staysRemoved()
}

// TestRevokedKeysAreKnownAfterACut: that there were some is no pardon either.
func TestRevokedKeysAreKnownAfterACut(t *testing.T) {
	w, _, _, _ := newPeople(t)
	w.serve()
	file := w.backup("backup")
	w.halt()
	revoked := filepath.Join(w.state, "revoked")
	require.NoError(t, os.WriteFile(revoked, []byte(w.fingerprint()+"\n"), 0o600))
	w.serve()
	w.halt()
	require.NoError(t, os.Remove(revoked))
	require.NoError(t, os.Rename(w.database(), w.database()+".before-restore"))
	require.NoError(t, os.WriteFile(w.database()+".restoring", []byte(read(t, file)), 0o600))
	require.True(t, must.Get(life.Restore(t.Context(), file, w.state))(t).Trust.Revoked)
	w.whole()
}

// TestARestoreBeforeItIsBound belongs to no gate: that nothing starts on it does
// not hang on the inode of a file, whose number may be used again.
func TestARestoreBeforeItIsBound(t *testing.T) {
	r := aliceRemoved(t)
	first := r.gateOf(r.database())
	blocks := r.signers() + ".tmp" // where the list of signers is written
	require.NoError(t, os.Remove(r.signers()))
	require.NoError(t, os.MkdirAll(filepath.Join(blocks, "x"), 0o700))
	require.ErrorContains(t, must.Err(life.Restore(t.Context(), r.file, r.state))(t), blocks)
	require.Empty(t, r.gateOf(r.database()))
	require.Equal(t, first, r.gateOf(r.database()+".before-restore"))
	refused(t, r.run(t.Context()), refusal.Conflict, "belongs to no gate", "gated restore")
	require.False(t, must.Get(life.Fsck(t.Context(), r.state))(t).Sound)

	// What did not finish is no backup; the right one is restored all the same.
	require.NoError(t, os.RemoveAll(blocks))
	unfinished := r.file + ".unfinished"
	require.NoError(t, os.WriteFile(unfinished, []byte(read(t, r.database())), 0o600))
	_, err := life.Restore(t.Context(), unfinished, r.state)
	refused(t, err, refusal.Conflict, "did not finish", "nothing was changed")
	r.staysRemoved()
}

// gateOf is whose database it is, "" if it says nobody's.
func (r *removed) gateOf(path string) (id string) {
	r.t.Helper()
	require.NoError(r.t, store.Peek(r.t.Context(), path, func(_ int, tx *store.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(gate), '') FROM gate_identity`).Scan(&id)
	}))
	return id
}
