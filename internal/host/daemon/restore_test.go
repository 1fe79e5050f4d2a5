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

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// backup takes one into a file of the world.
func (w *world) backup(name string) string {
	w.t.Helper()
	var b bytes.Buffer
	must.Get(w.client.Backup(w.t.Context(), &b))(w.t)
	require.Empty(w.t, must.Get(filepath.Glob(filepath.Join(w.state, ".backup-*")))(w.t))
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

	r := must.Get(life.Restore(t.Context(), file, w.state))(t)
	require.NotEqual(t, made.GateID, r.GateID)
	require.Equal(t, testHost, r.Host)
	require.Len(t, r.Listed, 1)
	w.sound()
	entries := must.Get(os.ReadDir(w.state))(t)
	names := []string{}
	for _, e := range entries {
		require.Zero(t, must.Get(e.Info())(t).Mode().Perm()&0o077, e.Name())
		names = append(names, e.Name())
	}
	require.Contains(t, names, "gated.db.before-restore")
	require.NotContains(t, strings.Join(names, " "), "restoring")

	w.serve()
	require.Equal(t, r.GateID, w.status().Gate)
	_, err = w.client.Approve(t.Context(), waits, env)
	require.ErrorIs(t, err, refusal.TargetMismatch, "what was signed before does not count")
	must.Fail(w.client.Approve(t.Context(), runs, spent))(t, refusal.TargetMismatch)
	must.Fail(w.client.SubmitSigned(t.Context(), spent))(t, refusal.TargetMismatch)
	w.issuedFor(waits, r.GateID)
	require.NoError(t, w.approve(waits), "the same request, issued anew")
	require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(waits, ".1")).State)
	job := must.Get(w.client.Job(t.Context(), strings.TrimSuffix(runs, ".1")))(t)
	require.NotEqual(t, op.StateSucceeded, job.State, "it was destroyed after the backup; its new request does not match")
	w.haltSound()

	// What was put aside can be put back, with what only its log had.
	r2 := must.Get(life.Restore(t.Context(), filepath.Join(w.state, "gated.db.before-restore"), w.state))(t)
	require.NotEqual(t, r.GateID, r2.GateID)
	w.serve()
	job = must.Get(w.client.Job(t.Context(), strings.TrimSuffix(runs, ".1")))(t)
	require.Equal(t, op.StateSucceeded, job.State)
	must.Fail(w.client.SubmitSigned(t.Context(), spent))(t, refusal.TargetMismatch)
	w.haltSound()
	must.Get(os.Stat(filepath.Join(w.state, "gated.db.before-restore-2")))(t, "neither was lost")
}

// issuedFor waits until a request's payload is for a gate.
func (w *world) issuedFor(id string, gate op.GateID) {
	w.t.Helper()
	found := errors.New("found")
	require.ErrorIs(w.t, w.events(func(api.Entry) error {
		b, err := w.client.Payload(w.t.Context(), id)
		if err != nil {
			return err
		}
		p, err := op.DecodePayload(b)
		if err == nil && p.Gate == gate {
			err = found
		}
		return err
	}), found)
}

func TestRestoreRefusesAndChangesNothing(t *testing.T) {
	w := newServing(t)
	w.waiting("web")
	file := w.backup("backup")
	w.halt()
	good := read(t, file)

	other := w.options()
	other.StateDir, other.Host = filepath.Join(w.dir, "other"), "pve2"
	must.Get(life.Init(t.Context(), other))(t)

	forged := w.file("forged", good)
	db := must.Get(sql.Open("sqlite", "file:"+forged))(t)
	must.Get(db.Exec(`UPDATE incarnations SET scratch = 1`))(t)
	require.NoError(t, db.Close())

	foreign := filepath.Join(w.dir, "foreign")
	db = must.Get(sql.Open("sqlite", "file:"+foreign))(t)
	must.Get(db.Exec(`CREATE TABLE x(y)`))(t)
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
	_, err := life.Restore(t.Context(), file, filepath.Join(w.dir, "nowhere"))
	refused(t, err, refusal.UnknownTarget, "gated init")
	must.Fail(os.Stat(filepath.Join(w.dir, "nowhere")))(t, os.ErrNotExist)
	w.serve()
	w.halt()
}

// TestRestoreWhereTheDatabaseIsLost: a broken disk, or a restore that was cut
// off after it had put the old database aside.
func TestRestoreWhereTheDatabaseIsLost(t *testing.T) {
	w := newServing(t)
	id := w.waiting("web")
	file := w.backup("backup")
	w.halt()
	require.NoError(t, os.Remove(filepath.Join(w.state, "gated.db")))
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "gated.db.restoring"), []byte("half"), 0o600))
	refused(t, w.run(t.Context()), refusal.UnknownTarget)
	r := must.Get(life.Restore(t.Context(), file, w.state))(t)
	w.serve()
	w.issuedFor(id, r.GateID)
	require.NoError(t, w.approve(id))
	w.haltSound()
}

// TestLeftoversOfAKilledBackup go at the next start.
func TestLeftoversOfAKilledBackup(t *testing.T) {
	w := newInitialised(t)
	left := filepath.Join(w.state, ".backup-123")
	require.NoError(t, os.Mkdir(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "gated.db"), []byte("half"), 0o600))
	w.serve()
	must.Fail(os.Stat(left))(t, os.ErrNotExist)
	w.halt()
}
