package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

func (w *world) revokedFile() string { return filepath.Join(w.state, "revoked") }

// What the daemon logs when a revocation file has come into force.
const (
	saysOne    = `what="1 in `
	saysZero   = `what="0 in `
	saysNoFile = `what="none, there is no `
	saysAway   = ` any more, and keys were revoked: put it back`
)

// revoking changes the revocation file and waits until the daemon logs what is
// in force now. The log of decisions has it before that, and status says it.
func (w *world) revoking(says string, change func()) {
	w.t.Helper()
	from, before := len(w.log.String()), w.timesTrusted()
	change()
	w.log.await(w.t, from, says)
	require.Greater(w.t, w.timesTrusted(), before, "it is not in the log of decisions")
}

// timesTrusted is how often revoked keys were taken over, by the log of
// decisions.
func (w *world) timesTrusted() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.client.Events(w.t.Context(), 0, false, func(e api.Entry) error {
		if e.Kind == "trusted" {
			n++
		}
		return nil
	}))
	return n
}

// revokes replaces the text of the revocation file.
func (w *world) revokes(text string) func() {
	return func() { require.NoError(w.t, os.WriteFile(w.revokedFile(), []byte(text), 0o600)) }
}

// TestRevokedOnChange: without a signal, as soon as the file is whole.
func TestRevokedOnChange(t *testing.T) { // S14
	w := newServing(t)
	id := w.waiting("web")
	require.Contains(t, w.health("revoked keys").Detail, "none, there is no "+w.revokedFile())

	// By rename, as it should be; a fingerprint or a key.
	w.revoking(saysOne, func() {
		require.NoError(t, os.Rename(w.file("new", w.fingerprint()+"\n"), w.revokedFile()))
	})
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	require.Equal(t, "1 in "+w.revokedFile(), w.health("revoked keys").Detail)

	// A key that is taken out and a key that comes in: the new one is refused at once.
	bob := w.person("bob")
	w.revoking(`what="2, with those that `, w.revokes(bob.fingerprint()+"\n"))
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)

	// What is not understood refuses every key, also one that is not in it.
	w.revoking("line 1: ", w.revokes("nonsense\n"))
	h := w.health("revoked keys")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, w.revokedFile()+": line 1: ")
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)

	w.revoking(saysZero, w.revokes(""))
	require.NoError(t, w.approve(id))
	w.await(strings.TrimSuffix(id, ".1"))

	// An empty list may go: it revokes nothing.
	w.revoking(saysNoFile, func() { require.NoError(t, os.Remove(w.revokedFile())) })
	require.Contains(t, w.health("revoked keys").Detail, "none, there is no ")
	w.haltSound()
}

// TestRevokedWhileAnEditorSaves: one that moves the file away and writes another
// one does not let a revoked key count in between, however long that takes.
func TestRevokedWhileAnEditorSaves(t *testing.T) { // S14
	w := newServing(t)
	id := w.waiting("web")
	w.revoking(saysOne, w.revokes(w.fingerprint()+"\n"))
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)

	// refused changes the file and tries to approve until the change is in force.
	refused := func(says string, change func()) {
		w.revoking(says, func() {
			from, limit := len(w.log.String()), time.After(patience)
			change()
			for tries := 0; !strings.Contains(w.log.String()[from:], says); tries++ {
				require.Contains(t, []refusal.Code{refusal.SignerRevoked, refusal.Unavailable}, refusal.CodeOf(w.approve(id)), "try %d", tries)
				select {
				case <-limit:
					t.Fatalf("the daemon did not log %q:\n%s", says, w.log)
				default:
				}
			}
		})
	}
	refused(saysAway, func() { require.NoError(t, os.Rename(w.revokedFile(), w.revokedFile()+"~")) })
	h := w.health("revoked keys")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "put it back, or an empty file to revoke nothing")
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	f := must.Get(os.Create(w.revokedFile()))(t)
	w.hup() // even if an operator says so: an empty file gives no key back at once
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	must.Get(f.WriteString("# edited\n" + w.fingerprint() + "\n"))(t)
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	refused(saysOne, func() { require.NoError(t, f.Close()) })
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	require.True(t, w.health("revoked keys").OK)

	// A file that is deleted is no pardon, and a signal makes it none.
	refused(saysAway, func() { require.NoError(t, os.Remove(w.revokedFile())) })
	w.hup()
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)

	// Nor is another daemon, or a third one.
	for range 2 {
		w.halt()
		w.serve()
		require.False(t, w.health("revoked keys").OK)
		require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	}
	refused(saysOne, func() { require.NoError(t, os.Rename(w.revokedFile()+"~", w.revokedFile())) })
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	w.halt()
	require.NoError(t, os.Remove(w.revokedFile()))
	w.serve()
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	w.revoking(saysZero, w.revokes(""))
	require.NoError(t, w.approve(id))
	w.await(strings.TrimSuffix(id, ".1"))

	// Nothing is revoked any more, and no file is needed.
	w.halt()
	require.NoError(t, os.Remove(w.revokedFile()))
	w.serve()
	require.True(t, w.health("revoked keys").OK)
	w.haltSound()
}

