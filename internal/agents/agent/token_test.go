package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestTokens(t *testing.T) {
	r := newRegistry(t, nil)
	me, other := &Peer{UID: 7}, &Peer{UID: 8}
	var kept Registration
	reg, token, err := r.RegisterToken(t.Context(), me, "inside", func(_ context.Context, reg Registration) (int64, error) { kept = reg; kept.ID = 7; return 7, nil })
	require.NoError(t, err)
	require.Equal(t, kept, reg)
	require.Len(t, token, TokenLen)
	require.NotContains(t, reg.Token, token)
	name, ok := r.WhoByToken(me, token)
	require.True(t, ok)
	require.Equal(t, "inside#7", name.Who())
	for _, bad := range []string{"", token[1:], token + "A", strings.Repeat("A", TokenLen), reg.Token, reg.Token[:TokenLen]} {
		name, ok = r.WhoByToken(me, bad)
		require.False(t, ok, "%q %s", bad, name)
	}
	name, ok = r.WhoByToken(other, token)
	require.False(t, ok, name)
	_, _, err = r.RegisterToken(t.Context(), other, "inside", granted)
	require.ErrorIs(t, err, refusal.Conflict)
	_, _, err = r.RegisterToken(t.Context(), other, "not a name", granted)
	require.ErrorIs(t, err, refusal.Malformed)
	no := errors.New("no")
	_, lost, err := r.RegisterToken(t.Context(), me, "lost", func(context.Context, Registration) (int64, error) { return 0, no })
	require.ErrorIs(t, err, no)
	require.Empty(t, lost)
	require.False(t, r.Alive("lost"))
	_, second := must.Two(r.RegisterToken(t.Context(), me, "second", granted))(t)
	require.NotEqual(t, token, second)
	must.Get(r.Unregister(t.Context(), "inside", "inside#7", false, dropped))(t)
	name, ok = r.WhoByToken(me, token)
	require.False(t, ok, name)
}

func TestTokenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	token := strings.Repeat("a", TokenLen)
	old := unix.Umask(0)
	defer unix.Umask(old)
	require.NoError(t, WriteTokenFile(path, token))
	require.ErrorIs(t, WriteTokenFile(path, token), fs.ErrExist)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	require.Equal(t, token, must.Get(ReadTokenFile(path))(t))

	link := path + ".link"
	require.NoError(t, os.Symlink(path, link))
	must.Fail(ReadTokenFile(link))(t, refusal.NotAllowed)
	require.ErrorIs(t, WriteTokenFile(link, token), fs.ErrExist)
	dangling := path + ".dangling"
	require.NoError(t, os.Symlink(path+".nowhere", dangling))
	require.ErrorIs(t, WriteTokenFile(dangling, token), fs.ErrExist)
	fifo := path + ".fifo"
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	must.Fail(ReadTokenFile(fifo))(t, refusal.NotAllowed)
	must.Fail(ReadTokenFile(path+".nowhere"))(t, fs.ErrNotExist)
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620} {
		require.NoError(t, os.Chmod(path, mode))
		_, err = ReadTokenFile(path)
		require.ErrorIs(t, err, refusal.NotAllowed, mode)
	}
	require.NoError(t, os.Chmod(path, 0o600))
	for _, bad := range []string{"", "secret\n", token + "\nmore", token + "aa"} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err = ReadTokenFile(path)
		require.ErrorIs(t, err, refusal.Malformed)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestReaper(t *testing.T) {
	s := newStage(t)
	a := s.start("a")
	require.Equal(t, s.reaper, a.number("reaper"))
	require.Equal(t, "ok", a.say("subreaper"))
	require.Equal(t, a.pid, a.number("reaper"), "oneself")
	require.Equal(t, a.pid, a.start("b").number("reaper"), "the nearest")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(Reaper(ctx))(t, context.Canceled)
}
