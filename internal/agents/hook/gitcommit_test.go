package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestACommitChanges(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*repo)
		want []string
	}{
		{"nothing", func(*repo) {}, nil},
		{"an edit", func(r *repo) { r.write("a", "2") }, []string{"a"}},
		{"both sides of a rename", func(r *repo) { r.git("mv", "dir/b", "new") }, []string{"dir/b", "new"}},
		{"a rename that differs only in case", func(r *repo) { r.git("mv", "a", "A") }, []string{"A", "a"}},
		{"a copy, whose source stays", func(r *repo) { r.write("copy", "base dir/b\n") }, []string{"copy"}},
		{"a deletion", func(r *repo) { r.git("rm", "-q", "dir/b") }, []string{"dir/b"}},
		{"a type change", func(r *repo) {
			require.NoError(r.t, os.Remove(filepath.Join(r.dir, "a")))
			require.NoError(r.t, os.Symlink("dir", filepath.Join(r.dir, "a")))
		}, []string{"a"}},
		{"a mode change", func(r *repo) { require.NoError(r.t, os.Chmod(filepath.Join(r.dir, "a"), 0o755)) }, []string{"a"}},
		{"a file that becomes a directory", func(r *repo) {
			require.NoError(r.t, os.Remove(filepath.Join(r.dir, "a")))
			r.write("a/x", "")
		}, []string{"a", "a/x"}},
		{"a directory that becomes a file", func(r *repo) {
			require.NoError(r.t, os.RemoveAll(filepath.Join(r.dir, "dir")))
			r.write("dir", "")
		}, []string{"dir", "dir/b", "dir/c"}},
		{"special characters", func(r *repo) { r.write("[slug]/*?{a,b}.ts", "") }, []string{`\[slug]/\*\?\{a,b\}.ts`}},
		{"a backslash, quotes and spaces", func(r *repo) { r.write(`a\b "c" 'd'`, "") }, []string{`a\\b "c" 'd'`}},
		{"a colon, a dash, a hash", func(r *repo) { r.write(":(top)x", ""); r.write("-x", ""); r.write("#x", "") }, []string{"#x", "-x", ":(top)x"}},
		{"a newline", func(r *repo) { r.write("dir/a\nb", "") }, []string{"dir/a[! -~]b"}},
		{"bytes that are no UTF-8", func(r *repo) { r.write("dir/\xff\xfe.go", "") }, []string{"dir/[! -~][! -~].go"}},
		{"text of other scripts", func(r *repo) { r.write("größe", "") }, []string{"größe"}},
		{"what is not staged", func(r *repo) { r.git("reset", "-q"); r.write("loose", "") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRepo(t)
			r.commit("base", "a", "dir/b", "dir/c")
			if c.name == "what is not staged" {
				c.do(r)
			} else {
				c.do(r)
				r.git("add", "-A")
			}
			// No configuration makes git leave anything out.
			for _, set := range [][2]string{{"diff.renames", "copies"}, {"diff.ignoreSubmodules", "all"}, {"diff.noprefix", "true"}, {"status.renames", "true"}} {
				r.git("config", set[0], set[1])
			}
			require.Equal(t, c.want, r.asksAbout())
		})
	}
}

func TestTheFirstCommit(t *testing.T) {
	r := newRepo(t)
	r.write("a", "")
	r.write("b/c", "")
	r.git("add", "-A")
	require.Equal(t, []string{"a", "b/c"}, r.asksAbout())
}

func TestTheFirstCommitWithSHA256(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	r := repoAt(t, dir)
	r.git("init", "-q", "--object-format=sha256")
	r.write("a", "")
	r.git("add", "-A")
	require.Equal(t, []string{"a"}, r.asksAbout())
	r.git("commit", "-qm", "one")
	r.write("a", "2")
	r.git("add", "-A")
	require.Equal(t, []string{"a"}, r.asksAbout())
}

// TestASubmodule: with its commit every file below it becomes another, so all of
// that is asked about; also where git is told not to look at submodules.
func TestASubmodule(t *testing.T) {
	sub := newRepo(t)
	sub.commit("one", "x")
	r := newRepo(t)
	r.commit("base", "a")
	r.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", sub.dir, "lib/sub")
	require.Equal(t, []string{".gitmodules", "lib/sub/**"}, r.asksAbout())
	r.git("commit", "-qm", "sub")

	in := repoAt(t, filepath.Join(r.dir, "lib/sub"))
	in.commit("two", "y")
	r.git("config", "submodule.lib/sub.ignore", "all")
	r.git("config", "-f", ".gitmodules", "submodule.lib/sub.ignore", "all")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+in.git("rev-parse", "HEAD")+",lib/sub")
	require.Equal(t, []string{"lib/sub/**"}, r.asksAbout())

	h := &holder{held: []string{"lib/sub/src/z"}}
	a := must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t)
	require.Len(t, a.Held, 1)
	require.Equal(t, "lib/sub", a.Held[0].Path)

	// Inside, the submodule is a work tree of its own.
	in.write("y", "3")
	in.git("add", "y")
	require.Equal(t, []string{"y"}, in.asksAbout())

	// One that is taken out is one side of a change, too.
	r.git("config", "-f", ".gitmodules", "--unset", "submodule.lib/sub.ignore")
	r.git("add", ".gitmodules", "lib/sub")
	r.git("commit", "-qm", "two")
	r.git("rm", "-qf", "lib/sub")
	require.Equal(t, []string{".gitmodules", "lib/sub/**"}, r.asksAbout())
}

