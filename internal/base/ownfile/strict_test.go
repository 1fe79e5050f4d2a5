package ownfile

import (
	"encoding/binary"
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

// tree is a file two directories below a directory of the test: a/b/f.
type tree struct {
	t        *testing.T
	top      string
	a, b, f  string
	own      StrictModes
	outsider int // a uid that is neither root's nor the test's
}

func newTree(t *testing.T) *tree {
	t.Helper()
	top := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	x := &tree{t: t, top: top, a: filepath.Join(top, "a"), b: filepath.Join(top, "a", "b"), own: Own(), outsider: os.Geteuid() + 12345}
	x.f = filepath.Join(x.b, "f")
	require.NoError(t, os.MkdirAll(x.b, 0o755))
	require.NoError(t, os.WriteFile(x.f, []byte("text"), 0o644))
	x.chmod(x.top, 0o755)
	return x
}

func (x *tree) chmod(path string, mode os.FileMode) {
	x.t.Helper()
	require.NoError(x.t, os.Chmod(path, mode))
}

// give gives a path to another uid. Only root can do that.
func (x *tree) give(path string) {
	x.t.Helper()
	if os.Geteuid() != 0 {
		x.t.Skip("only root can give files away")
	}
	require.NoError(x.t, os.Lchown(path, x.outsider, -1))
}

// refused requires that every way to read the file is refused. The refusal must name the wrong
// path and the command that corrects it.
func (x *tree) refused(path, at, mends string) {
	x.t.Helper()
	_, open := x.own.Open(path)
	_, read := x.own.Read(path, 16)
	for how, err := range map[string]error{"check": x.own.Check(path), "open": open, "read": read, "program": x.own.CheckProgram(path)} {
		require.ErrorIs(x.t, err, refusal.NotAllowed, how)
		r := refusal.As(err)
		require.Contains(x.t, r.Detail, at, how)
		require.Contains(x.t, r.Detail, "mode ", how)
		require.True(x.t, strings.HasSuffix(r.Hint, mends+" "+at), "%s: %s", how, r.Hint)
	}
}

func (x *tree) believed(path string) {
	x.t.Helper()
	require.NoError(x.t, x.own.Check(path))
	text := must.Get(x.own.Read(path, 16))(x.t)
	require.Equal(x.t, "text", string(text))
}

// TestEachWayToWrite has every way in which another user could change what a path leads to.
func TestEachWayToWrite(t *testing.T) {
	newTree(t).believed(newTree(t).f)
	for name, c := range map[string]struct {
		spoil func(x *tree) (path, at string)
		mends string
	}{
		"the group may write":                  {func(x *tree) (string, string) { x.chmod(x.f, 0o664); return x.f, x.f }, "chmod go-w"},
		"others may write":                     {func(x *tree) (string, string) { x.chmod(x.f, 0o646); return x.f, x.f }, "chmod go-w"},
		"everybody may write":                  {func(x *tree) (string, string) { x.chmod(x.f, 0o666); return x.f, x.f }, "chmod go-w"},
		"it belongs to another":                {func(x *tree) (string, string) { x.give(x.f); return x.f, x.f }, "chown -h root"},
		"the group may write to the directory": {func(x *tree) (string, string) { x.chmod(x.b, 0o775); return x.f, x.b }, "chmod go-w"},
		"others may write to the directory":    {func(x *tree) (string, string) { x.chmod(x.b, 0o757); return x.f, x.b }, "chmod go-w"},
		"the directory belongs to another":     {func(x *tree) (string, string) { x.give(x.b); return x.f, x.b }, "chown -h root"},
		"others may write to one above":        {func(x *tree) (string, string) { x.chmod(x.a, 0o777); return x.f, x.a }, "chmod go-w"},
		"one above belongs to another":         {func(x *tree) (string, string) { x.give(x.top); return x.f, x.top }, "chown -h root"},
		"a link in a directory of others": {func(x *tree) (string, string) {
			links := filepath.Join(x.top, "links")
			require.NoError(t, os.Mkdir(links, 0o755))
			require.NoError(t, os.Symlink(x.f, filepath.Join(links, "l")))
			x.chmod(links, 0o777)
			return filepath.Join(links, "l"), links
		}, "chmod go-w"},
		"a link of another": {func(x *tree) (string, string) {
			l := filepath.Join(x.top, "l")
			require.NoError(t, os.Symlink("a/b/f", l))
			x.give(l)
			return l, l
		}, "chown -h root"},
		"a link to what others may write": {func(x *tree) (string, string) {
			l := filepath.Join(x.top, "l")
			require.NoError(t, os.Symlink("a/b/f", l))
			x.chmod(x.b, 0o777)
			return l, x.b
		}, "chmod go-w"},
		"a directory that is a link to one of others": {func(x *tree) (string, string) {
			l := filepath.Join(x.top, "l")
			require.NoError(t, os.Symlink(x.a+"/b", l))
			x.chmod(x.a, 0o777)
			return filepath.Join(l, "f"), x.a
		}, "chmod go-w"},
		"a link upwards": {func(x *tree) (string, string) {
			l := filepath.Join(x.b, "l")
			require.NoError(t, os.Symlink("../../a/b/f", l))
			x.chmod(x.a, 0o777)
			return l, x.a
		}, "chmod go-w"},
		"an access list": {func(x *tree) (string, string) { x.list(x.f); return x.f, x.f }, "chmod go-w"},
		"a sticky bit on the file": {func(x *tree) (string, string) {
			require.NoError(t, unix.Chmod(x.f, 0o1666))
			return x.f, x.f
		}, "chmod go-w"},
		"a sticky directory of another": {func(x *tree) (string, string) {
			x.give(x.b)
			require.NoError(t, unix.Chmod(x.b, 0o1755))
			return x.f, x.b
		}, "chown -h root"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTree(t)
			path, at := c.spoil(x)
			x.refused(path, at, c.mends)
		})
	}
}

