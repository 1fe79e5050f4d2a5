package harness_test

import (
	"fmt"
	"os/exec"
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

// wish is the destruction of a guest, as a model asks for it through a product.
type wish struct {
	gate    *gate
	script  []call
	step    string    // waits for a signature, j2.1
	job     string    // has the step, j2
	approve *exec.Cmd // the operator's
}

// The calls of a wish.
const (
	finds   = "finds"   // the tools, in a product that does not show them at first
	submits = "submits" // what loses data
	looks   = "looks"   // before an operator signed
	waits   = "waits"   // while an operator signs
)

// newWish returns the script of a product's model. What comes after the first answer depends on it.
func newWish(g *gate, p product, guest string) *wish {
	w := &wish{gate: g}
	for _, c := range p.find {
		c.id = finds
		w.script = append(w.script, c)
	}
	add := func(id, tool string, args map[string]any, later func(string) (map[string]any, error)) {
		c := p.tool(tool, args)
		c.id, c.later = id, later
		w.script = append(w.script, c)
	}
	add(submits, "submit", map[string]any{"op": "guest.destroy", "target": guest, "reason": "the project is over"}, nil)
	add(looks, "wait", nil, w.look)
	add(waits, "wait", nil, w.signed)
	return w
}

// operatorsLine matches what an agent tells its user of a step that waits. It has the step's id, and in it the job's.
var operatorsLine = regexp.MustCompile(`opsign approve ((j[0-9]+)\.[0-9]+)`)

// look returns the arguments of a wait that ends before anybody signs.
func (w *wish) look(said string) (map[string]any, error) {
	found := operatorsLine.FindStringSubmatch(said)
	if found == nil {
		return nil, fmt.Errorf("the answer to submit has no line for an operator: %s", said)
	}
	w.step, w.job = found[1], found[2]
	return map[string]any{"job": w.job, "seconds": 1}, nil
}

// signed has the operator read the step, starts their opsign, and returns the arguments of a wait for the end.
func (w *wish) signed(string) (map[string]any, error) {
	if said, err := w.gate.client("opsign", "show", w.step).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("opsign show: %w: %s", err, said)
	}
	w.approve = w.gate.client("opsign", "approve", w.step, "--key", w.gate.key, "--yes")
	return map[string]any{"job": w.job}, w.approve.Start()
}

// destroyed runs a product through a step that an operator has to sign.
func destroyed(t *testing.T, g *gate, p product) {
	const guest = "web-1"
	g.asks(t, "submit", "guest.create", guest, "--wait")
	data := filepath.Join(g.dir, "state", "guests", guest)
	require.DirExists(t, data)

	wish := newWish(g, p, guest)
	w := newWorld(t, g, p.speaks, wish.script)
	put(t, w.home, p.files(w))
	w.run(t, built("gated"), "mcp", "install", "--for", p.dialect)
	printed := w.product(t, p)
	require.NoError(t, w.model.failed, printed)
	for _, c := range wish.script {
		said := w.model.said(t, c.id)
		if *verbose {
			t.Logf("the model was told of what %s:\n%s", c.id, said)
		}
		require.Contains(t, said, map[string]string{
			finds: "submit", submits: "pending_signature", looks: "pending_signature", waits: "succeeded"}[c.id])
	}
	require.NoError(t, wish.approve.Wait())
	require.NoDirExists(t, data)
	require.Regexp(t, `"kind":"approved".*"step":"`+wish.step+`".*"`+operator+` operational `,
		g.asks(t, "audit", "export", "--kind", "approved"))
	require.Regexp(t, `"requested_by":\s*\["agent:`+p.dialect+`#`, g.asks(t, "jobs", wish.job, "--json"))
}
