package life

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// fingerprint is the nth of many that differ.
func fingerprint(n int) string { return fmt.Sprintf("SHA256:%042dA", n) }

// stateOf is the state directory of a new gate with more settings, and its
// revocation file.
func stateOf(t *testing.T, settings string) (dir, file string) {
	dir = filepath.Join(t.TempDir(), "state")
	_, err := Init(t.Context(), InitOptions{StateDir: dir, Host: "pve1", Operators: []pubkey.Arg{{Path: "../../../testdata/keys/alice.pub", Principal: "alice@example.com"}}})
	require.NoError(t, err)
	conf := filepath.Join(dir, "gated.yaml")
	require.NoError(t, os.WriteFile(conf, []byte(text(t, conf)+settings), 0o600))
	return dir, filepath.Join(dir, "revoked")
}

func text(t *testing.T, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return string(b)
}

// Each key is added once, and no line of before is lost.
func TestRevokeAddsKeys(t *testing.T) {
	dir, file := stateOf(t, "")
	r := must.Get(Revoke(t.Context(), dir, []string{fingerprint(1), fingerprint(1)}))(t)
	require.Equal(t, Revocation{File: file, Added: []string{fingerprint(1)}, Count: 1}, r)
	require.NoError(t, os.WriteFile(file, []byte("# kept\n"+fingerprint(2)), 0o600)) // without an end of line
	r = must.Get(Revoke(t.Context(), dir, []string{fingerprint(2), fingerprint(3)}))(t)
	require.Equal(t, Revocation{File: file, Added: []string{fingerprint(3)}, Count: 2}, r)
	require.Equal(t, "# kept\n"+fingerprint(2)+"\n"+fingerprint(3)+"\n", text(t, file))
	info := must.Get(os.Stat(file))(t)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm(), "the daemon has to read it")
}

// The file that the configuration names is the file, and a link stays a link.
func TestRevokeInAnotherPlace(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	dir, file := stateOf(t, "")
	require.NoError(t, os.Symlink(there, file))
	must.Get(Revoke(t.Context(), dir, []string{fingerprint(1)}))(t)
	require.Equal(t, fingerprint(1)+"\n", text(t, there))
	require.Equal(t, there, must.Get(os.Readlink(file))(t))

	dir, file = stateOf(t, "revocation_file: "+there+"\n")
	must.Get(Revoke(t.Context(), dir, []string{fingerprint(2)}))(t)
	require.Contains(t, text(t, there), fingerprint(2))
	require.NoFileExists(t, file)
}

// Several at once lose no key.
func TestRevokesSideBySide(t *testing.T) {
	dir, file := stateOf(t, "")
	var all sync.WaitGroup
	failed := make([]error, 20)
	for n := range failed {
		all.Go(func() { _, failed[n] = Revoke(t.Context(), dir, []string{fingerprint(n)}) })
	}
	all.Wait()
	require.NoError(t, errors.Join(failed...))
	require.Equal(t, 20, must.Get(authz.LoadRevoked([]byte(text(t, file))))(t).Count())
}

// A file that does not load is not made to look like one that does.
func TestRevokeRefuses(t *testing.T) {
	dir, file := stateOf(t, "")
	require.NoError(t, os.WriteFile(file, []byte("nonsense\n"), 0o600))
	for key, code := range map[string]refusal.Code{fingerprint(1): refusal.Malformed, "SHA256:x": refusal.BadParams, fingerprint(1) + "\n" + fingerprint(2): refusal.BadParams,
		filepath.Join(dir, "no.pub"): refusal.BadParams} {
		must.Fail(Revoke(t.Context(), dir, []string{key}))(t, code, key)
	}
	require.Equal(t, "nonsense\n", text(t, file))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("#", authz.MaxRevoked)), 0o600))
	must.Fail(Revoke(t.Context(), dir, []string{fingerprint(1)}))(t, refusal.Malformed)
	must.Fail(Revoke(t.Context(), filepath.Join(dir, "none"), []string{fingerprint(1)}))(t, refusal.UnknownTarget)
	require.NoError(t, os.Chmod(file, 0o666))
	_, err := Revoke(t.Context(), dir, []string{fingerprint(1)})
	require.ErrorIs(t, err, refusal.NotAllowed, "others could have taken a key out")
}

// A file that is gone is no empty one if keys were revoked: a new file would
// pardon them. A link that leads nowhere is no missing file.
func TestRevokeIsNoPardon(t *testing.T) {
	dir, file := stateOf(t, "")
	o, err := Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	o.Store.OnGroup(audit.Seal)
	revokes := true
	require.NoError(t, o.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Kind: audit.Trusted, Gate: o.ID.Gate, Time: time.Now(), Revokes: &revokes,
			Parts: audit.Parts{SignersFile: audit.SignersFile{Epoch: 1}}})
		return err
	}))
	require.NoError(t, o.Close())
	_, err = Revoke(t.Context(), dir, []string{fingerprint(2)})
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, refusal.As(err).Detail, "would pardon them")
	require.NoFileExists(t, file)

	require.NoError(t, os.Symlink(filepath.Join(dir, "mount", "revoked"), file))
	must.Fail(Revoke(t.Context(), dir, []string{fingerprint(2)}))(t, refusal.Unavailable)
	require.NoError(t, os.Remove(file))

	require.NoError(t, os.WriteFile(file, nil, 0o600)) // which an operator means
	must.Get(Revoke(t.Context(), dir, []string{fingerprint(2)}))(t)
}
