package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/state"
	"gated/internal/test/must"
)

// TestCheckBackup: what is said of a good one, and that nothing is left beside it.
func TestCheckBackup(t *testing.T) {
	w := newWorld(t)
	made := w.init()
	w.serve()
	w.waiting("web")
	file := w.backup("backup")
	wal := w.copyOf(".live") // beside a daemon, with what only its log has
	require.NoError(t, os.WriteFile(wal+"-wal", []byte(read(t, w.database()+"-wal")), 0o600))
	w.halt()

	dir := t.TempDir()
	alone := filepath.Join(dir, "backup")
	require.NoError(t, os.WriteFile(alone, []byte(read(t, file)), 0o400))
	for _, path := range []string{alone, wal, w.database()} {
		before := tree(t, filepath.Dir(path))
		var told int64
		r := must.Get(life.CheckBackup(t.Context(), path, "", func(n int64) { told = n }))(t)
		info := must.Get(os.Stat(path))(t)
		require.Equal(t, life.BackupReport{Bytes: info.Size(), Host: testHost, Gate: made.GateID, Schema: len(life.Migrations()),
			Entries: r.Entries, Epoch: 1, Checked: r.Checked}, r)
		require.Equal(t, r.Entries, told)
		require.Greater(t, r.Entries, int64(3))
		require.Len(t, r.Checked, 4)
		require.Equal(t, before, tree(t, filepath.Dir(path)))
	}
	require.Len(t, must.Get(os.ReadDir(dir))(t), 1, "not even an empty file of SQLite's")
}

// bad are files from which no gate can be restored, with why.
func (w *world) bad(good string) map[string]struct {
	file string
	code refusal.Code
} {
	w.t.Helper()
	forge := func(name, statement string) string {
		path := w.file(name, good)
		runSQL(w.t, path, statement)
		return path
	}
	link, pipe := filepath.Join(w.dir, "link"), filepath.Join(w.dir, "pipe")
	require.NoError(w.t, os.Symlink(w.file("good", good), link))
	require.NoError(w.t, syscall.Mkfifo(pipe, 0o600))
	out := map[string]struct {
		file string
		code refusal.Code
	}{
		"no file":           {w.dir + "/none", refusal.BadParams},
		"a directory":       {w.dir, refusal.BadParams},
		"a symbolic link":   {link, refusal.BadParams},
		"a pipe":            {pipe, refusal.BadParams},
		"empty":             {w.file("empty", ""), refusal.Conflict},
		"text":              {w.file("text", strings.Repeat("hello ", 2000)), refusal.Conflict},
		"a head alone":      {w.file("head", good[:100]), refusal.Conflict},
		"no table":          {w.file("page1", good[:4096]), refusal.Conflict},
		"a byte too short":  {w.file("short", good[:len(good)-1]), refusal.Conflict},
		"forged scratch":    {forge("forged", `UPDATE incarnations SET scratch = 1`), refusal.Conflict},
		"an entry edited":   {forge("edited", `UPDATE audit SET body = CAST(replace(body, 'web', 'wxb') AS BLOB)`), refusal.Conflict},
		"an entry cut off":  {forge("cutoff", `DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)`), refusal.Conflict},
		"a signer added":    {forge("signer", `UPDATE trust SET text = CAST(text || '# ' || char(10) AS BLOB)`), refusal.Conflict},
		"no identity":       {forge("nobody", `DELETE FROM gate_identity`), refusal.Conflict},
		"another program's": {forge("foreign", `PRAGMA application_id = 1`), refusal.Conflict},
		"a newer schema":    {forge("newer", fmt.Sprintf(`PRAGMA user_version = %d`, len(life.Migrations())+1)), refusal.SchemaTooNew},
	}
	for i := 1; i < 8; i++ { // cut off anywhere, and a page overwritten anywhere
		at := i * len(good) / 8 / 4096 * 4096
		out[fmt.Sprintf("cut off at %d", at)] = struct {
			file string
			code refusal.Code
		}{w.file(fmt.Sprint("cut", i), good[:at]), refusal.Conflict}
		out[fmt.Sprintf("overwritten at %d", at)] = struct {
			file string
			code refusal.Code
		}{w.file(fmt.Sprint("over", i), good[:at]+strings.Repeat("x", 4096)+good[at+4096:]), refusal.Conflict}
	}
	return out
}

// TestWhatIsNoBackup is refused by who checks it and by who restores it alike.
func TestWhatIsNoBackup(t *testing.T) {
	w := newServing(t)
	w.waiting("web")
	good := read(t, w.backup("backup"))
	w.halt()
	for name, c := range w.bad(good) {
		t.Run(name, func(t *testing.T) {
			before := tree(t, w.state)
			_, err := life.CheckBackup(t.Context(), c.file, "", func(int64) {})
			require.Equal(t, c.code, refusal.CodeOf(err), "%v", err)
			_, err = life.Restore(t.Context(), c.file, w.state)
			require.Equal(t, c.code, refusal.CodeOf(err), "%v", err)
			require.NotEmpty(t, refusal.As(err).Detail)
			require.Equal(t, before, tree(t, w.state), "nothing has changed")
		})
	}
}

// TestOneRestoreAtATime: the directory's lock is also between two of them.
func TestOneRestoreAtATime(t *testing.T) {
	w := newServing(t)
	file := w.backup("backup")
	w.halt()
	other := must.Get(state.Open(w.state, state.Options{}))(t)
	before := tree(t, w.state)
	_, err := life.Restore(t.Context(), file, w.state)
	refused(t, err, refusal.Conflict, "uses the state directory")
	require.Equal(t, before, tree(t, w.state))
	require.NoError(t, other.Close())
	must.Get(life.Restore(t.Context(), file, w.state))(t)
}
