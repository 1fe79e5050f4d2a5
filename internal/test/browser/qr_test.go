package browser_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// needsScanner skips a test where no program reads QR codes.
func needsScanner(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("zbarimg"); err != nil {
		t.Skip("needs zbarimg (Debian: zbar-tools)")
	}
}

// scanned is what a phone's camera reads in the tab's page, after its holder opened the part that
// has a QR code.
func scanned(t *testing.T, tab *browser.Tab) string {
	t.Helper()
	tab.Click("#phone summary")
	tab.Wait("#phone img")
	require.True(t, browser.Eval[bool](tab, `(async () => {
		const picture = document.querySelector("#phone img");
		picture.scrollIntoView({block: "center"});
		await picture.decode();
		return new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(() => shown(true))));
	})()`))
	path := filepath.Join(t.TempDir(), "page.png")
	require.NoError(t, os.WriteFile(path, tab.Screenshot(), 0o600))
	out := must.Get(exec.Command("zbarimg", "--quiet", "--raw", path).Output())(t) // what it says of DBus is beside that
	return strings.TrimSpace(string(out))
}

// A decoder that is no part of this program reads the page's QR code off the screen, and gets the
// page's address. That is so in both colour schemes, at the width of a phone and at that of a desk.
func TestAQRCodeOnTheScreen(t *testing.T) {
	t.Parallel()
	needsScanner(t)
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	for _, dark := range []bool{false, true} {
		for _, size := range [][2]int64{{360, 740}, {1280, 800}} {
			tab.Dark(dark)
			tab.Size(size[0], size[1])
			tab.Open(g.address(id))
			require.Equal(t, g.address(id), scanned(t, tab), "dark %t, %v", dark, size)
		}
	}
}
