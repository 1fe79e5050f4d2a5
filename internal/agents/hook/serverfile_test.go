package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// What each product's file is from, what it becomes, and that it comes back byte for byte.
func TestServersOfProducts(t *testing.T) {
	line := []string{"/usr/bin/gated", "mcp", "--as", "x"}
	toml := tomlOpens + "[mcp_servers.gated]\ncommand = \"/usr/bin/gated\"\nargs = [\"mcp\", \"--as\", \"x\"]\nenv_vars = " +
		codexPasses + "\n" + tomlEnds
	for _, c := range []struct {
		product       Dialect
		before, after string
	}{
		{Claude{}, "", "{\n  \"mcpServers\": {\n    \"gated\": {\n      \"type\": \"stdio\",\n      \"command\": \"/usr/bin/gated\"," +
			"\n      \"args\": [\n        \"mcp\",\n        \"--as\",\n        \"x\"\n      ]\n    }\n  }\n}\n"},
		{Gemini{}, `{"mcpServers":{"a":{"command":"b"}},"z":1}`,
			`{"mcpServers":{"a":{"command":"b"},"gated":{"command":"/usr/bin/gated","args":["mcp","--as","x"]}},"z":1}`},
		{OpenCode{}, "{\"model\": \"m\"}\n",
			"{\"model\": \"m\",\"mcp\":{\"gated\":{\"type\":\"local\",\"command\":[\"/usr/bin/gated\",\"mcp\",\"--as\",\"x\"],\"enabled\":true}}}\n"},
		{Cursor{}, "", "{\n  \"mcpServers\": {\n    \"gated\": {\n      \"type\": \"stdio\",\n      \"command\": \"/usr/bin/gated\"," +
			"\n      \"args\": [\n        \"mcp\",\n        \"--as\",\n        \"x\"\n      ]\n    }\n  }\n}\n"},
		{Copilot{}, `{"mcpServers":{"a":{}}}`, `{"mcpServers":{"a":{},"gated":{"type":"local","command":"/usr/bin/gated","args":["mcp","--as","x"],"tools":["*"]}}}`},
		{Codex{}, "", toml},
		{Codex{}, "model = \"m\" # mine\n\n[mcp_servers.a]\ncommand = \"\"\"\n[not a table]\n\"\"\"\n",
			"model = \"m\" # mine\n\n[mcp_servers.a]\ncommand = \"\"\"\n[not a table]\n\"\"\"\n" + toml},
	} {
		f := ServerFileOf(c.product, t.TempDir(), inHome(t.TempDir()))
		if c.before != "" {
			require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o755))
			require.NoError(t, os.WriteFile(f.Path, []byte(c.before), 0o640))
		}
		for _, action := range []Action{Created, Unchanged} {
			if action == Created && c.before != "" {
				action = Changed
			}
			dry := f
			dry.DryRun = true
			require.Equal(t, action, must.Get(dry.Install(line[0], line[1:]...))(t).Changes[0].Action)
			require.Equal(t, action, must.Get(f.Install(line[0], line[1:]...))(t).Changes[0].Action)
			require.Equal(t, c.after, string(must.Get(os.ReadFile(f.Path))(t)))
		}
		require.Equal(t, Changed, must.Get(f.Install("/opt/gated", "mcp"))(t).Changes[0].Action, "another program")
		require.Equal(t, Changed, must.Get(f.Install(line[0], line[1:]...))(t).Changes[0].Action)
		gone := must.Get(f.Uninstall())(t)
		if c.before == "" {
			require.Equal(t, Removed, gone.Changes[0].Action)
			require.NoFileExists(t, f.Path)
		} else {
			require.Equal(t, Changed, gone.Changes[0].Action)
			require.Equal(t, c.before, string(must.Get(os.ReadFile(f.Path))(t)))
		}
		require.Equal(t, Unchanged, must.Get(f.Uninstall())(t).Changes[0].Action)
	}
}

