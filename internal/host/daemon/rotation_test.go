package daemon_test

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// person is somebody with a key.
type person struct {
	name   string
	pub    string // path
	signer ssh.Signer
}

func (w *world) person(name string) person {
	w.t.Helper()
	_, key := must.Two(ed25519.GenerateKey(nil))(w.t)
	signer := must.Get(ssh.NewSignerFromKey(key))(w.t)
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " " + name + "@example.com\n"
	return person{name, w.file(name+".pub", line), signer}
}

func (p person) fingerprint() string { return ssh.FingerprintSHA256(p.signer.PublicKey()) }

// line lists the person in a role.
func (p person) line(t *testing.T, role op.Role) string {
	t.Helper()
	s := must.Get(pubkey.SignerOf(pubkey.Arg{Path: p.pub}, role))(t)
	require.Equal(t, p.fingerprint(), s.Key)
	return s.Line
}

// rotate asks for the epoch, and returns the request.
func (w *world) rotate(epoch int64, add, remove []any) (string, error) {
	w.t.Helper()
	name, target := "trust.rotate", op.Signers.String()
	p := op.Params{"epoch": epoch}
	if add != nil {
		p["add"] = add
	}
	if remove != nil {
		p["remove"] = remove
	}
	j, err := w.client.Submit(w.t.Context(), api.Submit{Op: &name, Target: &target, Params: p, Reason: "test"}, "")
	if err != nil {
		return "", err
	}
	require.NotNil(w.t, j.Request)
	return *j.Request, nil
}

// sign approves as people in roles, all in one envelope.
func (w *world) sign(id string, role op.Role, by ...person) (api.Request, error) {
	w.t.Helper()
	b := must.Get(w.client.Payload(w.t.Context(), id))(w.t)
	var sigs []string
	for _, p := range by {
		sig := must.Get(sshsig.Sign(bytes.NewReader(b), p.signer, sshsig.HashSHA512, role.Namespace()))(w.t)
		sigs = append(sigs, string(sshsig.Armor(sig)))
	}
	return w.client.Approve(w.t.Context(), id, api.EnvelopeOf(b, sigs...))
}

// done waits for the end of the job that a request is of.
func (w *world) done(id string) op.State { return w.await(strings.TrimSuffix(id, ".1")).State }

func (w *world) history() []life.TrustVersion {
	w.t.Helper()
	return must.Get(life.TrustHistory(w.t.Context(), w.state))(w.t)
}

// newPeople starts a gate with alice and bob as operators and vault for recovery.
func newPeople(t *testing.T) (w *world, alice, bob, vault person) {
	w = newWorld(t)
	alice, bob, vault = person{"alice", w.pub, w.signer}, w.person("bob"), w.person("vault")
	o := w.options()
	o.Operators = append(o.Operators, pubkey.Arg{Path: bob.pub})
	o.Recovery = []pubkey.Arg{{Path: vault.pub}}
	must.Get(life.Init(t.Context(), o))(t)
	return w, alice, bob, vault
}

// TestRotation: what is listed changes in the database, in force and on disk at
// once, and with it which signatures count, now and after a restart.
func TestRotation(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	w.serve()
	fresh := w.person("carol")
	waits := w.waiting("web")

	id := must.Get(w.rotate(2, []any{fresh.line(t, op.Operational)}, []any{alice.fingerprint()}))(t)
	must.Get(w.sign(id, op.Operational, fresh, bob))(t)
	require.Equal(t, op.StateSucceeded, w.done(id))
	require.EqualValues(t, 2, w.status().Epoch)
	require.ErrorIs(t, w.approve(waits), refusal.UnknownSigner)
	all := w.history()
	require.Len(t, all, 2)
	require.Equal(t, []string{"init", id}, []string{all[0].How, all[1].How})
	require.Equal(t, string(all[1].Text), read(t, w.signers()))
	require.Contains(t, string(all[1].Text), "carol@example.com")
	require.NotContains(t, string(all[1].Text), "alice@example.com")
	info := must.Get(os.Stat(w.signers()))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	must.Get(w.sign(waits, op.Operational, fresh))(t)
	require.Equal(t, op.StateSucceeded, w.done(waits))
	w.haltSound()
	w.serve()
	require.EqualValues(t, 2, w.status().Epoch)
	w.halt()
}