// list gives a file an access list that lets one user write. The mode shows the list's mask as
// the group's bits.
func (x *tree) list(path string) {
	x.t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 6, 4242}, {4, 4, ^uint32(0)}, {0x10, 6, ^uint32(0)}, {0x20, 4, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	if err := unix.Setxattr(path, "system.posix_acl_access", b, 0); err != nil {
		x.t.Skipf("no access lists here: %v", err)
	}
}

// TestStickyDirectories: as /tmp, they protect the files in them. They do not protect against a
// second name for root's file, and they may not be the checked directory itself.
func TestStickyDirectories(t *testing.T) {
	x := newTree(t)
	require.NoError(t, unix.Chmod(x.b, 0o1777))
	require.NoError(t, unix.Chmod(x.a, 0o1777))
	x.believed(x.f)
	require.ErrorIs(t, x.own.Check(x.b), refusal.NotAllowed, "others may put files into it")
	must.Fail(x.own.OpenDir(x.b))(t, refusal.NotAllowed)

	second := filepath.Join(x.b, "second")
	require.NoError(t, os.Link(x.f, second))
	err := x.own.Check(second)
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "2 names")
	require.NoError(t, unix.Chmod(x.b, 0o755))
	require.NoError(t, x.own.Check(second), "nobody else can make names here")
}

func TestWhatIsThereAndWhatIsNot(t *testing.T) {
	x := newTree(t)
	require.ErrorIs(t, x.own.Check(filepath.Join(x.b, "none")), fs.ErrNotExist)
	require.NoError(t, x.own.CheckAbove(filepath.Join(x.b, "none", "nor", "this")))
	require.NoError(t, x.own.CheckAbove("/"))
	require.NoError(t, x.own.Check("/"))
	for _, dir := range []string{x.a, x.b} {
		x.chmod(dir, 0o777)
		require.ErrorIs(t, x.own.CheckAbove(filepath.Join(x.b, "none", "nor", "this")), refusal.NotAllowed)
		require.ErrorIs(t, x.own.CheckAbove(x.f), refusal.NotAllowed)
		x.chmod(dir, 0o755)
	}
	require.ErrorIs(t, x.own.CheckAbove(filepath.Join(x.f, "below")), unix.ENOTDIR)
	must.Fail(x.own.Open(x.b))(t, refusal.NotAllowed, "a directory is no ordinary file")
	must.Fail(x.own.OpenDir(x.f))(t, unix.ENOTDIR)
	require.ErrorIs(t, x.own.Check(filepath.Join(x.f, "below")), unix.ENOTDIR)
	require.NoError(t, unix.Mkfifo(filepath.Join(x.b, "fifo"), 0o600))
	must.Fail(x.own.Open(filepath.Join(x.b, "fifo")))(t, refusal.NotAllowed, "and nothing waits for its writer")
	require.NoError(t, os.Symlink("loop", filepath.Join(x.b, "loop")))
	require.ErrorIs(t, x.own.Check(filepath.Join(x.b, "loop")), unix.ELOOP)
	dir := must.Get(x.own.OpenDir(x.b))(t)
	require.Contains(t, must.Get(dir.Readdirnames(-1))(t), "f")
	require.NoError(t, dir.Close())
	t.Chdir(x.a)
	x.believed("b/f")
}

