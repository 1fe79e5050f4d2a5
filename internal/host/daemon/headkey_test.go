package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store/storetest"
	"gated/internal/host/life"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

func (w *world) keyFile() string { return filepath.Join(w.state, "gate.key") }

// signedHead is the head of a daemon that serves, checked as its clients do.
func (w *world) signedHead() (checkpoint.Checkpoint, api.Head) {
	w.t.Helper()
	h := must.Get(w.client.AuditHead(w.t.Context()))(w.t)
	return must.Get(checkpoint.Open(h.Note, h.Key))(w.t), h
}

func TestHeadsAreSignedAndLogsGoOn(t *testing.T) {
	w := newServing(t)
	id := w.status().Gate
	first, head := w.signedHead()
	require.Equal(t, id, first.Gate)
	require.Equal(t, head.Seq, first.Size, "the head is that of all that was answered")
	info := must.Get(os.Stat(w.keyFile()))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", name)).State)
	}
	last, _ := w.signedHead()
	require.Greater(t, last.Size, first.Size)
	p := must.Get(w.client.Consistency(t.Context(), first.Size, last.Size))(t)
	proof := must.Get(checkpoint.DecodeHashes(p.Proof))(t)
	require.NoError(t, first.Continues(last, proof))

	in := must.Get(w.client.Inclusion(t.Context(), 2))(t)
	is := must.Get(checkpoint.Open(in.Note, in.Key))(t)
	proof = must.Get(checkpoint.DecodeHashes(in.Proof))(t)
	require.NoError(t, is.Includes(2, []byte(in.Entry), proof))
	require.ErrorIs(t, is.Includes(2, []byte(in.Entry+" "), proof), refusal.BindingMismatch)

	must.Fail(w.client.Consistency(t.Context(), last.Size, last.Size+1000))(t, refusal.BadParams)
	must.Fail(w.client.Consistency(t.Context(), 0, last.Size))(t, refusal.BadParams)
	must.Fail(w.client.Inclusion(t.Context(), 0))(t, refusal.UnknownTarget)
	must.Fail(w.client.Inclusion(t.Context(), last.Size+1000))(t, refusal.UnknownTarget)
	w.halt()

	w.serve()
	again, other := w.signedHead()
	require.Equal(t, head.Key, other.Key, "the key stays")
	p = must.Get(w.client.Consistency(t.Context(), last.Size, again.Size))(t)
	proof = must.Get(checkpoint.DecodeHashes(p.Proof))(t)
	require.NoError(t, last.Continues(again, proof), "across a restart")
	w.halt()
	require.Equal(t, []string{"keyed", "started", "started"}, kinds(t, w, "keyed", "started"))
	w.sound()
}

// TestTheKeyIsTheGatesOwn: without the key that the log names no daemon signs,
// and none makes itself another.
func TestTheKeyIsTheGatesOwn(t *testing.T) {
	w := newServing(t)
	w.halt()
	text := must.Get(os.ReadFile(w.keyFile()))(t)
	other := must.Get(checkpoint.NewKey(op.GateID(strings.Repeat("0", 32))))(t)
	for name, wrong := range map[string]func() error{
		"removed":   func() error { return os.Remove(w.keyFile()) },
		"empty":     func() error { return os.WriteFile(w.keyFile(), nil, 0o600) },
		"readable":  func() error { return os.Chmod(w.keyFile(), 0o640) },
		"another's": func() error { return os.WriteFile(w.keyFile(), []byte(other.Text()), 0o600) },
		"a link":    func() error { return os.Rename(w.keyFile(), w.keyFile()+"2") },
	} {
		require.NoError(t, wrong(), name)
		if name == "a link" {
			require.NoError(t, os.Symlink(w.keyFile()+"2", w.keyFile()))
		}
		err := w.run(t.Context())
		refused(t, err, refusal.Unavailable, "the gate's own key cannot be used", "gated restore")
		require.NotContains(t, err.Error(), "PRIVATE+KEY")
		_ = os.Remove(w.keyFile())
		_ = os.Remove(w.keyFile() + "2")
		require.NoError(t, os.WriteFile(w.keyFile(), text, 0o600))
	}
	w.serve()
	w.signedHead()
	w.haltSound()
}

// TestARestoredGateHasAnotherKey: what was signed before a restore was signed
// by another gate.
func TestARestoredGateHasAnotherKey(t *testing.T) {
	w := newServing(t)
	before, head := w.signedHead()
	copied := filepath.Join(t.TempDir(), "b")
	f := must.Get(os.Create(copied))(t)
	must.Get(w.client.Backup(t.Context(), f))(t)
	require.NoError(t, f.Close())
	w.halt()
	must.Get(life.Restore(t.Context(), copied, w.state))(t)
	w.sound()
	w.serve()
	after, other := w.signedHead()
	require.NotEqual(t, before.Gate, after.Gate)
	require.NotEqual(t, head.Key, other.Key)
	w.halt()
	require.Equal(t, []string{"keyed", "started", "keyed", "started"}, kinds(t, w, "keyed", "started"))
	w.sound()
}

// TestAnOlderDatabaseLeavesTheKey: the key that an enrolled database needs is
// there when that one is put back.
func TestAnOlderDatabaseLeavesTheKey(t *testing.T) {
	w := newInitialised(t)
	db := filepath.Join(w.state, "gated.db")
	unenrolled := must.Get(os.ReadFile(db))(t)
	w.serve()
	_, head := w.signedHead()
	w.halt()
	enrolled := must.Get(os.ReadFile(db))(t)

	require.NoError(t, os.WriteFile(db, unenrolled, 0o600))
	w.serve()
	_, again := w.signedHead()
	require.Equal(t, head.Key, again.Key, "a log that is shorter, signed with the same key, is what witnesses can show")
	w.halt()

	require.NoError(t, os.WriteFile(db, enrolled, 0o600))
	w.serve()
	_, back := w.signedHead()
	require.Equal(t, head.Key, back.Key)
	w.haltSound()
}

// TestNothingIsSignedOnTopOfAnotherLog: a daemon looks at what it signed last
// before it signs on.
func TestNothingIsSignedOnTopOfAnotherLog(t *testing.T) {
	w := newServing(t)
	w.submit(ask("guest.create", "web"))
	was, _ := w.signedHead()
	w.halt()
	storetest.Breaks(t, w.database(), "audit-log")
	w.statement(`UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), 'stopped', 'started') AS BLOB) WHERE seq = (SELECT max(seq) FROM audit)`)
	w.serve()
	h := must.Get(w.client.AuditHead(t.Context()))(t)
	c := must.Get(checkpoint.Open(h.Note, h.Key))(t)
	require.GreaterOrEqual(t, c.Size, was.Size)
	require.Less(t, c.Size, h.Seq, "what came since is not signed for")
	w.halt()
	require.Contains(t, w.log.String(), "no head of it is signed any more")
}
