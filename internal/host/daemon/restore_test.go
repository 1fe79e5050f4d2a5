package daemon_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/api"
)

// backup takes one into a file of the world.
func (w *world) backup(name string) string {
	w.t.Helper()
	var b bytes.Buffer
	_, err := w.client.Backup(w.t.Context(), &b)
	require.NoError(w.t, err)
	left, err := filepath.Glob(filepath.Join(w.state, ".backup-*"))
	require.NoError(w.t, err)
	require.Empty(w.t, left)
	return w.file(name, b.String())
}

func TestBackupAndRestore(t *testing.T) { // T03
	w := newWorld(t)
	made := w.init()
	w.serve()
	waits, runs := w.waiting("web"), w.waiting("db")
	env := w.envelope(waits)
	file := w.backup("backup")
	spent := w.envelope(runs)
	require.NoError(t, w.approve(runs))
	require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(runs, ".1")).State)

	before := tree(t, w.state)
	_, err := life.Restore(t.Context(), file, w.state)
	refused(t, err, refusal.Conflict, "uses the state directory")
	require.Equal(t, before, tree(t, w.state), "the daemon runs")
	w.halt()

	r, err := life.Restore(t.Context(), file, w.state)
	require.NoError(t, err)
	require.NotEqual(t, made.GateID, r.GateID)
	require.Equal(t, testHost, r.Host)
	require.Len(t, r.Listed, 1)
	w.sound()
	entries, err := os.ReadDir(w.state)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, e.Name())
		names = append(names, e.Name())
	}
	require.Contains(t, names, "gated.db.before-restore")
	require.NotContains(t, strings.Join(names, " "), "restoring")

	w.serve()
	require.Equal(t, r.GateID, w.status().Gate)
	_, err = w.client.Approve(t.Context(), waits, env)
	require.ErrorIs(t, err, refusal.TargetMismatch, "what was signed before does not count")
	_, err = w.client.Approve(t.Context(), runs, spent)
	require.ErrorIs(t, err, refusal.TargetMismatch)
	_, err = w.client.SubmitSigned(t.Context(), spent)
	require.ErrorIs(t, err, refusal.TargetMismatch)
	w.issuedFor(waits, r.GateID)
	require.NoError(t, w.approve(waits), "the same request, issued anew")
	require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(waits, ".1")).State)
	job, err := w.client.Job(t.Context(), strings.TrimSuffix(runs, ".1"))
	require.NoError(t, err)
	require.NotEqual(t, op.StateSucceeded, job.State, "it was destroyed after the backup; its new request does not match")
	w.halt()
	w.sound()

	// What was put aside can be put back, with what only its log had.
	r2, err := life.Restore(t.Context(), filepath.Join(w.state, "gated.db.before-restore"), w.state)
	require.NoError(t, err)
	require.NotEqual(t, r.GateID, r2.GateID)
	w.serve()
	job, err = w.client.Job(t.Context(), strings.TrimSuffix(runs, ".1"))
	require.NoError(t, err)
	require.Equal(t, op.StateSucceeded, job.State)
	_, err = w.client.SubmitSigned(t.Context(), spent)
	require.ErrorIs(t, err, refusal.TargetMismatch)
	w.halt()
	w.sound()
	_, err = os.Stat(filepath.Join(w.state, "gated.db.before-restore-2"))
	require.NoError(t, err, "neither was lost")
}

// issuedFor waits until a request's payload is for a gate.
func (w *world) issuedFor(id string, gate op.GateID) {
	w.t.Helper()
	found := errors.New("found")
	err := w.events(func(api.Entry) error {
		b, err := w.client.Payload(w.t.Context(), id)
		if err != nil {
			return err
		}
		p, err := op.DecodePayload(b)
		if err == nil && p.Gate == gate {
			err = found
		}
		return err
	})
	require.ErrorIs(w.t, err, found)
}

func TestRestoreRefusesAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.init()
	w.serve()
	w.waiting("web")
	file := w.backup("backup")
	w.halt()
	good := read(t, file)

	other := w.options()
	other.StateDir, other.Host = filepath.Join(w.dir, "other"), "pve2"
	_, err := life.Init(t.Context(), other)
	require.NoError(t, err)

	forged := w.file("forged", good)
	db, err := sql.Open("sqlite", "file:"+forged)
	require.NoError(t, err)
	_, err = db.Exec(`UPDATE incarnations SET scratch = 1`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	foreign := filepath.Join(w.dir, "foreign")
	db, err = sql.Open("sqlite", "file:"+foreign)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE x(y)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	for name, c := range map[string]struct {
		file string
		code refusal.Code
	}{
		"no file":             {w.dir + "/none", refusal.BadParams},
		"a directory":         {w.dir, refusal.BadParams},
		"empty":               {w.file("empty", ""), refusal.Conflict},
		"text":                {w.file("text", strings.Repeat("hello ", 2000)), refusal.Conflict},
		"cut off":             {w.file("cut", good[:len(good)/2]), refusal.Conflict},
		"a page overwritten":  {w.file("page", good[:8192]+strings.Repeat("x", 4096)+good[12288:]), refusal.Conflict},
		"forged":              {forged, refusal.Conflict},
		"another program's":   {foreign, refusal.Conflict},
		"another host's gate": {filepath.Join(other.StateDir, "gated.db"), refusal.TargetMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			before := tree(t, w.state)
			_, err := life.Restore(t.Context(), c.file, w.state)
			require.Equal(t, c.code, refusal.CodeOf(err), "%v", err)
			require.Equal(t, before, tree(t, w.state))
		})
	}
	_, err = life.Restore(t.Context(), file, filepath.Join(w.dir, "nowhere"))
	refused(t, err, refusal.UnknownTarget, "gated init")
	_, err = os.Stat(filepath.Join(w.dir, "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
	w.serve()
	w.halt()
}

// TestRestoreWhereTheDatabaseIsLost: a broken disk, or a restore that was cut
// off after it had put the old database aside.
func TestRestoreWhereTheDatabaseIsLost(t *testing.T) {
	w := newWorld(t)
	w.init()
	w.serve()
	id := w.waiting("web")
	file := w.backup("backup")
	w.halt()
	require.NoError(t, os.Remove(filepath.Join(w.state, "gated.db")))
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "gated.db.restoring"), []byte("half"), 0o600))
	refused(t, w.run(t.Context()), refusal.UnknownTarget)
	r, err := life.Restore(t.Context(), file, w.state)
	require.NoError(t, err)
	w.serve()
	w.issuedFor(id, r.GateID)
	require.NoError(t, w.approve(id))
	w.halt()
	w.sound()
}

// TestLeftoversOfAKilledBackup go at the next start.
func TestLeftoversOfAKilledBackup(t *testing.T) {
	w := newWorld(t)
	w.init()
	left := filepath.Join(w.state, ".backup-123")
	require.NoError(t, os.Mkdir(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "gated.db"), []byte("half"), 0o600))
	w.serve()
	_, err := os.Stat(left)
	require.ErrorIs(t, err, os.ErrNotExist)
	w.halt()
}
