package hook

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// scopes are where was asked.
func (h *holder) scopes() []string {
	var out []string
	for _, c := range h.asked {
		out = append(out, c.Scope.Path)
	}
	return out
}

// TestTheCheckoutAroundTheRepositoryCounts: wherever git is told that its work
// tree is, what is pushed or committed are commits of that checkout.
func TestTheCheckoutAroundTheRepositoryCounts(t *testing.T) {
	r := newRepo(t)
	first := r.commit("base", "src/a.go")
	second := r.commit("more", "src/a.go")
	refs := "refs/heads/main " + second + " refs/heads/main " + first + "\n"
	elsewhere := repoAt(t, resolved(t))
	inside := repoAt(t, filepath.Join(r.dir, ".git"))
	gitDir := "GIT_DIR=" + filepath.Join(r.dir, ".git")
	for name, c := range map[string]struct {
		from   *repo
		env    []string
		scopes []string
	}{
		"as ever":             {r, nil, []string{r.dir}},
		"a directory below":   {repoAt(t, filepath.Join(r.dir, "src")), nil, []string{r.dir}},
		"GIT_DIR alone":       {elsewhere, []string{gitDir}, []string{elsewhere.dir, r.dir}},
		"another work tree":   {r, []string{gitDir, "GIT_WORK_TREE=" + elsewhere.dir}, []string{elsewhere.dir, r.dir}},
		"its own work tree":   {elsewhere, []string{gitDir, "GIT_WORK_TREE=" + r.dir}, []string{r.dir}},
		"git's own directory": {inside, nil, []string{r.dir}},
	} {
		seen := c.from.seen()
		seen.Env = append(seen.Env, c.env...)
		h := &holder{held: []string{"src/**"}}
		a := must.Get(h.guard("pre-push").PrePush(t.Context(), seen, "origin", strings.NewReader(refs)))(t, name)
		require.NotEmpty(t, a.Held, name)
		require.Equal(t, c.scopes, h.scopes(), name)
	}

	// A linked work tree is another directory, and a bare repository none.
	linked := repoAt(t, filepath.Join(resolved(t), "linked"))
	r.git("worktree", "add", "-q", linked.dir)
	h := &holder{}
	must.Get(h.guard("pre-push").PrePush(t.Context(), linked.seen(), "origin", strings.NewReader(refs)))(t)
	require.Equal(t, []string{linked.dir}, h.scopes())
	r.git("config", "core.bare", "true")
	_, err := h.guard("pre-push").PrePush(t.Context(), inside.seen(), "origin", strings.NewReader(refs))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, KindPath, f.Kind)
}

// TestACommitOfAnotherWorkTree changes the branch of the checkout all the same.
func TestACommitOfAnotherWorkTree(t *testing.T) {
	r := newRepo(t)
	r.commit("base", "src/a.go")
	other := repoAt(t, resolved(t))
	other.write("src/a.go", "other")
	other.env = append(other.env, "GIT_DIR="+filepath.Join(r.dir, ".git"), "GIT_WORK_TREE="+other.dir)
	other.git("add", "-A")
	h := &holder{held: []string{"src/**"}}
	a := must.Get(h.guard("pre-commit").PreCommit(t.Context(), other.seen()))(t)
	require.Equal(t, []string{other.dir, r.dir}, h.scopes())
	require.Equal(t, other.dir, a.Scope.Path)
	require.Len(t, a.found().Conflicts, 1)
}

func resolved(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
}
