package browser_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// ownPages starts opsign web without a terminal, has the gate accept its origin, and returns
// the address that it prints.
func (g *gate) ownPages() (address string) {
	g.t.Helper()
	cmd := exec.Command(filepath.Join(bin(g.t), "opsign"), "web", "--port", "0")
	cmd.Env, cmd.Dir = g.env, g.dir
	out := must.Get(cmd.StdoutPipe())(g.t)
	require.NoError(g.t, cmd.Start())
	g.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = cmd.Wait()                          // its exit code is no part of these tests
	})
	lines := bufio.NewScanner(out)
	require.True(g.t, lines.Scan(), "it printed nothing")
	address = lines.Text()
	origin, _, _ := strings.Cut(address, "/launch")
	config := g.path("state/gated.yaml")
	text := string(must.Get(os.ReadFile(config))(g.t))
	text = strings.Replace(text, "origins: ["+g.origin+"]", "origins: ["+g.origin+", "+origin+"]", 1)
	require.NoError(g.t, os.WriteFile(config, []byte(text), 0o600))
	g.run("gated", "reload")
	return address
}

// An operator's own pages: the token in the address opens a session, once, and a listed
// passkey of localhost signs there.
func TestOpsignWebInABrowser(t *testing.T) {
	t.Parallel()
	g, b := newGate(t, ""), browser.Start(t)
	tab := b.Person(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	address := g.ownPages()
	tab.Open(address)
	tab.WaitText("body", g.set.All()[0].Name)
	require.NotContains(t, tab.URL(), "#")
	origin, _, _ := strings.Cut(address, "/launch")
	tab.Open(strings.Replace(g.address(id), g.origin, origin, 1))
	g.approve(tab)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")

	other := b.Person(t)
	other.Open(address)
	other.WaitText("body", "The token is not valid")
	other.Open(strings.Replace(g.address(id), g.origin, origin, 1))
	other.WaitText("body", "no session here")
}
