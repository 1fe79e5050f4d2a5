package checkout

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// tree makes a resolved directory with what is named: "a/" is a directory,
// "l -> x" a link, anything else a file.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, e := range entries {
		name, to, link := strings.Cut(e, " -> ")
		path := filepath.Join(root, name)
		switch {
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(path, 0o755))
		case link:
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.Symlink(strings.ReplaceAll(to, "ROOT", root), path))
		default:
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
		}
	}
	return root
}

func TestTop(t *testing.T) {
	root := tree(t,
		"repo/.git/HEAD", "repo/src/deep/", "repo/sub/.git", "repo/sub/lib/", // a submodule has a file
		"worktree/.git", "worktree/a/b/", "plain/x/", "link -> repo/src", "repo/away -> ROOT/plain/x",
		"repo/odd/.git -> ROOT/nothing", "repo/odd/in/")
	for dir, want := range map[string]string{
		"repo": "repo", "repo/src/deep": "repo", "repo/.git": "repo", "repo/sub": "repo/sub", "repo/sub/lib": "repo/sub",
		"worktree/a/b": "worktree", "link": "repo", "link/deep": "repo", "link/..": "repo", "link/../sub/./": "repo/sub",
		"plain/x": "plain/x", "repo/away": "plain/x", "repo/odd/in": "repo",
	} {
		p := must.Get(Top(root+"/"+dir))(t, dir)
		require.Equal(t, filepath.Join(root, want), p.Path, dir)
		info := must.Get(os.Stat(p.Path))(t)
		st, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, [2]uint64{uint64(st.Dev), st.Ino}, [2]uint64{p.Device, p.Inode})
	}
	for _, dir := range []string{"none", "repo/sub/.git", "plain/x/../none", ""} {
		if dir != "" {
			dir = root + "/" + dir
		}
		must.Err(Top(dir))(t, dir)
		must.Err(At(dir))(t, dir)
	}
	p := must.Get(At(root + "/link/deep"))(t)
	require.Equal(t, root+"/repo/src/deep", p.Path)
}

func TestTopOfTheWorkingDirectory(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/src/deep/", "link -> repo/src")
	t.Chdir(root + "/link")
	p := must.Get(Top("."))(t)
	require.Equal(t, root+"/repo", p.Path)
	_, rel := must.Two(File("../link2/a.go"))(t)
	require.Equal(t, "link2/a.go", rel, "the kernel's parent of the link's target, not the link's")
}

func TestFile(t *testing.T) {
	root := tree(t,
		"repo/.git/", "repo/src/a.go", "repo/sub/.git", "repo/sub/lib/x", "plain/",
		"in -> repo/src", "repo/out -> ROOT/plain", "repo/alias.go -> src/a.go", "repo/new.go -> src/not/yet.go",
		"repo/chain -> alias.go", "repo/up -> ../repo/src/..")
	for path, want := range map[string][2]string{
		"repo/src/a.go":            {"repo", "src/a.go"},
		"repo/src/none/b.go":       {"repo", "src/none/b.go"},
		"repo/src/none/../b.go":    {"repo", "src/b.go"},
		"in/a.go":                  {"repo", "src/a.go"},
		"in/../z":                  {"repo", "z"},
		"in//.//a.go":              {"repo", "src/a.go"},
		"repo/alias.go":            {"repo", "src/a.go"},
		"repo/chain":               {"repo", "src/a.go"},
		"repo/new.go":              {"repo", "src/not/yet.go"},
		"repo/up/src/a.go":         {"repo", "src/a.go"},
		"repo/out/x":               {"plain", "x"},
		"repo/out/../repo/src/a":   {"repo", "src/a"},
		"repo/sub/lib/x":           {"repo/sub", "lib/x"},
		"repo/sub/none/y":          {"repo/sub", "none/y"},
		"repo/sub":                 {"repo", "sub"},
		"repo/src/a.go/below/file": {"repo", "src/a.go/below/file"},
	} {
		p, rel := must.Two(File(root+"/"+path))(t, path)
		require.Equal(t, want, [2]string{strings.TrimPrefix(p.Path, root+"/"), rel}, path)
	}
	_, rel := must.Two(File("/"))(t)
	require.Equal(t, ".", rel)
}

func TestFileRefuses(t *testing.T) {
	root := tree(t, "round -> trip", "trip -> round", "self -> self/x")
	for _, name := range []string{"round", "trip/x", "self"} {
		_, _, err := File(root + "/" + name)
		require.ErrorIs(t, err, syscall.ELOOP, name)
	}
	_, _, err := File("")
	require.ErrorIs(t, err, fs.ErrNotExist)
	p := must.Get(At(root))(t)
	must.Fail(Rel(p, root+"x/y"))(t, fs.ErrNotExist)
	must.Fail(Rel(p, "/"))(t, fs.ErrNotExist)
}

func TestPathThatIsNoText(t *testing.T) {
	root := tree(t, "a\xffb/", "plain/")
	for _, find := range []func(string) (api.Place, error){Top, At} {
		must.Fail(find(root+"/a\xffb"))(t, refusal.Malformed)
	}
	_, rel := must.Two(File(root + "/plain/\xff"))(t)
	require.Equal(t, "\xff", rel)
}

func TestLinksAreCounted(t *testing.T) {
	root := tree(t, "end")
	require.NoError(t, os.Symlink("end", root+"/l0"))
	name := "l0"
	for range maxLinks {
		next := name + "x"
		require.NoError(t, os.Symlink(name, filepath.Join(root, next)))
		name = next
	}
	must.Fail(Resolve(filepath.Join(root, name)))(t, syscall.ELOOP)
	real := must.Get(Resolve(filepath.Join(root, name[:len(name)-1])))(t)
	require.Equal(t, root+"/end", real)
}

// What exists is resolved as the kernel does it, which filepath.EvalSymlinks
// asks step by step.
func TestResolveIsTheKernels(t *testing.T) {
	root := tree(t, "a/b/c/f", "a/l -> b", "m -> a/l/c", "a/up -> ..", "abs -> ROOT/a/b", "a/b/dot -> .")
	names := []string{"a", "b", "c", "f", "l", "m", "up", "abs", "dot", "..", ".", ""}
	rapid.Check(t, func(t *rapid.T) {
		path := root + "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 8).Draw(t, "path"), "/")
		fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
		if err != nil {
			t.Skip("there is nothing")
		}
		defer func() { _ = syscall.Close(fd) }()
		var there, resolved syscall.Stat_t
		if err := syscall.Fstat(fd, &there); err != nil {
			t.Fatal(err)
		}
		real, err := Resolve(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Lstat(real, &resolved); err != nil {
			t.Fatal(err)
		}
		if there.Dev != resolved.Dev || there.Ino != resolved.Ino || real != filepath.Clean(real) {
			t.Fatalf("%s is resolved to %s", path, real)
		}
	})
}

// A link to the .git itself is what a directory answers to under another
// spelling, as far as stat tells.
func TestFold(t *testing.T) {
	root := tree(t, "plain/.git/", "linked/.git", "symlink/.git/", "symlink/.GIT -> .git")
	require.NoError(t, os.Link(root+"/linked/.git", root+"/linked/.GIT"))
	for name, want := range map[string]bool{"plain": false, "linked": true, "symlink": false} {
		require.Equal(t, want, must.Get(At(filepath.Join(root, name)))(t).Fold, name)
	}
}
