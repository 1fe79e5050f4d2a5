package ownfile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// fileOf is a file with another owner.
type fileOf struct {
	fs.FileInfo
	stat any
}

func (f fileOf) Sys() any { return f.stat }

func in(t *testing.T) File {
	return File{Path: filepath.Join(t.TempDir(), "d", "f"), Max: 16, What: "the notes", Moved: "HERE"}
}

func TestWhoseFilesAreBelieved(t *testing.T) {
	f := in(t)
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	info := must.Get(os.Lstat(path))(t)
	require.NoError(t, f.own(path, info))
	require.NoError(t, f.own(path, fileOf{info, &syscall.Stat_t{Uid: 0}}))
	other := uint32(os.Geteuid()) + 12345
	err := f.own(path, fileOf{info, &syscall.Stat_t{Uid: other}})
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, Owner(other))
	require.ErrorIs(t, f.own(path, fileOf{info, nil}), refusal.NotAllowed)
	for _, mode := range []os.FileMode{0o620, 0o602, 0o777} {
		require.NoError(t, os.Chmod(path, mode))
		info := must.Get(os.Lstat(path))(t)
		require.ErrorIs(t, f.own(path, info), refusal.NotAllowed)
	}
}

func TestReadAndReplace(t *testing.T) {
	f := in(t)
	text := must.Get(f.Read())(t)
	require.Nil(t, text, "no directory")
	require.NoError(t, f.MakeDir())
	text = must.Get(f.Read())(t)
	require.Nil(t, text, "no file")
	for _, want := range []string{"one", "", "0123456789abcdef"} {
		require.NoError(t, f.Replace([]byte(want)))
		text = must.Get(f.Read())(t)
		require.Equal(t, want, string(text))
	}
	require.ErrorIs(t, f.Replace(make([]byte, 17)), refusal.Oversized)
	info := must.Get(os.Lstat(f.Path))(t)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	require.Len(t, must.Get(os.ReadDir(filepath.Dir(f.Path)))(t), 1, "nothing is left beside it")
	require.NoError(t, os.WriteFile(f.Path, make([]byte, 17), 0o600))
	must.Fail(f.Read())(t, refusal.Oversized)
}

func TestWhatIsNoFile(t *testing.T) {
	f := in(t)
	require.NoError(t, f.MakeDir())
	require.NoError(t, syscall.Mkfifo(f.Path, 0o600))
	must.Fail(f.Read())(t, refusal.NotAllowed)
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Symlink("elsewhere", f.Path))
	must.Fail(f.Read())(t, refusal.NotAllowed)
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Symlink("elsewhere", f.Path+".lock"))
	must.Err(f.Lock(context.Background()))(t, "nor is a lock made elsewhere")
	require.NoError(t, os.Chmod(filepath.Dir(f.Path), 0o777))
	must.Fail(f.Read())(t, refusal.NotAllowed)
	require.ErrorIs(t, f.MakeDir(), refusal.NotAllowed)
}

// TestALockIsOnes: no other process writes between a read and a write under the lock.
func TestALockIsOnes(t *testing.T) {
	f := in(t)
	require.NoError(t, f.MakeDir())
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			unlock, err := f.Lock(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			text, err := f.Read()
			if err == nil {
				err = f.Replace(append(text, 'x'))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text := must.Get(f.Read())(t)
	require.Equal(t, "xxxxxxxxxxxxxxxx", string(text))

	unlock := must.Get(f.Lock(context.Background()))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	must.Fail(f.Lock(ctx))(t, context.Canceled)
	unlock()
}