// TestRevokedAfterARotation: the list of revoked keys is not the file's, and
// stays in force when the file changes.
func TestRevokedAfterARotation(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	require.NoError(t, os.WriteFile(w.revokedFile(), []byte(alice.fingerprint()+"\n"), 0o600))
	w.serve()
	fresh := w.person("carol")
	id := must.Get(w.rotate(2, []any{fresh.line(t, op.Operational)}, nil))(t)
	must.Get(w.sign(id, op.Operational, fresh, bob))(t)
	require.Equal(t, op.StateSucceeded, w.done(id))
	require.ErrorIs(t, w.approve(w.waiting("web")), refusal.SignerRevoked)
	w.halt()
}

func TestRotationsThatCannotBe(t *testing.T) { // S18, S22
	w, alice, bob, vault := newPeople(t)
	w.serve()
	fresh := w.person("carol")
	for name, c := range map[string]struct {
		epoch       int64
		add, remove []any
	}{
		"the last operators": {2, nil, []any{alice.fingerprint(), bob.fingerprint()}},
		"the last recovery":  {2, nil, []any{vault.fingerprint()}},
		"nothing":            {2, nil, nil},
		"the epoch in force": {1, []any{fresh.line(t, op.Operational)}, nil},
		"an epoch too far":   {3, []any{fresh.line(t, op.Operational)}, nil},
		"no line":            {2, []any{"nonsense"}, nil},
		"nobody's key":       {2, nil, []any{fresh.fingerprint()}},
	} {
		must.Fail(w.rotate(c.epoch, c.add, c.remove))(t, refusal.BadParams, name)
	}

	// Without the proof of its holder, a key does not come in.
	id := must.Get(w.rotate(2, []any{fresh.line(t, op.Operational)}, nil))(t)
	must.Fail(w.sign(id, op.Operational, bob))(t, refusal.BadParams)

	// Operators do not touch recovery.
	id = must.Get(w.rotate(2, []any{fresh.line(t, op.Recovery)}, nil))(t)
	must.Fail(w.sign(id, op.Operational, bob))(t, refusal.RoleDenied)
	require.Len(t, w.history(), 1)
	w.haltSound()
}

// TestTwoRotationsToOneEpoch: what was signed is the change of one file.
func TestTwoRotationsToOneEpoch(t *testing.T) {
	w, _, bob, _ := newPeople(t)
	w.serve()
	carol, dave := w.person("carol"), w.person("dave")
	first := must.Get(w.rotate(2, []any{carol.line(t, op.Operational)}, nil))(t)
	second := must.Get(w.rotate(2, []any{dave.line(t, op.Operational)}, nil))(t)
	must.Get(w.sign(first, op.Operational, carol, bob))(t)
	require.Equal(t, op.StateSucceeded, w.done(first))
	_, err := w.sign(second, op.Operational, dave, bob)
	require.Error(t, err)
	require.Contains(t, []refusal.Code{refusal.StaleTarget, refusal.BadParams, refusal.Superseded}, refusal.CodeOf(err))
	require.NotEqual(t, op.StateSucceeded, w.done(second))
	require.Len(t, w.history(), 2)
	w.haltSound()
}