// TestALinkedWorktree: the scope is the work tree that is committed in, with the
// variables that git gives its hooks.
func TestALinkedWorktree(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "a")
	other := filepath.Join(r.dir, "..", "linked")
	r.git("worktree", "add", "-q", other)
	w := repoAt(t, filepath.Join(filepath.Dir(r.dir), "linked"))
	w.write("a", "2")
	w.git("add", "a")
	require.Equal(t, []string{"a"}, w.asksAbout())
	require.Nil(t, r.asksAbout())

	w.env = append(w.env, "GIT_DIR="+w.git("rev-parse", "--absolute-git-dir"), "GIT_INDEX_FILE="+w.git("rev-parse", "--git-path", "index"), "GIT_PREFIX=")
	require.Equal(t, []string{"a"}, w.asksAbout())
}

// TestTheIndexOfTheHookCounts: git commit -a and git commit PATH commit another
// index than the one that is there, and say so in GIT_INDEX_FILE.
func TestTheIndexOfTheHookCounts(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "a", "b", "c")
	record := filepath.Join(r.dir, ".git", "asked")
	hook := "#!/bin/sh\nenv | grep -a ^GIT_INDEX_FILE= >" + record + "\ncp \"$GIT_INDEX_FILE\" " + record + ".index\n"
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git/hooks/pre-commit"), []byte(hook), 0o755))
	for _, name := range []string{"a", "b", "c"} {
		r.write(name, "2")
	}
	r.git("add", "c") // staged, and not a part of the commit of b alone
	for _, c := range []struct{ commit, want []string }{
		{[]string{"commit", "-qm", "b", "b"}, []string{"b"}},
		{[]string{"commit", "-qam", "all"}, []string{"a", "c"}},
	} {
		before := r.git("rev-parse", "HEAD")
		r.git(c.commit...)
		name := must.Get(os.ReadFile(record))(t)
		require.NotContains(t, string(name), "GIT_INDEX_FILE=.git/index\n", "git made another index")
		again := repoAt(t, r.dir)
		again.env = append(again.env, "GIT_INDEX_FILE="+record+".index")
		now := r.git("rev-parse", "HEAD")
		r.git("update-ref", "HEAD", before)
		require.Equal(t, c.want, again.asksAbout())
		r.git("update-ref", "HEAD", now)
	}
}

func TestAMergeIsComparedWithHEAD(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "a", "b")
	r.git("checkout", "-qb", "side")
	r.commit("side", "b")
	r.git("checkout", "-q", "main")
	r.commit("main", "a")
	r.git("merge", "-q", "--no-commit", "--no-ff", "side")
	require.Equal(t, []string{"b"}, r.asksAbout())
}

func TestWhatOthersHoldIsNamed(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "src/a", "src/b", "doc")
	r.git("mv", "src/a", "lib")
	r.write("doc", "2")
	r.write("src/\xff", "")
	r.git("add", "-A")
	h := &holder{held: []string{"src/**"}}
	a := must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t)
	require.Equal(t, 4, a.Paths)
	require.Len(t, a.Held, 2)
	require.Equal(t, "src/a", a.Held[0].Path)
	require.Equal(t, "src/\xff", a.Held[1].Path)
	require.Equal(t, "builder", a.Held[0].Reservation.Agent)
	require.Equal(t, r.dir, h.asked[0].Scope.Path)
	require.NotZero(t, h.asked[0].Scope.Inode)
}

func TestQuestionsComeInBatches(t *testing.T) {
	r := newRepo(t)
	for i := range 2*batch + 1 {
		r.write(fmt.Sprintf("d%d/f%d", i%50, i), "")
	}
	r.git("add", "-A")
	h := &holder{}
	a := must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t)
	require.Equal(t, 2*batch+1, a.Paths)
	require.Equal(t, []string{"**"}, h.patterns(), "where nobody has anything one question is enough")

	h = &holder{held: []string{"elsewhere"}}
	must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t)
	require.Len(t, h.asked, 4)
	require.Len(t, h.asked[1].Patterns, batch)
	require.Len(t, h.asked[2].Patterns, batch)
	require.Len(t, h.asked[3].Patterns, 1)

	guard := (&holder{held: []string{"d7/f7"}}).guard("pre-commit")
	ask := guard.Check
	guard.Check = func(ctx context.Context, c api.Check) (api.Checked, error) {
		if c.Patterns[0] == "**" {
			return api.Checked{}, refusal.New(refusal.TooComplex, "too many reservations lie there")
		}
		return ask(ctx, c)
	}
	a = must.Get(guard.PreCommit(t.Context(), r.seen()))(t, "what cannot be told of everything can be told of each")
	require.Len(t, a.Held, 1)

	h = &holder{held: []string{"**/f*"}}
	a = must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t)
	require.NotEmpty(t, a.Held)
	require.True(t, a.More)
}

