package hook

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// asking is a gate that makes a request of each submission, or refuses.
type asking struct {
	list []api.Submit
	err  error
}

func (a *asking) submit(_ context.Context, s api.Submit) (api.Job, error) {
	a.list = append(a.list, s)
	id := "j1.1"
	return api.Job{ID: "j1", State: "pending_signature", Request: &id}, a.err
}

// receives runs the hook over lines of OLD NEW REF.
func (r *repo) receives(a *asking, lines ...string) Outcome {
	r.t.Helper()
	h := ReceiveHook{Repository: r.seen(), Submit: a.submit, Deadline: time.Minute, Command: DefaultReceiveCommand, Who: "bob"}
	return h.Receive(r.t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"))
}

func TestWhatTakesNothingAwayPasses(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	tip := r.commit("tip", "b")
	a := &asking{err: refusal.New(refusal.Internal, "nobody is asked")}
	for _, line := range []string{
		base + " " + tip + " refs/heads/main", zero + " " + tip + " refs/heads/new", tip + " " + tip + " refs/heads/main",
		zero + " " + tip + " refs/tags/v1", base + " " + tip + " refs/notes/x", zero + " " + r.git("rev-parse", "HEAD^{tree}") + " refs/tags/tree",
	} {
		require.Equal(t, Outcome{}, r.receives(a, line), line)
	}
	require.Empty(t, a.list)
}

func TestWhatTakesAwayIsRefusedAndAskedFor(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	tip := r.commit("tip", "b")
	r.git("checkout", "-q", "-b", "other", base)
	other := r.commit("other", "c")
	r.git("tag", "-a", "-m", "v1", "v1", base)
	tag, tree := r.git("rev-parse", "v1"), r.git("rev-parse", base+"^{tree}")
	for line, says := range map[string]string{
		tip + " " + zero + " refs/heads/main":    "asked: j1.1: delete refs/heads/main, which is at " + tip[:12],
		tip + " " + base + " refs/heads/main":    "asked: j1.1: replace refs/heads/main, which is at " + tip[:12] + ", by " + base[:12],
		tip + " " + other + " refs/heads/main":   "asked: j1.1: replace refs/heads/main, ",
		base + " " + tip + " refs/tags/light":    "asked: j1.1: replace refs/tags/light, ",
		tag + " " + tip + " refs/x/annotated":    "asked: j1.1: replace refs/x/annotated, ",
		tree + " " + tip + " refs/x/tree":        "asked: j1.1: replace refs/x/tree, ",
		other + " " + tree + " refs/x/treeafter": "asked: j1.1: replace refs/x/treeafter, ",
	} {
		a := &asking{}
		o := r.receives(a, line)
		require.Equal(t, exitRefused, o.Code, line)
		require.Contains(t, o.Stderr, says)
		require.NotContains(t, o.Stderr, "other refs")
		f := strings.Fields(line)
		require.Equal(t, []api.Submit{api.SubmitOf("git push by bob", api.Ask{Op: "command.run", Target: "command/git-replace-ref",
			Params: api.Params{"repository": r.git("rev-parse", "--absolute-git-dir"), "ref": f[2], "old": f[0], "new": f[1]}})}, a.list)
		if f[1] != zero {
			require.Equal(t, f[1], r.git("rev-parse", "refs/gated/asked/"+f[1]), "its objects stay until it is decided")
		}
	}
}

// A push that cannot be judged, or that the gate does not hear of, is refused.
func TestAPushIsNeverLetThroughByAFailure(t *testing.T) {
	r := newRepo(t)
	tip := r.commit("base", "a")
	missing := strings.Repeat("1", 40)
	for what, lines := range map[string][]string{
		"an old object that is not here": {missing + " " + tip + " refs/heads/main"},
		"a new one that is not here":     {tip + " " + missing + " refs/heads/main"},
		"a ref of the gate's":            {zero + " " + tip + " refs/gated/asked/" + tip},
		"a delete of one":                {tip + " " + zero + " refs/gated/asked/" + tip},
		"a delete that says no object":   {zero + " " + zero + " refs/heads/main"},
		"an empty line":                  {""},
		"no ref":                         {tip + " " + zero},
		"another ref":                    {tip + " " + zero + " HEAD"},
		"a blank":                        {tip + " " + zero + " refs/heads/a b"},
		"no object":                      {tip + " x refs/heads/a"},
		"two lengths":                    {tip + " " + strings.Repeat("0", 64) + " refs/heads/a"},
		"a long line":                    {tip + " " + zero + " refs/heads/" + strings.Repeat("a", maxRefLine)},
		"many deletes":                   strings.Split(strings.Repeat(tip+" "+zero+" refs/heads/a\n", maxAsked)+tip+" "+zero+" refs/heads/b", "\n"),
	} {
		a := &asking{}
		o := r.receives(a, lines...)
		require.Equal(t, exitRefused, o.Code, what)
		require.Contains(t, o.Stderr, "gated: nothing was pushed: ", what)
		require.Empty(t, a.list, what)
	}
	a := &asking{err: refusal.New(refusal.Unavailable, "no\x1b[2J daemon").WithHint("start it")}
	o := r.receives(a, tip+" "+zero+" refs/heads/main", zero+" "+tip+" refs/heads/new")
	require.Equal(t, exitRefused, o.Code)
	require.Contains(t, o.Stderr, "not asked: delete refs/heads/main")
	require.Contains(t, o.Stderr, "start it")
	require.NotContains(t, o.Stderr, "What to do: wait")
	require.NotContains(t, o.Stderr, "\x1b")
	require.Contains(t, o.Stderr, "The other refs of this push were not changed either")
}

// A replacement of objects that somebody pushed does not make a forced push a fast-forward.
func TestReplacedObjectsDoNotCount(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	tip := r.commit("tip", "b")
	r.git("checkout", "-q", "--orphan", "other")
	other := r.commit("other", "c")
	r.git("replace", other, r.git("commit-tree", "-p", tip, "-m", "grafted", other+"^{tree}"))
	require.NotEqual(t, base, other)
	require.Equal(t, exitRefused, r.receives(&asking{}, tip+" "+other+" refs/heads/main").Code)
}

// In a namespace, the ref that the push names is not the one that the gate would change.
func TestNoOperatorIsAskedForANamespace(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base", "a")
	tip := r.commit("tip", "b")
	a := &asking{}
	h := ReceiveHook{Repository: r.seen(), Submit: a.submit, Deadline: time.Minute, Command: DefaultReceiveCommand}
	h.Env = append(slices.Clone(h.environment()), "GIT_NAMESPACE=shop")
	require.Equal(t, Outcome{}, h.Receive(t.Context(), strings.NewReader(base+" "+tip+" refs/heads/main\n")))
	for _, now := range []string{zero, base} {
		o := h.Receive(t.Context(), strings.NewReader(tip+" "+now+" refs/heads/main\n"))
		require.Equal(t, exitRefused, o.Code)
		require.Contains(t, o.Stderr, "namespace")
	}
	require.Empty(t, a.list)
}

// FuzzReceived: lines that are taken are written as the same again.
func FuzzReceived(f *testing.F) {
	one := strings.Repeat("1", 40)
	for _, seed := range []string{zero + " " + one + " refs/heads/main\n", one + " " + zero + " refs/x", "", "\n", one + " " + one + "\n", one + "  refs/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		list, err := parseReceived(strings.NewReader(in))
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		out := ""
		for _, u := range list {
			require.True(t, strings.HasPrefix(u.ref, "refs/"))
			out += u.old + " " + u.now + " " + u.ref + "\n"
		}
		require.Equal(t, out, strings.ReplaceAll(strings.TrimSuffix(in, "\n")+"\n", "\r\n", "\n")[:len(out)])
		require.Len(t, must.Get(parseReceived(strings.NewReader(out)))(t), len(list))
	})
}