// TestRevokedBehindALink is found without inotify.
func TestRevokedBehindALink(t *testing.T) {
	w := newInitialised(t)
	there := filepath.Join(w.dir, "elsewhere")
	require.NoError(t, os.Mkdir(there, 0o700))
	file := filepath.Join(there, "revoked")
	require.NoError(t, os.WriteFile(file, []byte("# nobody yet\n"), 0o600))
	require.NoError(t, os.Symlink(file, w.revokedFile()))
	w.serve()
	id := w.waiting("web")
	w.revoking(saysOne, func() { require.NoError(t, os.WriteFile(file, []byte(w.fingerprint()+"\n"), 0o600)) })
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	w.halt()
}

// TestRevokedFileThatIsNamed has to be there, at a start and after a reload.
func TestRevokedFileThatIsNamed(t *testing.T) {
	w := newInitialised(t)
	file := filepath.Join(w.dir, "named")
	w.config("revocation_file: " + file + "\n")
	w.serve()
	require.False(t, w.health("revoked keys").OK, "it serves, and nobody can sign")
	id := w.waiting("web")
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	w.revoking(saysZero, func() { require.NoError(t, os.WriteFile(file, nil, 0o600)) })
	require.True(t, w.health("revoked keys").OK)

	// Another name is another file; a configuration that is refused changes neither.
	conf := filepath.Join(w.state, "gated.yaml")
	good := read(t, conf)
	require.NoError(t, os.WriteFile(conf, []byte(strings.Replace(good, file, file+"2", 1)+"nonsense: 1\n"), 0o600))
	w.hup()
	require.True(t, w.health("revoked keys").OK)
	require.NoError(t, os.WriteFile(conf, []byte(strings.Replace(good, file, file+"2", 1)), 0o600))
	w.hup()
	require.Contains(t, w.health("revoked keys").Detail, file+"2")
	w.revoking(saysOne, func() { require.NoError(t, os.WriteFile(file+"2", []byte(w.fingerprint()+"\n"), 0o600)) })
	require.ErrorIs(t, w.approve(id), refusal.SignerRevoked)
	w.halt()
}

// TestRevokedFileThatWasNeverThere locks the gate while it is named, and not when
// it is not named any more: no key was revoked. Where one was, it goes on to.
func TestRevokedFileThatWasNeverThere(t *testing.T) {
	w := newInitialised(t)
	conf := filepath.Join(w.state, "gated.yaml")
	plain, named := read(t, conf), read(t, conf)+"revocation_file: "+w.revokedFile()+"\n"
	say := func(text string) { require.NoError(t, os.WriteFile(conf, []byte(text), 0o600)) }
	say(named)
	w.serve()
	id := w.waiting("web")
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	require.Contains(t, w.health("revoked keys").Detail, "no key was revoked, and there is no "+w.revokedFile())
	w.halt()
	say(plain)
	w.serve()
	require.True(t, w.health("revoked keys").OK, w.health("revoked keys").Detail)
	say(named)
	w.hup()
	require.False(t, w.health("revoked keys").OK)
	w.halt()
	say(plain)
	w.serve()
	require.True(t, w.health("revoked keys").OK, "a reload says it as a start does")
	w.revoking(saysOne, w.revokes(w.fingerprint()+"\n"))
	w.halt()
	require.NoError(t, os.Remove(w.revokedFile()))
	for _, text := range []string{named, plain} {
		say(text)
		w.serve()
		require.Contains(t, w.health("revoked keys").Detail, "keys were revoked: put it back")
		w.halt()
	}
}

// TestRulesThatCannotBeMetShow in status, and are in force all the same.
func TestRulesThatCannotBeMetShow(t *testing.T) {
	w := newInitialised(t)
	w.config("policy:\n  rules:\n    - {op: guest.destroy, threshold: 2}\n")
	w.serve()
	h := w.health("rule")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "needs 2")
	require.Contains(t, w.health("signers").Detail, "software keys by alice@example.com")
	w.halt()
}

// onlyPasskeys lists a passkey of console.example.com.
const onlyPasskeys = `pam@example.com namespaces="operational@gated" sk-ecdsa-sha2-nistp256@openssh.com AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABBBCi8ZlxDNCsd0ohIO/WwkWwGVkBHuzxTm9a9AnlrNtEBTx90rU7pCuFsaTa2dzxiFHRPneCNN4Q5ZIm8aAXKEfYAAAATY29uc29sZS5leGFtcGxlLmNvbQ==
`

// TestStatusSaysThatOnlyPasskeysAreListed where no page is configured, and no rule could be met by them.
func TestStatusSaysThatOnlyPasskeysAreListed(t *testing.T) {
	w := newInitialised(t)
	list := w.file("list", onlyPasskeys)
	must.Get(life.AdoptSigners(t.Context(), w.state, list, agreed))(t)
	w.config("policy:\n  rules:\n    - {op: guest.destroy, threshold: 1}\n")
	w.serve()
	h := w.health("signers")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "passkeys.origins of gated.yaml names a page")
	require.Contains(t, w.health("rule").Detail, "needs 1 in the role operational, and 0 could sign")
	w.config("passkeys: {origins: [https://console.example.com]}\n")
	must.Get(w.client.Reload(t.Context()))(t)
	require.True(t, w.health("signers").OK)
	w.haltSound()
}

// TestStatusSaysThatNobodyCouldSign: no key is left that counts.
func TestStatusSaysThatNobodyCouldSign(t *testing.T) {
	w := newServing(t)
	require.True(t, w.health("signers").OK)
	w.revoking(saysOne, w.revokes(w.fingerprint()+"\n"))
	h := w.health("signers")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "nobody could sign as operational")
	require.Contains(t, h.Detail, "gated trust adopt")
	w.halt()
}