func TestAQuestionFitsIntoOneBody(t *testing.T) {
	list := func(n, size int) []string { return slices.Repeat([]string{strings.Repeat(`\`, size)}, n) }
	for _, c := range []struct{ n, size, want int }{
		{0, 1, 0}, {batch, 1, batch}, {batch + 1, 1, batch}, {batch, 8192, 56}, {1, batchBytes, 1}, {2, batchBytes, 1},
	} {
		got := fitting(list(c.n, c.size))
		require.Equal(t, c.want, got, c)
		if got > 1 {
			b, err := api.Encode(api.Check{Scope: api.Place{Path: strings.Repeat("p", 4096)}, Patterns: list(got, c.size)})
			require.NoError(t, err)
			require.Less(t, len(b), 1<<20)
		}
	}
}

func TestTooManyPaths(t *testing.T) {
	c := changes{byPath: map[string]bool{}, max: 2}
	require.NoError(t, c.add("a", false))
	require.NoError(t, c.add("b", false))
	require.NoError(t, c.add("a", true))
	require.ErrorIs(t, c.add("c", false), errTooMany)

	r := newRepo(t)
	many := func(context.Context, changes) (bool, error) { return false, errTooMany }
	h := &holder{}
	must.Get(h.guard("pre-commit").gitHook(t.Context(), r.seen(), many))(t, "nobody has anything here")
	require.Equal(t, []string{"**"}, h.patterns())

	h = &holder{held: []string{"x"}}
	a, err := h.guard("pre-commit").gitHook(t.Context(), r.seen(), many)
	require.ErrorIs(t, err, refusal.OverLimit)
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, KindPath, f.Kind)
	require.Len(t, a.Held, 1)
}

func TestWhatCannotBeLookedAtIsAFailure(t *testing.T) {
	var f *Failure
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	r := repoAt(t, dir)
	_, err := (&holder{}).guard("pre-commit").PreCommit(t.Context(), r.seen())
	require.ErrorAs(t, err, &f, "no repository")
	require.Equal(t, KindPath, f.Kind)

	r.git("init", "-q", "--bare")
	_, err = (&holder{}).guard("pre-commit").PreCommit(t.Context(), r.seen())
	require.ErrorAs(t, err, &f, "no work tree")
	require.ErrorIs(t, err, refusal.Unavailable)

	r = newRepo(t)
	r.commit("base", "a")
	r.write("a", "2")
	r.git("add", "a")
	h := &holder{err: refusal.New(refusal.Unavailable, "a full disk")}
	_, err = h.guard("pre-commit").PreCommit(t.Context(), r.seen())
	require.ErrorAs(t, err, &f)
	require.Equal(t, KindBroken, f.Kind)

	none := r.seen()
	none.Env = append(none.Env, "GIT_INDEX_FILE="+filepath.Join(r.dir, "a")) // no index
	_, err = (&holder{}).guard("pre-commit").PreCommit(t.Context(), none)
	require.ErrorAs(t, err, &f)
	require.Equal(t, KindPath, f.Kind)
}

// TestADaemonThatHangs: the hook goes on after its deadline.
func TestADaemonThatHangs(t *testing.T) {
	r := newRepo(t)
	r.write("a", "2")
	r.git("add", "a")
	g := (&holder{}).guard("pre-commit")
	g.Deadline = time.Millisecond
	g.Check = func(ctx context.Context, _ api.Check) (api.Checked, error) {
		<-ctx.Done()
		return api.Checked{}, errors.New("too late")
	}
	_, err := g.PreCommit(t.Context(), r.seen())
	var f *Failure
	require.ErrorAs(t, err, &f)
}

// TestAHookChangesNothing: neither the work tree nor anything of the repository,
// also where git would like to refresh its index in passing.
func TestAHookChangesNothing(t *testing.T) {
	r := newRepo(t)
	first := r.commit("base", "a", "b")
	second := r.commit("more", "c")
	r.write("a", "2")
	r.git("add", "a")
	r.write("b", "base b\n") // as it was, with another time
	require.NoError(t, os.Chtimes(filepath.Join(r.dir, "b"), time.Unix(1, 0), time.Unix(1, 0)))
	r.git("config", "core.untrackedCache", "true")
	before := r.snapshot()
	h := &holder{held: []string{"a"}}
	require.Len(t, must.Get(h.guard("pre-commit").PreCommit(t.Context(), r.seen()))(t).Held, 1)
	p, err := h.guard("pre-push").PrePush(t.Context(), r.seen(), "origin", refLines("refs/heads/main", second, first))
	require.NoError(t, err)
	require.Equal(t, 1, p.Paths)
	require.Equal(t, before, r.snapshot())
}
