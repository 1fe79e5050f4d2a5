package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/api"
	"gated/internal/checkout"
	"gated/internal/op"
)

func TestPlaces(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir := filepath.Join(root, "repo")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	require.NoError(t, os.Symlink("repo", filepath.Join(root, "link")))
	require.NoError(t, os.Symlink("round", filepath.Join(root, "round")))
	real, err := checkout.At(dir)
	require.NoError(t, err)
	p := newPlaces()
	got, err := p.check(t.Context(), real, true)
	require.NoError(t, err)
	require.Equal(t, api.Place{Path: got.Path, Device: got.Device, Inode: got.Inode, Fold: got.Fold}, real)
	lies := real
	lies.Fold = true
	got, err = p.check(t.Context(), lies, true)
	require.NoError(t, err)
	require.False(t, got.Fold, "where the daemon sees the directory, it is the one to say")

	at := func(path string) api.Place {
		return api.Place{Path: path, Device: real.Device, Inode: real.Inode, Fold: true}
	}
	other := real
	other.Inode++
	for _, c := range []struct {
		at   api.Place
		code op.Code
		says string
	}{
		{at("repo"), op.BadParams, "not absolute"},
		{at(""), op.BadParams, "not absolute"},
		{at(dir + "/"), op.BadParams, "shortest form"},
		{at(root + "/./repo"), op.BadParams, "shortest form"},
		{at(root + "/x/../repo"), op.BadParams, "shortest form"},
		{at("/" + strings.Repeat("x", maxPath)), op.BadParams, "longer than"},
		{at(dir + "\x00"), op.BadParams, "zero byte"},
		{at(root + "/file"), op.BadParams, "not a directory"},
		{at(root + "/file/below"), op.BadParams, "not a directory"},
		{at(root + "/link"), op.BadParams, "symbolic link"},
		{at(root + "/round"), op.BadParams, "symbolic link"},
		{other, op.StaleTarget, "another one"},
		{api.Place{Path: dir}, op.BadParams, "neither device nor inode"},
	} {
		_, err := p.check(t.Context(), c.at, true)
		require.ErrorIs(t, err, c.code, "%+v", c.at)
		require.ErrorContains(t, err, c.says)
	}
	_, err = p.check(t.Context(), api.Place{Path: dir}, false)
	require.NoError(t, err)

	// What the daemon cannot see is the caller's word.
	hidden := at(root + "/not/there")
	got, err = p.check(t.Context(), hidden, true)
	require.NoError(t, err)
	require.True(t, got.Fold)
	p.at = func(string) (api.Place, error) { return api.Place{}, unix.EACCES }
	_, err = p.check(t.Context(), other, true)
	require.NoError(t, err)
}

// TestAPlaceThatDoesNotAnswer: the caller is not kept, and the daemon not
// drowned in what never comes back.
func TestAPlaceThatDoesNotAnswer(t *testing.T) {
	p, release := newPlaces(), make(chan struct{})
	started := make(chan struct{}, placesAtOnce)
	p.at = func(string) (api.Place, error) { started <- struct{}{}; <-release; return api.Place{}, unix.EIO }
	for range placesAtOnce {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := p.check(ctx, api.Place{Path: "/x", Inode: 1}, true)
			ended <- err
		}()
		<-started
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.check(ctx, api.Place{Path: "/x", Inode: 1}, true)
	require.ErrorIs(t, err, context.Canceled, "there is no place left to look from")
	close(release)
	_, err = p.check(t.Context(), api.Place{Path: "/x", Inode: 1}, true)
	require.NoError(t, err)
}
