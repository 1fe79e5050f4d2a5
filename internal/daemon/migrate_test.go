package daemon_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/audit"
	"gated/internal/daemon"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/state"
	"gated/internal/store"
)

// released is the schema of databases from before signers were in them: the
// gate's first migration, then the identity.
func released() []store.Migration {
	return []store.Migration{gate.Migrations()[0], {Version: 2, Name: "identity", SQL: state.Schema}}
}

// age puts a database of the released schema in the place of the world's, with
// what that had, and a log that tells of no signers.
func (w *world) age(id op.GateID) {
	w.t.Helper()
	path := filepath.Join(w.state, "gated.db")
	require.NoError(w.t, os.Rename(path, path+".today"))
	s, err := store.Open(w.t.Context(), path, store.Options{Migrations: released()})
	require.NoError(w.t, err)
	require.NoError(w.t, s.Close())
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(w.t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`ATTACH ? AS today`, path+".today")
	require.NoError(w.t, err)
	tables := strings.Fields(`jobs requesters steps idempotency incarnations storage desired_sets`)
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND (name LIKE 'nonce%' OR name LIKE '%mark%')`)
	require.NoError(w.t, err)
	for rows.Next() {
		var name string
		require.NoError(w.t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(w.t, rows.Err())
	require.Greater(w.t, len(tables), 8)
	for _, name := range tables {
		_, err := db.Exec(`DELETE FROM main.` + name + `; INSERT INTO main.` + name + ` SELECT * FROM today.` + name)
		require.NoError(w.t, err, name)
	}
	_, err = db.Exec(`INSERT INTO main.requests SELECT job, idx, payload, nonce, facts, '["operational"]', 1, offline, created_at, issued_at,
			expires_at FROM today.requests;
		INSERT INTO main.signatures SELECT job, idx, principal, role, key, armor, at FROM today.signatures`)
	require.NoError(w.t, err)
	require.NoError(w.t, db.Close())
	log := w.logWithoutSigners(path + ".today")
	require.NoError(w.t, os.Remove(path+".today"))

	dir, err := state.Open(w.state, state.Options{})
	require.NoError(w.t, err)
	s, err = store.Open(w.t.Context(), path, store.Options{Migrations: released()})
	require.NoError(w.t, err)
	s.OnGroup(audit.Seal)
	require.NoError(w.t, s.Update(w.t.Context(), func(tx *store.Tx) error {
		_, err := audit.Append(tx, log...)
		return err
	}))
	require.NoError(w.t, dir.Bind(w.t.Context(), s, state.Identity{Gate: id, Host: testHost}))
	require.NoError(w.t, s.Close())
	require.NoError(w.t, dir.Close())
}

func (w *world) logWithoutSigners(path string) (log []audit.Entry) {
	w.t.Helper()
	s, err := store.OpenReadOnly(w.t.Context(), path, store.Options{Migrations: daemon.Migrations()})
	require.NoError(w.t, err)
	require.NoError(w.t, s.View(w.t.Context(), func(tx *store.Tx) (err error) {
		log, err = audit.After(tx, 0, 1000)
		return err
	}))
	require.NoError(w.t, s.Close())
	return slices.DeleteFunc(log, func(e audit.Entry) bool { return e.Kind == audit.Rotated })
}

// TestAnOlderDatabase: what waits and what is authorized is kept, what was asked
// of it stands, and the signers are taken over as the file has them.
func TestAnOlderDatabase(t *testing.T) {
	w := newWorld(t)
	made := w.init()
	w.serve()
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web")).State)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "db")).State)
	j, err := w.client.Submit(t.Context(), api.Submit{Reason: "test", Steps: []api.Ask{
		{Op: "guest.destroy", Target: "guest/web"}, {Op: "guest.destroy", Target: "guest/db"}}}, "")
	require.NoError(t, err)
	require.NoError(t, w.approve(j.ID+".1"), "authorized, and waits for the other")
	w.halt()
	signers := read(t, w.signers())
	w.age(made.GateID)

	// What only reads says that a start is needed.
	_, err = daemon.Fsck(t.Context(), w.state)
	refused(t, err, op.Unavailable, "schema 2", "gated serve")
	_, err = daemon.TrustHistory(t.Context(), w.state)
	require.ErrorIs(t, err, op.Unavailable)
	_, err = daemon.VerifyAudit(t.Context(), w.state)
	require.ErrorIs(t, err, op.Unavailable)

	w.serve()
	require.Equal(t, signers, read(t, w.signers()))
	all := w.history()
	require.Len(t, all, 1)
	require.Equal(t, "adopted: first start with this version", all[0].How)
	require.Equal(t, signers, string(all[0].Text))
	entries, err := w.client.Audit(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(entries, func(e api.Entry) bool {
		return e.Kind == "rotated" && strings.Contains(string(e.Raw), all[0].How)
	}), "the log has it")
	first, err := w.client.Request(t.Context(), j.ID+".1")
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, first.State)
	require.Len(t, first.Signatures, 1)
	require.Equal(t, 1, first.Needed)
	require.Equal(t, []op.Role{op.Operational}, first.Roles)
	second, err := w.client.Request(t.Context(), j.ID+".2")
	require.NoError(t, err)
	require.Equal(t, op.StatePending, second.State)
	require.NoError(t, w.approve(j.ID+".2"))
	require.Equal(t, op.StateSucceeded, w.await(j.ID).State)
	w.halt()
	w.sound()
	_, err = os.Stat(filepath.Join(w.state, "gated.db.pre-3"))
	require.NoError(t, err)

	// Its backup has no signers: the file stays as it is.
	_, err = daemon.Restore(t.Context(), filepath.Join(w.state, "gated.db.pre-3"), w.state)
	require.NoError(t, err)
	require.Equal(t, signers, read(t, w.signers()))
	w.serve()
	require.Len(t, w.history(), 1)
	w.halt()

	// Without the file there is nobody to take over.
	w.age(w.gateID())
	require.NoError(t, os.Remove(w.signers()))
	refused(t, w.run(t.Context()), op.Unavailable, w.signers())
}

// gateID is whose state it is.
func (w *world) gateID() (id op.GateID) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.state, "gated.db"))
	require.NoError(w.t, err)
	require.NoError(w.t, db.QueryRow(`SELECT gate FROM gate_identity`).Scan(&id))
	require.NoError(w.t, db.Close())
	return id
}
