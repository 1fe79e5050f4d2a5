package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/op"
)

func (w *world) revokedFile() string { return filepath.Join(w.state, "revoked") }

// trusted waits for the nth time that revoked keys were taken over: it is in the
// log of decisions first, and then in force and in status, which the daemon says.
func (w *world) trusted(n int) {
	w.t.Helper()
	found, left := errors.New("found"), n
	require.ErrorIs(w.t, w.events(func(e api.Entry) error {
		if e.Kind == "trusted" {
			left--
		}
		if left == 0 {
			return found
		}
		return nil
	}), found)
	limit := time.After(patience)
	for {
		text := w.log.String()
		if strings.Count(text, "revoked keys are in force")+strings.Count(text, "every signature is refused") >= n {
			return
		}
		select {
		case <-w.log.grew:
		case <-limit:
			w.t.Fatalf("the daemon did not say %d times what is in force:\n%s", n, text)
		}
	}
}

// TestRevokedOnChange: without a signal, as soon as the file is whole.
func TestRevokedOnChange(t *testing.T) { // S14
	w := newWorld(t)
	w.init()
	w.serve()
	id := w.waiting("web")
	require.Contains(t, w.health("revoked keys").Detail, "none, there is no "+w.revokedFile())

	// By rename, as it should be; a fingerprint or a key.
	require.NoError(t, os.Rename(w.file("new", w.fingerprint()+"\n"), w.revokedFile()))
	w.trusted(1)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	require.Equal(t, "1 in "+w.revokedFile(), w.health("revoked keys").Detail)
	require.NoError(t, os.WriteFile(w.revokedFile(), nil, 0o600))
	w.trusted(2)

	// Half of a file is not one, until a signal says that it is to be read.
	f, err := os.Create(w.revokedFile())
	require.NoError(t, err)
	_, err = f.WriteString("# half of a lin")
	require.NoError(t, err)
	w.hup()
	w.trusted(3)
	require.True(t, w.health("revoked keys").OK)
	_, err = f.WriteString("e\n" + w.fingerprint() + "\n")
	require.NoError(t, err)
	w.hup()
	w.trusted(4)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	require.NoError(t, f.Close())
	w.trusted(5)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)

	// What is not understood refuses every key, also one that is not in it.
	require.NoError(t, os.WriteFile(w.revokedFile(), []byte("nonsense\n"), 0o600))
	w.trusted(6)
	h := w.health("revoked keys")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, w.revokedFile()+": line 1: ")
	require.ErrorIs(t, w.approve(id), op.Unavailable)

	require.NoError(t, os.WriteFile(w.revokedFile(), nil, 0o600))
	w.trusted(7)
	require.NoError(t, w.approve(id))
	w.await(strings.TrimSuffix(id, ".1"))

	// An empty list may go: it revokes nothing.
	require.NoError(t, os.Remove(w.revokedFile()))
	w.trusted(8)
	require.Contains(t, w.health("revoked keys").Detail, "none, there is no ")
	w.halt()
	w.sound()
}

// TestRevokedWhileAnEditorSaves: one that moves the file away and writes another
// one does not let a revoked key count in between, however long that takes.
func TestRevokedWhileAnEditorSaves(t *testing.T) { // S14
	w := newWorld(t)
	w.init()
	w.serve()
	id := w.waiting("web")
	require.NoError(t, os.WriteFile(w.revokedFile(), []byte(w.fingerprint()+"\n"), 0o600))
	w.trusted(1)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)

	refusedUntil := func(n int) {
		taken := make(chan struct{})
		go func() { defer close(taken); w.trusted(n) }()
		for tries := 0; ; tries++ {
			require.Contains(t, []op.Code{op.SignerRevoked, op.Unavailable}, op.CodeOf(w.approve(id)), "try %d", tries)
			select {
			case <-taken:
				return
			default:
			}
		}
	}
	require.NoError(t, os.Rename(w.revokedFile(), w.revokedFile()+"~"))
	refusedUntil(2)
	h := w.health("revoked keys")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "put it back, or an empty file to revoke nothing")
	require.ErrorIs(t, w.approve(id), op.Unavailable)
	f, err := os.Create(w.revokedFile())
	require.NoError(t, err)
	w.hup() // even where somebody says so, nothing that is open is a list
	require.ErrorIs(t, w.approve(id), op.Unavailable)
	_, err = f.WriteString("# edited\n" + w.fingerprint() + "\n")
	require.NoError(t, err)
	require.ErrorIs(t, w.approve(id), op.Unavailable)
	require.NoError(t, f.Close())
	refusedUntil(4)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	require.True(t, w.health("revoked keys").OK)

	// A file that is deleted is no pardon, and a signal makes it none.
	require.NoError(t, os.Remove(w.revokedFile()))
	refusedUntil(5)
	w.hup()
	require.ErrorIs(t, w.approve(id), op.Unavailable)

	// Nor is another daemon, or a third one.
	for range 2 {
		w.halt()
		w.serve()
		require.False(t, w.health("revoked keys").OK)
		require.ErrorIs(t, w.approve(id), op.Unavailable)
	}
	require.NoError(t, os.Rename(w.revokedFile()+"~", w.revokedFile()))
	refusedUntil(7)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	w.halt()
	require.NoError(t, os.Remove(w.revokedFile()))
	w.serve()
	require.ErrorIs(t, w.approve(id), op.Unavailable)
	require.NoError(t, os.WriteFile(w.revokedFile(), nil, 0o600))
	w.trusted(8)
	require.NoError(t, w.approve(id))
	w.await(strings.TrimSuffix(id, ".1"))

	// Nothing is revoked any more, and no file is needed.
	w.halt()
	require.NoError(t, os.Remove(w.revokedFile()))
	w.serve()
	require.True(t, w.health("revoked keys").OK)
	w.halt()
	w.sound()
}

