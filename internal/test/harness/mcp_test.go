package harness_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMCP starts each product with nothing but gated mcp install. Its model asks for a guest to be destroyed, and is
// told that this waits. An operator approves while the model waits, and the model is told that it is done.
func TestMCP(t *testing.T) {
	if !*products {
		require.Len(t, mcpProducts(), 3)
		return
	}
	for _, p := range mcpProducts() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			destroyed(t, newGate(t), p)
		})
	}
}

// mcpProducts are the products, each once.
func mcpProducts() []product { return []product{codex(), gemini(), opencode("m")} }

// line matches what an agent tells its user of a step that waits: the operator's line with the step's id, and in it the
// job's.
var line = regexp.MustCompile(`opsign approve ((j[0-9]+)\.[0-9]+)`)

// destroyed runs a product through a step that an operator has to sign.
func destroyed(t *testing.T, g *gate, p product) {
	const guest = "web-1"
	g.asks(t, "submit", "guest.create", guest, "--wait")
	data := filepath.Join(g.dir, "state", "guests", guest)
	require.DirExists(t, data)

	w := newWorld(t, g, p.speaks, nil)
	approve := g.client("opsign", "approve", "--key", g.key, "--yes")
	var step, job string
	w.model.script = []call{
		p.tool("submit", map[string]any{"op": "guest.destroy", "target": guest, "reason": "the project is over"}),
		p.tool("wait", nil),
		p.tool("wait", nil),
	}
	for i := range w.model.script {
		w.model.script[i].id = fmt.Sprintf("call-%d", i)
	}
	w.model.script[1].later = func(said string) (map[string]any, error) {
		found := line.FindStringSubmatch(said)
		if found == nil {
			return nil, fmt.Errorf("the answer to submit has no line for an operator: %s", said)
		}
		step, job = found[1], found[2]
		return map[string]any{"job": job, "seconds": 1}, nil
	}
	w.model.script[2].later = func(string) (map[string]any, error) {
		approve.Args = append(approve.Args, step)
		return map[string]any{"job": job}, approve.Start()
	}
	put(t, w.home, p.files(w))
	w.run(t, built("gated"), "mcp", "install", "--for", p.dialect)
	printed := w.product(t, p)
	if *verbose {
		t.Logf("%s printed:\n%s", p.name, printed)
		for _, c := range w.model.script {
			t.Logf("%s %v: the model was told:\n%s", c.tool, c.args, w.model.said(t, c.id))
		}
	}
	require.NoError(t, w.model.failed)
	require.Contains(t, w.model.said(t, "call-0"), "pending_signature")
	require.Contains(t, w.model.said(t, "call-1"), "pending_signature", "it ran without a signature")
	require.Contains(t, w.model.said(t, "call-2"), "succeeded")
	require.NoError(t, approve.Wait())
	require.NoDirExists(t, data)
	require.Regexp(t, `"kind":"approved".*"`+step+`"`, g.asks(t, "audit", "export", "--signer", operator))
	require.Regexp(t, `"requested_by":\s*\["[^"]*`+p.dialect, g.asks(t, "jobs", job, "--json"))
}
