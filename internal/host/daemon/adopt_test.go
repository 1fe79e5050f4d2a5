package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/test/must"
)

func agreed(signers.Adoption) error { return nil }

// edit adds a line to the file of signers, behind the gate's back.
func (w *world) edit(line string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.signers(), []byte(read(w.t, w.signers())+line+"\n"), 0o600))
}

func TestAdopt(t *testing.T) {
	w, alice, bob, _ := newPeople(t)
	carol := w.person("carol")
	w.serve()
	waits := must.Get(w.rotate(2, []any{w.person("dave").line(t, op.Operational)}, nil))(t)
	w.halt()

	r, err := life.AdoptSigners(t.Context(), w.state, w.signers(), func(signers.Adoption) error { return errors.New("not asked") })
	require.NoError(t, err)
	require.True(t, r.Unedited)
	require.EqualValues(t, 1, r.Epoch)

	// An edit of the gate's own file decides nothing, and is kept for an adoption.
	before := read(t, w.signers())
	w.edit(carol.line(t, op.Operational))
	kept, edited := w.signers()+".edited", read(t, w.signers())
	w.serve()
	require.Equal(t, before, read(t, w.signers()))
	require.Equal(t, edited, read(t, kept))
	h := w.health("signers")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "gated trust adopt "+kept)
	must.Fail(w.sign(w.waiting("db"), op.Operational, carol))(t, refusal.UnknownSigner)
	w.halt()
	no := errors.New("no")
	must.Fail(life.AdoptSigners(t.Context(), w.state, kept, func(a signers.Adoption) error {
		require.EqualValues(t, 2, a.Epoch)
		require.Equal(t, []string{"+ carol@example.com operational " + carol.fingerprint() + ", software key"}, a.Changes)
		return no
	}))(t, no)
	require.Equal(t, edited, read(t, kept))
	require.Len(t, w.history(), 1)

	r = must.Get(life.AdoptSigners(t.Context(), w.state, kept, agreed))(t)
	require.False(t, r.Unedited)
	require.Equal(t, edited, read(t, w.signers()))
	require.NoFileExists(t, kept)
	all := w.history()
	require.Len(t, all, 2)
	require.Equal(t, r.Digest, all[1].Digest)
	require.True(t, strings.HasPrefix(all[1].How, "adopted by uid "), all[1].How)
	require.Len(t, all[1].Listed, 4)
	w.serve()
	var rotated []api.Entry
	last := errors.New("last")
	require.ErrorIs(t, w.events(func(e api.Entry) error {
		if e.Kind == "rotated" {
			rotated = append(rotated, e)
		}
		if len(rotated) == 2 {
			return last
		}
		return nil
	}), last)
	require.Contains(t, string(rotated[0].Raw), `"+ alice@example.com operational `+alice.fingerprint()+`"`)
	require.Contains(t, string(rotated[1].Raw), `"keys":["+ carol@example.com operational `+carol.fingerprint()+`"]`)
	require.Contains(t, string(rotated[1].Raw), `"epoch":2`)

	// A rotation of the epoch that was is not one any more.
	must.Err(w.sign(waits, op.Operational, bob))(t)
	require.NotEqual(t, op.StateSucceeded, w.done(waits))
	must.Get(w.sign(w.waiting("web"), op.Operational, carol))(t)
	_, err = life.AdoptSigners(t.Context(), w.state, w.signers(), agreed)
	refused(t, err, refusal.Conflict, "uses the state directory")
	w.haltSound()
}

func TestAdoptRefuses(t *testing.T) {
	w, _, _, _ := newPeople(t)
	whole := read(t, w.signers())
	for name, c := range map[string]struct {
		text string
		code refusal.Code
		says string
	}{
		"a line that is none": {whole + "nonsense\n", refusal.Malformed, "line 9"},
		"a carriage return":   {strings.ReplaceAll(whole, "\n", "\r\n"), refusal.Malformed, "line 1"},
		"nothing":             {"", refusal.BadParams, "nobody could sign as operational"},
		"only a comment":      {"# cut off\n", refusal.BadParams, "operational@gated"},
		"only recovery":       {lineWith(t, whole, "recovery@gated"), refusal.BadParams, "operational"},
		"operators of the past": {strings.ReplaceAll(whole, `"operational@gated"`, `"operational@gated",valid-before="20200101Z"`),
			refusal.BadParams, "valid now"},
		"a line without roles": {strings.Replace(whole, ` namespaces="operational@gated"`, "", 1), refusal.Malformed, "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(w.signers(), []byte(c.text), 0o600))
			_, err := life.AdoptSigners(t.Context(), w.state, w.signers(), agreed)
			refused(t, err, c.code, w.signers(), c.says)
			require.Equal(t, c.text, read(t, w.signers()))
		})
	}
	require.NoError(t, os.Remove(w.signers()))
	_, err := life.AdoptSigners(t.Context(), w.state, w.signers(), agreed)
	refused(t, err, refusal.UnknownTarget, "gated trust show")
	require.NoError(t, os.Symlink(w.file("else", whole), w.signers()))
	must.Fail(life.AdoptSigners(t.Context(), w.state, w.signers(), agreed))(t, refusal.BadParams)
	_, err = life.AdoptSigners(t.Context(), filepath.Join(w.dir, "nowhere"), w.signers(), agreed)
	refused(t, err, refusal.UnknownTarget, "--state")
	require.Len(t, w.history(), 1)
}

// lineWith returns the one line that has a text.
func lineWith(t *testing.T, whole, text string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(whole) {
		if strings.Contains(line, text) && line[0] != '#' {
			out = append(out, line)
		}
	}
	require.Len(t, out, 1)
	return out[0]
}

// TestAdoptSaysWhichRolesAreEmpty: recovery may go, and nobody is to miss it.
func TestAdoptSaysWhichRolesAreEmpty(t *testing.T) {
	w, _, _, _ := newPeople(t)
	whole := read(t, w.signers())
	require.NoError(t, os.WriteFile(w.signers(), []byte(strings.Replace(whole, lineWith(t, whole, "recovery@gated"), "", 1)), 0o600))
	asked := false
	a := must.Get(life.AdoptSigners(t.Context(), w.state, w.signers(), func(a signers.Adoption) error {
		asked = true
		require.Equal(t, []op.Role{op.Recovery}, a.Emptied)
		return nil
	}))(t)
	require.True(t, asked)
	require.Equal(t, []op.Role{op.Recovery}, a.Emptied)

	w.edit("# nobody goes")
	a = must.Get(life.AdoptSigners(t.Context(), w.state, w.signers(), agreed))(t)
	require.Empty(t, a.Emptied)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another uid")
	}
}

// TestTheAdoptersUID: what a process of root's writes is the owner's to read.
func TestTheAdoptersUID(t *testing.T) {
	needRoot(t)
	w, _, _, _ := newPeople(t)
	w.edit("# of root's editor")
	require.NoError(t, filepath.WalkDir(w.state, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == w.signers() {
			return err
		}
		return os.Chown(path, 12345, 12345)
	}))
	require.NoError(t, os.Chmod(w.dir, 0o711))
	out, err := reexec(t, "adopt", w.state).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"gated.db", "allowed_signers", "lock"} {
		info := must.Get(os.Stat(filepath.Join(w.state, name)))(t)
		require.EqualValues(t, 12345, info.Sys().(*syscall.Stat_t).Uid, name)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}