// TestRevokedBehindALink is found without inotify.
func TestRevokedBehindALink(t *testing.T) {
	w := newWorld(t)
	w.init()
	there := filepath.Join(w.dir, "elsewhere")
	require.NoError(t, os.Mkdir(there, 0o700))
	file := filepath.Join(there, "revoked")
	require.NoError(t, os.WriteFile(file, []byte("# nobody yet\n"), 0o600))
	require.NoError(t, os.Symlink(file, w.revokedFile()))
	w.serve()
	id := w.waiting("web")
	require.NoError(t, os.WriteFile(file, []byte(w.fingerprint()+"\n"), 0o600))
	w.trusted(1)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	w.halt()
}

// TestRevokedFileThatIsNamed has to be there, at a start and after a reload.
func TestRevokedFileThatIsNamed(t *testing.T) {
	w := newWorld(t)
	w.init()
	file := filepath.Join(w.dir, "named")
	w.config("revocation_file: " + file + "\n")
	w.serve()
	require.False(t, w.health("revoked keys").OK, "it serves, and nobody can sign")
	id := w.waiting("web")
	require.ErrorIs(t, w.approve(id), op.Unavailable)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	w.trusted(1)
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
	require.NoError(t, os.WriteFile(file+"2", []byte(w.fingerprint()+"\n"), 0o600))
	w.trusted(3)
	require.ErrorIs(t, w.approve(id), op.SignerRevoked)
	w.halt()
}

// TestRevokedFileThatWasNeverThere locks the gate while it is named, and not when
// it is not named any more: no key was revoked. Where one was, it goes on to.
func TestRevokedFileThatWasNeverThere(t *testing.T) {
	w := newWorld(t)
	w.init()
	conf := filepath.Join(w.state, "gated.yaml")
	plain, named := read(t, conf), read(t, conf)+"revocation_file: "+w.revokedFile()+"\n"
	say := func(text string) { require.NoError(t, os.WriteFile(conf, []byte(text), 0o600)) }
	say(named)
	w.serve()
	id := w.waiting("web")
	require.ErrorIs(t, w.approve(id), op.Unavailable)
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
	require.NoError(t, os.WriteFile(w.revokedFile(), []byte(w.fingerprint()+"\n"), 0o600))
	w.trusted(2)
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
	w := newWorld(t)
	w.init()
	w.config("policy:\n  rules:\n    - {op: guest.destroy, threshold: 2}\n")
	w.serve()
	h := w.health("rule")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "needs 2")
	require.Contains(t, w.health("signers").Detail, "software keys by alice@example.com")
	w.halt()
}

// TestStatusSaysThatNobodyCouldSign: no key is left that counts.
func TestStatusSaysThatNobodyCouldSign(t *testing.T) {
	w := newWorld(t)
	w.init()
	w.serve()
	require.True(t, w.health("signers").OK)
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "revoked"), []byte(w.fingerprint()+"\n"), 0o600))
	w.trusted(1)
	// Status learns of it after the log.
	require.Eventually(t, func() bool { return !w.health("signers").OK }, patience, time.Millisecond)
	h := w.health("signers")
	require.Contains(t, h.Detail, "nobody could sign as operational")
	require.Contains(t, h.Detail, "gated trust adopt")
	w.halt()
}
