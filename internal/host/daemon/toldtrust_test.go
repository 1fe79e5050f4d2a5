package daemon_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store/storetest"
	"gated/internal/test/must"
)

// A list that somebody wrote into the database does not come into force, whatever
// became of the file.
func TestAListOfSignersThatTheLogDoesNotTellOf(t *testing.T) {
	for name, file := range map[string]func(w *world, forged string){
		"the file as it was":     func(*world, string) {},
		"the file is missing":    func(w *world, _ string) { require.NoError(w.t, os.Remove(w.signers())) },
		"the file says the same": func(w *world, forged string) { require.NoError(w.t, os.WriteFile(w.signers(), []byte(forged), 0o600)) },
		"the file is nobody's":   func(w *world, _ string) { require.NoError(w.t, os.WriteFile(w.signers(), []byte("x\n"), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newInitialised(t)
			storetest.Breaks(t, w.database(), "trust-epochs")
			w.serve()
			w.halt()
			forged := read(t, w.signers()) + w.person("mallory").line(t, op.Operational) + "\n"
			w.statement(`UPDATE trust SET text = ? WHERE epoch = 1`, []byte(forged))
			file(w, forged)
			before, _ := os.ReadFile(w.signers())
			err := w.run(t.Context())
			refused(t, err, refusal.Conflict, "epoch 1", "another text", "gated fsck", "Suspected tampering")
			after, _ := os.ReadFile(w.signers())
			require.Equal(t, before, after, "the file is left as it is")
			require.NotContains(t, err.Error(), "written anew")
		})
	}
}

// An epoch that was taken away or added by hand is no better.
func TestAnEpochThatTheLogDoesNotTellOf(t *testing.T) {
	for name, c := range map[string]struct{ statement, says string }{
		"added":   {`INSERT INTO trust SELECT epoch + 1, text, how, at FROM trust`, "told last of epoch 1"},
		"renamed": {`UPDATE trust SET epoch = 2`, "told last of epoch 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newInitialised(t)
			storetest.Breaks(t, w.database(), "trust-epochs")
			w.statement(c.statement)
			refused(t, w.run(t.Context()), refusal.Conflict, "epoch 2", c.says)
		})
	}
}

// While the daemon runs, what is in force stays, and the file is not written
// from what is not.
func TestAListThatChangesUnderTheDaemon(t *testing.T) {
	w := newInitialised(t)
	storetest.Breaks(t, w.database(), "trust-epochs")
	w.serve()
	forged := read(t, w.signers()) + w.person("mallory").line(t, op.Operational) + "\n"
	from := len(w.log.String()) // the daemon may notice by itself
	w.statement(`UPDATE trust SET text = ? WHERE epoch = 1`, []byte(forged))
	w.hup()
	w.log.await(t, from, "is not the one that was decided")
	// A look that began before the edit would write the file anew, and rightly. So the file goes after the daemon noticed.
	require.NoError(t, os.Remove(w.signers()))
	must.Get(w.client.Reload(t.Context()))(t)
	h := w.health("signers")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "another list is in force")
	must.Fail(os.Stat(w.signers()))(t, os.ErrNotExist)
	require.False(t, strings.Contains(w.log.String(), "the list of signers was written "))
	w.halt()
}
