package service

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestPlaces(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	dir := filepath.Join(root, "repo")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	require.NoError(t, os.Symlink("repo", filepath.Join(root, "link")))
	require.NoError(t, os.Symlink("round", filepath.Join(root, "round")))
	real := must.Get(checkout.At(dir))(t)
	p := newPlaces(false)
	got, _ := must.Two(p.check(t.Context(), 0, real, true))(t)
	require.Equal(t, api.Place{Path: got.Path, Device: got.Device, Inode: got.Inode, Fold: got.Fold}, real)
	lies := real
	lies.Fold = true
	got, _ = must.Two(p.check(t.Context(), 0, lies, true))(t)
	require.False(t, got.Fold, "where the daemon sees the directory, it is the one to say")

	at := func(path string) api.Place {
		return api.Place{Path: path, Device: real.Device, Inode: real.Inode, Fold: true}
	}
	other := real
	other.Inode++
	for _, c := range []struct {
		at   api.Place
		code refusal.Code
		says string
	}{
		{at("repo"), refusal.BadParams, "not absolute"},
		{at(""), refusal.BadParams, "not absolute"},
		{at(dir + "/"), refusal.BadParams, "shortest form"},
		{at(root + "/./repo"), refusal.BadParams, "shortest form"},
		{at(root + "/x/../repo"), refusal.BadParams, "shortest form"},
		{at("/" + strings.Repeat("x", maxPath)), refusal.BadParams, "longer than"},
		{at(dir + "\x00"), refusal.BadParams, "zero byte"},
		{at(root + "/file"), refusal.BadParams, "not a directory"},
		{at(root + "/file/below"), refusal.BadParams, "not a directory"},
		{at(root + "/link"), refusal.BadParams, "symbolic link"},
		{at(root + "/round"), refusal.BadParams, "symbolic link"},
		{other, refusal.StaleTarget, "another one"},
		{api.Place{Path: dir}, refusal.BadParams, "neither device nor inode"},
	} {
		_, _, err := p.check(t.Context(), 0, c.at, true)
		require.ErrorIs(t, err, c.code, "%+v", c.at)
		require.ErrorContains(t, err, c.says)
	}
	_, _, err := p.check(t.Context(), 0, api.Place{Path: dir}, false)
	require.NoError(t, err)

	// What the daemon cannot see is the caller's word.
	hidden := at(root + "/not/there")
	got, _ = must.Two(p.check(t.Context(), 0, hidden, true))(t)
	require.True(t, got.Fold)
	p.at = func(string) (api.Place, error) { return api.Place{}, unix.EACCES }
	_, _, err = p.check(t.Context(), 0, other, true)
	require.NoError(t, err)
	p.at = func(string) (api.Place, error) { return other, nil }
	_, _, err = p.check(t.Context(), 0, other, true)
	require.ErrorIs(t, err, refusal.StaleTarget, "it changed between two looks")
}

// on is a way down to a directory: where it leads through, and how it ends.
func on(err error, way ...checkout.Directory) func(string, func(checkout.Directory)) error {
	return func(_ string, met func(checkout.Directory)) error {
		for _, d := range way {
			met(d)
		}
		return err
	}
}

