package daemon_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store/storetest"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/test/must"
)

// runSQL runs SQL on a database behind everybody's back.
func runSQL(t *testing.T, path, statement string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	must.Get(db.Exec(statement))(t)
	require.NoError(t, db.Close())
}

// newerBy gives a database the schema of a program that is n versions newer.
func newerBy(t *testing.T, path string, n int) int {
	t.Helper()
	schema := len(life.Migrations()) + n
	runSQL(t, path, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS of_tomorrow(x); PRAGMA user_version = %d`, schema))
	return schema
}

// copyOf puts a copy of a database beside it.
func (w *world) copyOf(suffix string) string {
	w.t.Helper()
	path := w.database() + suffix
	require.NoError(w.t, os.WriteFile(path, []byte(read(w.t, w.database())), 0o600))
	return path
}

// everybody tries what opens a state directory, and returns the one refusal.
func (w *world) everybody() *refusal.Refusal {
	w.t.Helper()
	before := tree(w.t, w.state)
	err := w.run(w.t.Context())
	require.ErrorIs(w.t, err, refusal.SchemaTooNew)
	for _, open := range []func() error{
		func() error { _, err := life.Fsck(w.t.Context(), w.state); return err },
		func() error { _, err := life.VerifyAudit(w.t.Context(), w.state); return err },
		func() error { _, err := life.TrustHistory(w.t.Context(), w.state); return err },
	} {
		require.Equal(w.t, refusal.As(err), refusal.As(open()))
	}
	require.Equal(w.t, before, tree(w.t, w.state))
	return refusal.As(err)
}

// TestTheWayBackFromANewerDatabase names the file, the command and what is lost.
func TestTheWayBackFromANewerDatabase(t *testing.T) { // H08
	w, alice, bob, _ := newPeople(t)
	w.serve()
	w.waiting("web")
	w.halt()
	want := len(life.Migrations())
	entries := len(w.bodies(w.database()))
	pre := w.copyOf(fmt.Sprintf(".pre-%d", want+1)) // as the newer program made it at its first start
	older := w.copyOf(fmt.Sprintf(".pre-%d", want-1))
	runSQL(t, older, `DELETE FROM audit WHERE seq > 2`)
	runSQL(t, older, fmt.Sprintf(`PRAGMA user_version = %d`, want-2))
	newest := w.copyOf(fmt.Sprintf(".pre-%d", want+3))
	newerBy(t, newest, 2)

	// Nothing was decided by the newer one, then something.
	schema := newerBy(t, w.database(), 3)
	r := w.everybody()
	require.Contains(t, r.Detail, fmt.Sprintf("schema %d, and this gated knows %d", schema, want))
	command := fmt.Sprintf("gated restore %s --state %s", pre, w.state)
	require.Contains(t, r.Hint, command)
	require.Contains(t, r.Hint, "no entry since")
	runSQL(t, w.database(), fmt.Sprintf(`PRAGMA user_version = %d`, want))
	w.serve()
	later := w.replace(2, w.person("carol"), alice, bob)
	w.halt()
	now := len(w.bodies(w.database()))
	newerBy(t, w.database(), 3)
	require.Contains(t, w.everybody().Hint, fmt.Sprintf("entries %d to %d of the audit log", entries+1, now))

	// What the newer one knows of who may sign is kept on the way back, too.
	require.Equal(t, signers.SignersKept, must.Get(life.Restore(t.Context(), pre, w.state))(t).Trust.Of)
	require.Equal(t, later, read(t, w.signers()))
	w.whole()
	w.serve()
	require.EqualValues(t, 2, w.status().Epoch)
	w.halt()
}

// TestANewerDatabaseWithoutACopy: what is damaged, newer or another file is not
// named.
func TestANewerDatabaseWithoutACopy(t *testing.T) {
	w := newInitialised(t)
	storetest.Breaks(t, w.database(), "schema")
	want := len(life.Migrations())
	newerBy(t, w.copyOf(fmt.Sprintf(".pre-%d", want+2)), 1)
	require.NoError(t, os.WriteFile(fmt.Sprintf("%s.pre-%d", w.database(), want+1), []byte(strings.Repeat("x", 9000)), 0o600))
	require.NoError(t, os.WriteFile(w.database()+".pre-1.tmp", []byte(read(t, w.database())), 0o600))
	newerBy(t, w.database(), 2)
	r := w.everybody()
	require.NotContains(t, r.Hint, ".pre-")
	require.Contains(t, r.Hint, "run the newer gated again")
	require.Contains(t, r.Hint, fmt.Sprintf("schema %d or before: gated restore FILE --state %s", want, w.state))

	// A backup that is newer is refused as well, and nothing has changed.
	file := w.file("newer", read(t, w.database()))
	runSQL(t, w.database(), fmt.Sprintf(`PRAGMA user_version = %d`, want))
	before := tree(t, w.state)
	_, err := life.Restore(t.Context(), file, w.state)
	refused(t, err, refusal.SchemaTooNew, fmt.Sprintf("schema %d", want+2), "the gated that made it")
	require.Equal(t, before, tree(t, w.state))
	_, again := life.CheckBackup(t.Context(), file, "", func(int64) {})
	require.Equal(t, refusal.As(err), refusal.As(again))
}
