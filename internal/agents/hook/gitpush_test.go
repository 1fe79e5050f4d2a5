package hook

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

const zero = "0000000000000000000000000000000000000000"

// refLines is what git writes to pre-push: REF LOCAL REMOTE, again and again.
func refLines(parts ...string) io.Reader {
	var b strings.Builder
	for i := 0; i < len(parts); i += 3 {
		ref := parts[i]
		if parts[i+1] == zero {
			ref = "(delete)"
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", ref, parts[i+1], parts[i], parts[i+2])
	}
	return strings.NewReader(b.String())
}

// pushes returns what the pre-push question of a repository asks about.
func (r *repo) pushes(refs ...string) []string {
	r.t.Helper()
	h := &holder{}
	a := must.Get(h.guard("pre-push").PrePush(r.t.Context(), r.seen(), "origin", refLines(refs...)))(r.t)
	require.Empty(r.t, a.Held)
	return h.patterns()
}

func TestAPushOfWhatTheRemoteDoesNotHave(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a", "b")
	r.commit("one", "c")
	r.git("mv", "a", "d")
	r.commit("two")
	tip := r.commit("three", "b")

	require.Equal(t, []string{"a", "b", "c", "d"}, r.pushes("refs/heads/main", tip, base))
	require.Nil(t, r.pushes("refs/heads/main", tip, tip))
	require.Nil(t, r.pushes("refs/heads/main", zero, tip), "a deletion")
	require.Nil(t, r.pushes())
	require.Equal(t, []string{"a", "b", "c", "d"}, r.pushes("refs/heads/main", tip, zero), "all of it, on a remote that nothing is known of")

	// A new branch on a remote that has its beginning.
	r.git("update-ref", "refs/remotes/origin/x/main", base)
	require.Equal(t, []string{"a", "b", "c", "d"}, r.pushes("refs/heads/new", tip, zero))
	r.git("update-ref", "refs/remotes/origin/x/main", r.git("rev-parse", tip+"~1"))
	require.Equal(t, []string{"b"}, r.pushes("refs/heads/new", tip, zero))
	r.git("update-ref", "-d", "refs/remotes/origin/x/main")
	r.git("update-ref", "refs/remotes/origin2/main", tip)
	require.Equal(t, []string{"a", "b", "c", "d"}, r.pushes("refs/heads/new", tip, zero), "another remote, whose name begins alike")

	// What was taken back again is in the commits that are pushed all the same.
	r.git("revert", "--no-edit", tip)
	require.Equal(t, []string{"b"}, r.pushes("refs/heads/main", r.git("rev-parse", "HEAD"), r.git("rev-parse", tip+"~1")))
}

func TestSeveralRefsOfOnePush(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	r.git("checkout", "-qb", "x")
	x := r.commit("x", "x")
	r.git("checkout", "-qb", "y", "main")
	y := r.commit("y", "y")
	require.Equal(t, []string{"x", "y"}, r.pushes("refs/heads/x", x, base, "refs/heads/y", y, base))
	require.Equal(t, []string{"y"}, r.pushes("refs/heads/x", zero, x, "refs/heads/y", y, base))
}

func TestTags(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	r.commit("one", "b")
	r.git("tag", "-am", "v1", "v1")
	r.git("tag", "light")
	r.git("tag", "tree", "HEAD^{tree}")
	require.Equal(t, []string{"b"}, r.pushes("refs/tags/v1", r.git("rev-parse", "v1"), zero, "refs/heads/main", base, base))
	require.Equal(t, []string{"a", "b"}, r.pushes("refs/tags/light", r.git("rev-parse", "light"), zero))
	require.Nil(t, r.pushes("refs/tags/tree", r.git("rev-parse", "tree"), zero), "no path")
}

// TestAForcedPush has both sides: what it brings and what it takes away.
func TestAForcedPush(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "a")
	lost := r.commit("lost", "b")
	r.git("reset", "-q", "--hard", "HEAD~1")
	tip := r.commit("instead", "c")
	require.Equal(t, []string{"b", "c"}, r.pushes("refs/heads/main", tip, lost))
	require.Equal(t, []string{"b"}, r.pushes("refs/heads/main", r.git("rev-parse", tip+"~1"), lost), "only back")
}

// TestTheRemoteHasWhatIsNotHere: nobody can say what is taken away. That matters
// only where somebody has something.
func TestTheRemoteHasWhatIsNotHere(t *testing.T) {
	r := newRepo(t)
	tip := r.commit("base", "a")
	gone := strings.Repeat("ab", 20)
	h := &holder{}
	must.Get(h.guard("pre-push").PrePush(t.Context(), r.seen(), "origin", refLines("refs/heads/main", tip, gone)))(t)
	require.Equal(t, []string{"**"}, h.patterns())
	h = &holder{held: []string{"x"}}
	_, err := h.guard("pre-push").PrePush(t.Context(), r.seen(), "origin", refLines("refs/heads/main", tip, gone))
	require.ErrorIs(t, err, refusal.UnknownTarget)
}