// TestWhatWasCheckedIsRead: if another file replaces it in between, the open is refused.
func TestWhatWasCheckedIsRead(t *testing.T) {
	x := newTree(t)
	f, err := x.own.walk(x.f)
	require.NoError(t, err)
	defer f.close()
	require.NoError(t, x.own.last(x.f, f))
	next := filepath.Join(x.b, "next")
	require.NoError(t, os.WriteFile(next, []byte("else"), 0o666))
	require.NoError(t, os.Rename(next, x.f))
	_, err = f.open(x.f, 0)
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "replaced")
}

// TestAFileThatWasOpened: the check is about the open file, wherever its name leads now.
func TestAFileThatWasOpened(t *testing.T) {
	x := newTree(t)
	f := must.Get(os.Open(x.f))(t)
	defer f.Close()
	require.NoError(t, x.own.CheckOpen(f))
	x.chmod(x.f, 0o666)
	require.NoError(t, os.Rename(x.f, x.f+".old"))
	require.NoError(t, os.WriteFile(x.f, nil, 0o600))
	require.ErrorIs(t, x.own.CheckOpen(f), refusal.NotAllowed)
}

// TestAGroupOfOnesOwn: such a group may write if the rule allows it, and other groups never.
func TestAGroupOfOnesOwn(t *testing.T) {
	x := newTree(t)
	x.chmod(x.f, 0o664)
	x.chmod(x.b, 0o775)
	require.ErrorIs(t, x.own.Check(x.f), refusal.NotAllowed)
	gid := uint32(os.Getegid())
	x.own.Private = func(g uint32) bool { return g == gid }
	x.believed(x.f)
	x.chmod(x.f, 0o666)
	require.ErrorIs(t, x.own.Check(x.f), refusal.NotAllowed)
	x.chmod(x.f, 0o664)
	x.own.Private = func(g uint32) bool { return g != gid }
	require.ErrorIs(t, x.own.Check(x.f), refusal.NotAllowed)
}

// TestAnotherUid: for another uid, its own files and root's are trusted, and this user's are not.
func TestAnotherUid(t *testing.T) {
	x := newTree(t)
	x.own.UID = uint32(x.outsider)
	if os.Geteuid() == 0 {
		x.believed(x.f) // root's files are everybody's to believe
		require.NoError(t, os.Chown(x.f, x.outsider, -1))
		x.believed(x.f)
		return
	}
	require.ErrorIs(t, x.own.Check(x.f), refusal.NotAllowed)
}

// TestPrograms: the interpreter of a script is checked as the script is.
func TestPrograms(t *testing.T) {
	x := newTree(t)
	reader := filepath.Join(x.a, "reader")
	require.NoError(t, os.WriteFile(reader, []byte("\x7fELF"), 0o755))
	script := filepath.Join(x.top, "script")
	write := func(text string) { require.NoError(t, os.WriteFile(script, []byte(text), 0o755)) }
	for _, text := range []string{"", "x", "#!", "#! \n", "\x7fELF#!" + reader, "#!" + reader, "#! \t" + reader + " -x\n"} {
		write(text)
		require.NoError(t, x.own.CheckProgram(script), "%q", text)
	}
	write("#! " + reader + " -x\nmore")
	x.chmod(reader, 0o757)
	require.ErrorIs(t, x.own.CheckProgram(script), refusal.NotAllowed)
	x.chmod(reader, 0o755)
	x.chmod(x.a, 0o777)
	require.ErrorIs(t, x.own.CheckProgram(script), refusal.NotAllowed)
	x.chmod(x.a, 0o755)
	write("#!bin/sh\n")
	require.ErrorIs(t, x.own.CheckProgram(script), refusal.NotAllowed)
	write("#!" + script + "\n")
	require.ErrorIs(t, x.own.CheckProgram(script), refusal.NotAllowed, "it would never end")
	write("#!" + reader + ".none\n")
	require.ErrorIs(t, x.own.CheckProgram(script), fs.ErrNotExist)
}

func FuzzInterpreter(f *testing.F) {
	for _, s := range []string{"", "#!", "#!/bin/sh", "#! /bin/sh -e\n", "#!\t\n", "\x7fELF", "#!a\x00b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		path, ok := parseInterpreter(head)
		if !ok {
			require.Empty(t, path)
			return
		}
		require.True(t, strings.HasPrefix(string(head), "#!"))
		require.NotEmpty(t, path)
		require.False(t, strings.ContainsAny(path, " \t\n\x00"))
		again, ok := parseInterpreter([]byte("#!" + path + "\n"))
		require.True(t, ok)
		require.Equal(t, path, again)
	})
}