// A file that is not understood, or has a server of that name from other hands, stays as it is.
func TestServersThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		product Dialect
		text    string
		want    refusal.Code
	}{
		{Gemini{}, "{ // a comment\n}", refusal.Malformed},
		{Gemini{}, `{"mcpServers":[]}`, refusal.Conflict},
		{Claude{}, `[]`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"other","args":["serve"]}}}`, refusal.Conflict},
		{OpenCode{}, `{"mcp":{"gated":{"type":"remote","url":"http://x"}}}`, refusal.Conflict},
		{Codex{}, "a = ", refusal.Malformed},
		{Codex{}, "mcp_servers = {}\n", refusal.Conflict},
		{Codex{}, "[mcp_servers.gated]\ncommand = \"other\"\n", refusal.Conflict},
		{Codex{}, "a = '''\n" + tomlOpens + tomlEnds + "'''\n", refusal.Conflict},
	} {
		f := ServerFileOf(c.product, t.TempDir(), inHome(t.TempDir()))
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o755))
		require.NoError(t, os.WriteFile(f.Path, []byte(c.text), 0o644))
		must.Fail(f.Install("/usr/bin/gated", "mcp"))(t, c.want, c.text)
		require.Equal(t, c.text, string(must.Get(os.ReadFile(f.Path))(t)))
	}
	f := ServerFileOf(Claude{}, t.TempDir(), inHome(""))
	must.Fail(f.Install("gated", "mcp"))(t, refusal.BadParams)
	require.NoError(t, os.Symlink("elsewhere", f.Path))
	must.Fail(f.Install("/usr/bin/gated", "mcp"))(t, refusal.Conflict)
}

// Whatever a file has: if it is edited, then the removal brings it back, and a second installation changes nothing.
func FuzzServers(f *testing.F) {
	for _, s := range []string{"", "{}", `{"mcpServers":{"a":{}}}`, "a = 1\n", "a = 1", "[mcp_servers.b]\ncommand = 'x'\n", tomlOpens,
		tomlOpens + tomlEnds, "mcp_servers.a.b = 1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := []string{"/usr/bin/gated", "mcp"}
		for _, p := range Dialects() {
			edit := ServerFile{For: p}.editJSON
			if p == (Codex{}) {
				edit = editTOML
			}
			bare, err := edit(text, nil)
			if err != nil {
				continue
			}
			with, err := edit(bare, line)
			if err != nil {
				require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Conflict}, refusal.CodeOf(err))
				continue
			}
			require.Equal(t, string(with), string(must.Get(edit(with, line))(t)))
			back := string(must.Get(edit(with, nil))(t))
			if p == (Codex{}) {
				require.Equal(t, strings.TrimSuffix(string(bare), "\n"), strings.TrimSuffix(back, "\n"))
			}
			require.Equal(t, back, string(must.Get(edit([]byte(back), nil))(t)))
		}
	})
}

// inHome returns the environment of a user with that home.
func inHome(home string) func(string) string {
	return func(name string) string { return map[string]string{"HOME": home}[name] }
}

// Where each product's file is, with a directory of the product's own and without.
func TestServerFileOf(t *testing.T) {
	set := func(name string) string { return map[string]string{"HOME": "/h", "CODEX_HOME": "/x"}[name] }
	for d, want := range map[Dialect]string{
		Claude{}: "/top/.mcp.json", Codex{}: "/x/config.toml", Gemini{}: "/top/.gemini/settings.json",
		Cursor{}: "/top/.cursor/mcp.json", Copilot{}: "/h/.copilot/mcp-config.json", OpenCode{}: "/top/opencode.json",
	} {
		require.Equal(t, want, ServerFileOf(d, "/top", set).Path)
	}
	require.Equal(t, "/h/.codex/config.toml", ServerFileOf(Codex{}, "/top", inHome("/h")).Path)
}
