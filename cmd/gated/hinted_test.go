package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

func TestHinted(t *testing.T) {
	disk := errors.New("disk on fire")
	require.Equal(t, disk, hinted(disk, "h"))
	require.NoError(t, hinted(nil, "h"))
	hint := func(err error) string { return op.AsRefusal(err).Hint }
	require.Equal(t, "100 % of it", hint(hinted(op.Refuse(op.Conflict, "x"), "100 % of it")))
	require.Equal(t, "own", hint(hinted(op.Refuse(op.Conflict, "x").WithHint("own"), "h")))
	require.Empty(t, hint(hinted(op.Refuse(op.Conflict, "x"), "h", op.UnknownTarget)), "another code")
	require.Equal(t, "h", hint(hinted(op.Refuse(op.UnknownTarget, "x"), "h", op.UnknownTarget)))
}

func TestReadable(t *testing.T) {
	err := readable(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, err.Error(), unreadable(err, "/s"))
	denied := &fs.PathError{Op: "open", Path: "/root/b.db", Err: fs.ErrPermission}
	require.Equal(t, "open /root/b.db: permission denied\nthe user that gated runs as has to be able to read it: install -o "+
		userName()+" -m 0600 FILE /s/", unreadable(denied, "/s"))
}
