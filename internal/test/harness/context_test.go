package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestContext has an operator reject a request, and then starts each product with gated hook context at the start of a
// session, at a prompt, and at both. The model's first request has to have the news, once. The guide has the events.
func TestContext(t *testing.T) {
	if !*products {
		require.Len(t, withContext(), 2)
		return
	}
	g := newGate(t)
	for _, p := range withContext() {
		for _, at := range [][]string{p.contexts[:1], p.contexts[1:], p.contexts} {
			t.Run(p.name+" "+strings.Join(at, " and "), func(t *testing.T) { news(t, g, p, at) })
		}
	}
}

// withContext are the products that have hooks for gated hook context.
func withContext() []product {
	return slices.DeleteFunc(all(), func(p product) bool { return len(p.contexts) == 0 })
}

// news runs a product whose hooks at these events say what became of a request.
func news(t *testing.T, g *gate, p product, at []string) {
	w := newWorld(t, g, p.speaks, nil)
	put(t, w.home, p.files(w))
	program := filepath.Join(w.dir, "gated")
	require.NoError(t, os.Link(built("gated"), program))
	w.run(t, program, "hook", "install", "--for", p.dialect, "--context")
	w.keepEvents(t, p, at)
	if p.trust != nil {
		p.trust(t, w)
	}
	require.Empty(t, w.run(t, program, "hook", "context"), "the first look begins it")
	step := g.rejects(t, filepath.Base(w.dir))

	printed := w.product(t, p)
	told := w.model.turns(t)
	if *verbose {
		t.Logf("%s printed:\n%s\nthe model was told:\n%s", p.name, printed, told)
	}
	require.NotEmpty(t, told, printed)
	require.Equal(t, 1, strings.Count(told[0], "gated: what became of your requests since you last looked:\n"+
		step+" was rejected.\n"), "%s\n%s", told[0], w.run(t, program, "hook", "status"))
	require.Contains(t, told[0], step+` by: "`+operator+`"`)
	require.Contains(t, told[0], step+` detail: "still in use"`)
}

// keepEvents removes the entries of gated hook context at other events.
func (w *world) keepEvents(t *testing.T, p product, at []string) {
	path := filepath.Join(w.repo, p.settings)
	var settings map[string]any
	require.NoError(t, json.Unmarshal(must.Get(os.ReadFile(path))(t), &settings))
	hooks := settings["hooks"].(map[string]any)
	for _, event := range p.contexts {
		require.Contains(t, hooks, event)
		if !slices.Contains(at, event) {
			delete(hooks, event)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(asJSON(settings)), 0o600))
}

// rejects makes a guest, asks for its destruction, and has the operator reject that. It returns the step.
func (g *gate) rejects(t *testing.T, guest string) string {
	g.asks(t, "submit", "guest.create", guest, "--wait")
	out, _ := g.client("gated", "submit", "guest.destroy", guest, "--json").Output() // the exit code says that it waits
	var job struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(out, &job), "%s", out)
	step := job.ID + ".1"
	reject := g.client("opsign", "reject", step, "--reason", "still in use", "--key", g.key, "--yes")
	said, err := reject.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return step
}

// turns returns the texts of the requests that wanted a call.
func (m *model) turns(t *testing.T) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		path, body, _ := strings.Cut(r, " ")
		var request object
		require.NoError(t, json.Unmarshal([]byte(body), &request))
		if m.speaks.turn(path, request) {
			out = append(out, text(map[string]any(request)))
		}
	}
	return out
}

// contextTable is the guide's table of the events of gated hook context.
func contextTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| product | `gated hook context` at | the model's next request |\n|---|---|---|\n")
	for _, p := range withContext() {
		for _, event := range p.contexts {
			fmt.Fprintf(&b, "| %s %s | `%s` | has the news |\n", p.name, pinned(t, p), event)
		}
	}
	return b.String()
}
