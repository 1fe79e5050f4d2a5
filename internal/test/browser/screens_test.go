package browser_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// screens are the pictures in docs/screens.
var screens = []struct {
	file          string
	width, height int
	page          string
	dark          bool
}{
	{"web-phone.png", 360, 740, "request", false},
	{"web-tablet.png", 820, 1100, "request", false},
	{"web-desk.png", 1280, 800, "request", true},
	{"web-list.png", 1280, 800, "list", false},
	{"web-group.png", 1280, 1200, "group", false},
}

// TestScreens takes the pictures of the pages. GATED_SCREENS=write makes those in docs/screens
// anew. They differ by names and times each time, so their sizes alone are compared.
func TestScreens(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, "policy:\n  rules:\n    - {op: guest.destroy, role: operational, threshold: 2}\n"), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	g.doomed("web-1", "no longer needed, its data moved to web-2")
	id := g.doomed("db", "end of the project")
	tab.Open(g.origin + "/")
	pages := map[string]string{"list": g.origin + "/", "request": g.address(id),
		"group": browser.Eval[string](tab, `document.querySelector('a[href^="/group?"]').href`)}
	for _, s := range screens {
		tab.Size(int64(s.width), int64(s.height))
		tab.Dark(s.dark)
		tab.Open(pages[s.page])
		tab.Wait("main h1")
		require.LessOrEqual(t, browser.Eval[int](tab, `document.documentElement.scrollWidth`), s.width, s.file)
		shot := tab.Screenshot()
		path := filepath.Join("..", "..", "..", "docs", "screens", s.file)
		if os.Getenv("GATED_SCREENS") == "write" {
			require.NoError(t, os.WriteFile(path, shot, 0o644))
		}
		for _, b := range [][]byte{shot, must.Get(os.ReadFile(path))(t)} {
			c := must.Get(png.DecodeConfig(bytes.NewReader(b)))(t)
			require.Equal(t, []int{s.width, s.height}, []int{c.Width, c.Height}, s.file)
		}
	}
}