// TestTheFileAfterACrash: what a crash between the commit and the file leaves is
// put right, and the same holds for a file that is gone.
func TestTheFileAfterACrash(t *testing.T) {
	w, _, bob, _ := newPeople(t)
	before := read(t, w.signers())
	w.serve()
	carol := w.person("carol")
	id := must.Get(w.rotate(2, []any{carol.line(t, op.Operational)}, nil))(t)
	must.Get(w.sign(id, op.Operational, carol, bob))(t)
	require.Equal(t, op.StateSucceeded, w.done(id))
	w.halt()
	after := read(t, w.signers())
	require.NotEqual(t, before, after)

	require.NoError(t, os.WriteFile(w.signers(), []byte(before), 0o600))
	require.NoError(t, os.WriteFile(w.signers()+".tmp", []byte("half"), 0o600))
	w.serve()
	require.Equal(t, after, read(t, w.signers()))
	require.Contains(t, w.log.String(), "the list of signers was written")

	// So is a file that a hand puts back while the daemon runs. It comes whole: the daemon looks at any moment, and takes
	// half a list for an edit.
	require.NoError(t, os.WriteFile(w.signers()+".whole", []byte(before), 0o600))
	require.NoError(t, os.Rename(w.signers()+".whole", w.signers()))
	w.hup()
	require.Equal(t, after, read(t, w.signers()))
	require.True(t, w.health("signers").OK, "an older list is no edit")
	w.halt()
	require.NoError(t, os.Remove(w.signers()))
	w.serve()
	require.Equal(t, after, read(t, w.signers()))
	require.NoFileExists(t, w.signers()+".edited")

	// Anything else is an edit: it is kept, decides nothing, and the log tells of it.
	edit := strings.ReplaceAll(before, "bob@", "eve@")
	require.NoError(t, os.WriteFile(w.signers(), []byte(edit), 0o600))
	w.hup()
	require.Equal(t, after, read(t, w.signers()))
	require.Equal(t, edit, read(t, w.signers()+".edited"))
	require.Equal(t, 1, w.edits())
	require.False(t, w.health("signers").OK)
	require.True(t, w.health("revoked keys").OK, "such an entry says nothing of them")
	require.NoError(t, os.Remove(w.signers()+".edited"))
	require.True(t, w.health("signers").OK)
	w.halt()
	w.serve()
	require.True(t, w.health("revoked keys").OK)
	w.haltSound()
}

// edits counts the entries that say that the file of signers was edited.
func (w *world) edits() (n int) {
	w.t.Helper()
	entries := must.Get(w.client.Audit(w.t.Context(), 0, 1000))(w.t)
	for _, e := range entries {
		if e.Kind == "trusted" && strings.Contains(e.Detail, "was edited by hand") {
			n++
		}
	}
	return n
}

// TestAFileThatCannotBeWritten is no failure of the rotation: it is in force,
// status says so, and the file is written when that works.
func TestAFileThatCannotBeWritten(t *testing.T) {
	w, _, bob, _ := newPeople(t)
	w.serve()
	require.NoError(t, os.MkdirAll(filepath.Join(w.signers()+".tmp", "x"), 0o700), "in the way")
	carol := w.person("carol")
	id := must.Get(w.rotate(2, []any{carol.line(t, op.Operational)}, nil))(t)
	must.Get(w.sign(id, op.Operational, carol, bob))(t)
	require.Equal(t, op.StateSucceeded, w.done(id))
	require.False(t, w.health("signers").OK)
	require.NotContains(t, read(t, w.signers()), "carol")
	require.NoError(t, os.RemoveAll(w.signers()+".tmp"))
	w.hup()
	require.True(t, w.health("signers").OK)
	require.Contains(t, read(t, w.signers()), "carol")
	w.halt()
}

// TestARotationThatWasCutOff: whether it was done, the epoch says, and who made
// it.
func TestARotationThatWasCutOff(t *testing.T) {
	for name, done := range map[string]bool{"after the commit": true, "before it": false} {
		t.Run(name, func(t *testing.T) {
			w, _, bob, _ := newPeople(t)
			w.serve()
			carol := w.person("carol")
			id := must.Get(w.rotate(2, []any{carol.line(t, op.Operational)}, nil))(t)
			must.Get(w.sign(id, op.Operational, carol, bob))(t)
			require.Equal(t, op.StateSucceeded, w.done(id))
			w.halt()
			db, err := sql.Open("sqlite", "file:"+filepath.Join(w.state, "gated.db")+"?_pragma=busy_timeout(10000)")
			require.NoError(t, err)
			must.Get(db.Exec(`UPDATE steps SET state = 'dispatched', code = '', detail = '' WHERE op = 'trust.rotate';
				UPDATE jobs SET finished_at = 0`))(t)
			if !done { // another hand has made the epoch meanwhile
				must.Get(db.Exec(`UPDATE trust SET how = 'adopted by uid 0' WHERE epoch = 2`))(t)
			}
			require.NoError(t, db.Close())
			w.serve()
			want := op.StateInterrupted
			if done {
				want = op.StateSucceeded
			}
			require.Equal(t, want, w.done(id))
			w.halt()
		})
	}
}