// TestMerges: what a merge took as it was from either side was changed
// elsewhere; what it made itself, or threw away, nobody else says.
func TestMerges(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a", "b", "both")
	r.git("checkout", "-qb", "feature")
	r.commit("feature", "f", "both")
	r.git("checkout", "-q", "main")
	main := r.commit("main", "b", "both", "m")
	r.git("update-ref", "refs/remotes/origin/main", main)
	r.git("checkout", "-q", "feature")

	merge := func(resolve func()) string {
		r.git("checkout", "-q", "feature")
		r.git("checkout", "-q", "--detach")
		_, _ = r.try("merge", "-q", "--no-commit", "main") // a conflict, which is resolved
		resolve()
		r.git("add", "-A")
		r.git("commit", "-qm", "merge")
		return r.git("rev-parse", "HEAD")
	}
	plain := merge(func() { r.write("both", "merged") })
	require.Equal(t, []string{"both", "f"}, r.pushes("refs/heads/feature", plain, zero), "b and m are on the remote already")
	require.Equal(t, []string{"both", "f"}, r.pushes("refs/heads/main", plain, main))
	require.Equal(t, []string{"both", "f"}, r.pushes("refs/heads/feature", plain, base), "b and m are as main has them")

	evil := merge(func() { r.write("both", "merged"); r.write("a", "slipped in") })
	require.Equal(t, []string{"a", "both", "f"}, r.pushes("refs/heads/main", evil, main))

	// A merge that keeps one side only undoes the other's b and m.
	r.git("checkout", "-q", "feature")
	r.git("checkout", "-q", "--detach")
	r.git("merge", "-q", "-s", "ours", "-m", "ours", "main")
	ours := r.git("rev-parse", "HEAD")
	require.Equal(t, []string{"b", "both", "f", "m"}, r.pushes("refs/heads/main", ours, main))
}

func TestAnOctopus(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	for _, name := range []string{"x", "y", "z"} {
		r.git("checkout", "-qb", name, "main")
		r.commit(name, name)
	}
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "-m", "all", "x", "y", "z")
	require.Equal(t, []string{"x", "y", "z"}, r.pushes("refs/heads/main", r.git("rev-parse", "HEAD"), base))
}

func TestASubmoduleThatIsPushed(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+base+",sub")
	r.git("commit", "-qm", "sub")
	r.git("config", "submodule.sub.ignore", "all")
	require.Equal(t, []string{"sub/**"}, r.pushes("refs/heads/main", r.git("rev-parse", "HEAD"), base))
}

// TestReplacedObjectsArePushedAsTheyAre: a push sends the real objects.
func TestReplacedObjectsArePushedAsTheyAre(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	tip := r.commit("one", "b")
	r.git("replace", tip, r.git("commit-tree", "-p", base, "-m", "harmless", base+"^{tree}"))
	require.Equal(t, []string{"b"}, r.pushes("refs/heads/main", tip, base))
}

func TestRemoteNames(t *testing.T) {
	require.Equal(t, []string{"--remotes=origin"}, tracked("origin"))
	for _, name := range []string{"", "https://example.com/x.git", "git@example.com:x", "a*", "[a]", "a?", `a\b`, "a b"} {
		require.Empty(t, tracked(name), name)
	}
	r := newRepo(t)
	tip := r.commit("base", "a")
	h := &holder{}
	_, err := h.guard("pre-push").PrePush(t.Context(), r.seen(), "/srv/git/x.git", refLines("refs/heads/main", tip, zero))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, h.patterns())
}

func TestWhatGitDoesNotWriteToPrePush(t *testing.T) {
	r := newRepo(t)
	tip := r.commit("base", "a")
	for _, line := range []string{"nonsense\n", "a b c d\n", "refs/heads/main " + tip + " refs/heads/main\n",
		"refs/heads/main --all refs/heads/main " + zero + "\n", "refs/heads/main " + tip + " refs/heads/main " + strings.Repeat("0", maxRefLine) + "\n"} {
		_, err := (&holder{}).guard("pre-push").PrePush(t.Context(), r.seen(), "origin", strings.NewReader(line))
		require.ErrorIs(t, err, refusal.Malformed, "%.80q", line)
	}
	// A commit that is not here cannot be looked at.
	_, err := (&holder{}).guard("pre-push").PrePush(t.Context(), r.seen(), "origin", refLines("refs/heads/main", strings.Repeat("ab", 20), zero))
	require.ErrorIs(t, err, refusal.Unavailable)
}

func TestTooManyRefs(t *testing.T) {
	id := strings.Repeat("ab", 20)
	var refs []string
	for range maxRefs {
		refs = append(refs, "refs/tags/x", id, zero)
	}
	list := must.Get(updates(refLines(refs...)))(t)
	require.Len(t, list, maxRefs)
	list = must.Get(updates(refLines(append(refs, "refs/tags/x", zero, id)...)))(t, "what is deleted does not count")
	require.Len(t, list, maxRefs)
	must.Fail(updates(refLines(append(refs, "refs/tags/x", id, zero)...)))(t, errTooMany)
}