// TestWhoMayClaim: what somebody may not write to is not theirs to keep others
// out of.
func TestWhoMayClaim(t *testing.T) {
	const inode = 7
	d := func(path string, uid, gid, mode uint32) checkout.Directory {
		return checkout.Directory{Path: path, Inode: inode, UID: uid, GID: gid, Mode: unix.S_IFDIR | mode}
	}
	top, home, tmp := d("/", 0, 0, 0o755), d("/home", 0, 0, 0o755), d("/tmp", 0, 0, 0o1777)
	hers := d("/home/her", 64101, 64101, 0o700)
	root, her, him := claimant{}, claimant{64101, []uint32{64101}}, claimant{64102, []uint32{64102}}
	mate := claimant{64102, []uint32{64102, 500}}
	for _, c := range []struct {
		path          string
		way           []checkout.Directory
		err           error
		may, mayNot   []claimant
		says          string
		allowedUnseen bool
	}{
		{"/", []checkout.Directory{top}, nil, []claimant{root}, []claimant{her, him}, "may not write to /", false},
		{"/home/her", []checkout.Directory{top, home, hers}, nil, []claimant{root, her}, []claimant{him, mate}, "--scope", false},
		{"/tmp", []checkout.Directory{top, tmp}, nil, []claimant{root}, []claimant{her, mate}, "may not write", false},
		{"/tmp/x", []checkout.Directory{top, tmp, d("/tmp/x", 64101, 0, 0o755)}, nil, []claimant{her}, []claimant{him}, "may not write", false},
		{"/srv/all", []checkout.Directory{top, d("/srv/all", 0, 500, 0o2775)}, nil, []claimant{mate, root}, []claimant{her, him}, "may not write", false},
		{"/srv/open", []checkout.Directory{top, d("/srv/open", 0, 0, 0o777)}, nil, []claimant{her, him}, nil, "", false},
		// What the daemon cannot see.
		{"/home/her/repo", []checkout.Directory{top, home, hers}, unix.EACCES, []claimant{root, her}, []claimant{him}, "cannot see", true},
		{"/home/her/repo", []checkout.Directory{top, home}, unix.EACCES, []claimant{root}, []claimant{her}, "unseen: allow", true},
		{"/workspace", []checkout.Directory{top}, unix.ENOENT, []claimant{root}, []claimant{her}, "container", true},
		{"/tmp/x", []checkout.Directory{top, tmp}, unix.ENOENT, []claimant{root}, []claimant{her}, "cannot see", true},
		{"/home/her/x", []checkout.Directory{top, home, d("/home/her", 64101, 0, 0o500)}, unix.ENOENT, []claimant{her}, []claimant{him}, "cannot see", true},
		{"/srv/open/x", []checkout.Directory{top, d("/srv/open", 0, 0, 0o777)}, unix.EIO, []claimant{her}, nil, "", true},
	} {
		p := newPlaces(false)
		p.down = on(c.err, c.way...)
		p.at = func(path string) (api.Place, error) { return api.Place{Path: path, Inode: inode}, nil }
		said := api.Place{Path: c.path, Inode: inode}
		for _, who := range c.may {
			must.Get(p.claim(t.Context(), who, said, true))(t, "%s %+v", c.path, who)
			require.NoError(t, p.mayStay(t.Context(), who, c.path), "%s %+v", c.path, who)
		}
		for _, who := range c.mayNot {
			_, err := p.claim(t.Context(), who, said, true)
			require.ErrorIs(t, err, refusal.NotAllowed, "%s %+v", c.path, who)
			require.Contains(t, err.Error()+refusal.As(err).Hint, c.says)
			require.ErrorIs(t, p.mayStay(t.Context(), who, c.path), refusal.NotAllowed)
			_, _, err = p.check(t.Context(), who.uid, said, false)
			require.NoError(t, err, "whoever asks may know")
			p.unseen = true
			_, err = p.claim(t.Context(), who, said, true)
			require.Equal(t, c.allowedUnseen, err == nil, "%s: %v", c.path, err)
			require.Equal(t, c.allowedUnseen, p.mayStay(t.Context(), who, c.path) == nil)
			p.unseen = false
		}
	}
	// A file system that fails takes nothing from whoever has it.
	p := newPlaces(false)
	p.down = on(unix.EIO, top, home)
	require.NoError(t, p.mayStay(t.Context(), her, "/home/her"))
	must.Fail(p.claim(t.Context(), her, api.Place{Path: "/home/her", Inode: inode}, true))(t, refusal.NotAllowed)
}

// TestAPlaceThatDoesNotAnswer: the caller is not kept, the daemon not drowned in
// what never comes back, and others still look.
func TestAPlaceThatDoesNotAnswer(t *testing.T) {
	p, release := newPlaces(false), make(chan struct{})
	started := make(chan struct{}, placesAtOnce)
	p.at = func(path string) (api.Place, error) {
		if path == "/" {
			return checkout.At(path)
		}
		started <- struct{}{}
		<-release
		return api.Place{}, unix.EIO
	}
	const uid, other = 64101, 64102
	stuck := api.Place{Path: "/tmp", Inode: 1}
	for range placesAtOnce {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _, err := p.check(ctx, uid, stuck, true)
			ended <- err
		}()
		<-started
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := p.check(ctx, uid, stuck, true)
	require.ErrorIs(t, err, context.Canceled, "there is no place left to look from")
	top := must.Get(checkout.At("/"))(t)
	_, _, err = p.check(t.Context(), other, top, true)
	require.NoError(t, err, "but for others")
	close(release)
	_, _, err = p.check(t.Context(), uid, stuck, true)
	require.NoError(t, err)
}
