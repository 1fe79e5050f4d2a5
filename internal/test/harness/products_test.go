package harness_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// condition is what holds while a product runs, which is a column of the table.
type condition string

// The conditions.
const (
	held    condition = "another agent holds the path"
	free    condition = "the path is free"
	warns   condition = "daemon dead, `warn`"
	blocks  condition = "daemon dead, `block`"
	missing condition = "hook program missing"
)

var conditions = []condition{held, free, warns, blocks, missing}

// sessions are the conditions that one run of a product can meet.
var sessions = [][]condition{{held, free}, {warns}, {blocks}, {missing}}

// outcome is what became of a call.
type outcome string

// The outcomes.
const (
	refused outcome = "refused"
	passed  outcome = "passed"
)

// expected is what has to become of a call, and a text that the model has to be told of a refusal.
func (p product) expected(c change, when condition) (outcome, string) {
	switch {
	case c == shells:
		return passed, "" // a hook does not see what a shell writes
	case when == held:
		return refused, "another agent has reserved"
	case when == blocks:
		return refused, "--on-failure block"
	case when == missing && p.missing != "":
		return refused, p.missing
	}
	return passed, ""
}

// all are the products, each with every tool that it has.
func all() []product {
	return []product{codex(), gemini(), opencode("m"), opencode("gpt-5")}
}

// unrun are the products that gated hook install knows and the harness does not run, with the reason.
var unrun = []struct{ name, why string }{
	{"Claude Code", "no scripted model speaks its protocol"},
	{"Cursor", "it needs an account, and a model of its maker"},
	{"Copilot CLI", "it needs an account, and a model of its maker"},
}

// TestProducts runs every product with every change under every condition. It looks at the files afterwards, and at
// what the model was told. The table of the guide has to say the same. Without -products it only compares the table.
func TestProducts(t *testing.T) {
	compareTable(t)
	if !*products {
		return
	}
	living, dead := newGate(t), newGate(t)
	dead.kill()
	for _, p := range all() {
		for _, when := range sessions {
			t.Run(p.name+" "+string(when[0]), func(t *testing.T) {
				t.Parallel()
				g := living
				if when[0] == warns || when[0] == blocks {
					g = dead
				}
				session(t, g, p, when)
			})
		}
	}
}

// session runs a product once, with one call for each change and condition.
func session(t *testing.T, g *gate, p product, when []condition) {
	w := newWorld(t, g, p.speaks, nil)
	var steps []step
	var want []condition
	for _, c := range changes {
		for _, now := range when {
			id := fmt.Sprintf("call-%d", len(steps))
			dir := map[bool]string{true: "held", false: "free"}[now == held]
			if s, ok := p.step(c, w.repo, id, "free", dir); ok {
				steps, want = append(steps, s), append(want, now)
			}
		}
	}
	for _, s := range steps {
		put(t, w.repo, present(s.was))
		w.model.script = append(w.model.script, s.call)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(w.repo, "held"), 0o700))
	put(t, w.home, p.files(w))
	w.install(t, p, when[0])
	if when[0] == held {
		w.holds(t, "held/**")
	}
	printed := w.product(t, p)
	if *verbose {
		t.Logf("%s printed:\n%s", p.name, printed)
	}
	for i, s := range steps {
		t.Run(string(s.change)+", "+string(want[i]), func(t *testing.T) { w.judge(t, p, s, want[i]) })
	}
}

// judge checks what became of a step.
func (w *world) judge(t *testing.T, p product, s step, when condition) {
	said := w.model.said(t, s.id)
	if *verbose {
		t.Logf("the model was told:\n%s", said)
	}
	want, words := p.expected(s.change, when)
	files := s.is
	if want == refused {
		files = s.was
		require.Contains(t, said, words)
	} else {
		require.NotContains(t, strings.ReplaceAll(said, w.dir, ""), "gated") // the directory's name has the word too
	}
	for name, content := range files {
		b, err := os.ReadFile(filepath.Join(w.repo, name))
		if content == "" {
			require.ErrorIs(t, err, fs.ErrNotExist, "%s\n%s", name, said)
			continue
		}
		require.NoError(t, err, said)
		require.Equal(t, content, string(b), "%s\n%s", name, said)
	}
}

// present are the files that there are.
func present(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		if content != "" {
			out[name] = content
		}
	}
	return out
}

// install installs the hook of a product, as its user would. If the program is to be missing, it is removed afterwards.
func (w *world) install(t *testing.T, p product, when condition) {
	program := filepath.Join(w.dir, "gated")
	require.NoError(t, os.Link(built("gated"), program))
	onFailure := "warn"
	if when == blocks {
		onFailure = "block"
	}
	w.run(t, program, "hook", "install", "--for", p.dialect, "--on-failure", onFailure, "--deadline", "10s")
	if p.trust != nil {
		p.trust(t, w)
	}
	if when == missing {
		require.NoError(t, os.Remove(program))
	}
}

const (
	guide      = "../../../docs/guides/hooks.md"
	tableBegin = "<!-- make harness: the table -->\n"
	tableEnd   = "<!-- make harness: its end -->\n"
)

// compareTable compares the table of the guide with what is expected of each product, or writes it.
func compareTable(t *testing.T) {
	old := string(must.Get(os.ReadFile(guide))(t))
	begin, rest, ok := strings.Cut(old, tableBegin)
	require.True(t, ok)
	_, end, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok)
	now := begin + tableBegin + table(t) + tableEnd + end
	if *write {
		require.NoError(t, os.WriteFile(guide, []byte(now), 0o644))
		return
	}
	require.Equal(t, now, old, "make harness HARNESSFLAGS=-write writes the table")
}

// table is the table of the guide.
func table(t *testing.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| product | change |")
	for _, when := range conditions {
		fmt.Fprintf(&b, " %s |", when)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(conditions)) + "\n")
	for _, p := range all() {
		for _, c := range changes {
			if _, ok := p.step(c, "/", "", "", ""); !ok {
				continue
			}
			fmt.Fprintf(&b, "| %s %s | %s |", p.name, pinned(t, p), c)
			for _, when := range conditions {
				is, _ := p.expected(c, when)
				fmt.Fprintf(&b, " %s |", is)
			}
			b.WriteString("\n")
		}
	}
	for _, p := range unrun {
		fmt.Fprintf(&b, "| %s | each | not run: %s |", p.name, p.why)
		b.WriteString(strings.Repeat(" not run |", len(conditions)-1) + "\n")
	}
	return b.String() + contextTable(t) + "\n"
}

// pinned is the exact version of a product.
func pinned(t *testing.T, p product) string {
	version, ok := pinnedVersions(t)[p.pkg]
	require.True(t, ok, p.pkg)
	return version
}
