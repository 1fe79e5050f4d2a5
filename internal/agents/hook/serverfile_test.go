package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// What each product's file is from, what it becomes, and that it comes back byte for byte.
func TestServersOfProducts(t *testing.T) {
	line := []string{"/usr/bin/gated", "mcp", "--as", "x"}
	toml := tomlOpens + "\n[mcp_servers.gated]\ncommand = \"/usr/bin/gated\"\nargs = [\"mcp\", \"--as\", \"x\"]\nenv_vars = " +
		codexPasses + "\n" + tomlEnds + "\n"
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
		{Gemini{}, "{ // a comment\n", refusal.Malformed},
		{Gemini{}, "{ /* a comment\n}", refusal.Malformed},
		{Gemini{}, "{ // a comment, or not \r \"a\": 1\n}", refusal.Malformed},
		{OpenCode{}, "{ // a comment, or not \r \"mcp\": {}\n}", refusal.Malformed},
		{Gemini{}, `{"mcpServers":[]}`, refusal.Conflict},
		{Claude{}, `[]`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"other","args":["serve"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"npx","args":["other","mcp"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"npx","args":["gated","mcp"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"/usr/bin/gated-lint","args":["mcp"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"/usr/bin/gated","args":["mcp","--other"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":["/usr/bin/gated","mcp"]}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":{"command":"/usr/bin/gated"}}}`, refusal.Conflict},
		{Claude{}, `{"mcpServers":{"gated":[]}}`, refusal.Conflict},
		{Claude{}, "{\"mcpServers\":{} // a comment\n}", refusal.Malformed},
		{Claude{}, byteOrderMark + "{}", refusal.Malformed},
		{Claude{}, `{"mcpServers":{"gated":{},"gated":{}}}`, refusal.Malformed},
		{Gemini{}, `{"a":1,}`, refusal.Malformed},
		{OpenCode{}, `{"mcp":{"gated":{"type":"remote","url":"http://x"}}}`, refusal.Conflict},
		{Codex{}, "a = ", refusal.Malformed},
		{Codex{}, "mcp_servers = {}\n", refusal.Conflict},
		{Codex{}, "[mcp_servers.gated]\ncommand = \"other\"\n", refusal.Conflict},
		{Codex{}, "[mcp_servers.gated]\ncommand = \"npx\"\nargs = [\"other\", \"mcp\"]\n", refusal.Conflict},
		{Codex{}, "[mcp_servers.gated]\nurl = \"http://x\"\n", refusal.Conflict},
		{Codex{}, "[[mcp_servers.gated]]\ncommand = \"gated\"\n", refusal.Conflict},
		{Codex{}, "mcp_servers.gated = {command = \"gated\", args = [\"mcp\", \"--as\", \"x\"]}\n", refusal.Conflict},
		{Codex{}, "[mcp_servers.gated]\ncommand = \"gated\"\nargs = [\"mcp\", # mine\n \"--as\", \"y\"]\n", refusal.Conflict},
	} {
		f := ServerFileOf(c.product, t.TempDir(), inHome(t.TempDir()))
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o755))
		require.NoError(t, os.WriteFile(f.Path, []byte(c.text), 0o644))
		must.Fail(f.Install("/usr/bin/gated", "mcp"))(t, c.want, c.text)
		if c.want == refusal.Conflict && strings.Contains(c.text, "gated") && !strings.Contains(c.text, `"gated",`) && !strings.Contains(c.text, "# mine") {
			must.Fail(f.Uninstall())(t, c.want, c.text)
		}
		require.Equal(t, c.text, string(must.Get(os.ReadFile(f.Path))(t)))
	}
	f := ServerFileOf(Claude{}, t.TempDir(), inHome(""))
	must.Fail(f.Install("gated", "mcp"))(t, refusal.BadParams)
	must.Fail(f.Install("/usr/bin/other", "mcp"))(t, refusal.BadParams)
	require.NoError(t, os.Symlink("elsewhere", f.Path))
	must.Fail(f.Install("/usr/bin/gated", "mcp"))(t, refusal.Conflict)
}

// FuzzServers: whatever a file has, if gated's entry is added to it, then a second installation changes nothing, and the
// removal brings it back byte for byte.
func FuzzServers(f *testing.F) {
	for _, s := range []string{"", "\n", "{}", "{ }\n", "{\n}", `{"mcpServers":{}}`, `{"mcpServers":{"a":{}}}`, "{ // c\n}", "/* a */ {\n  \"a\": 1, // c\n}\n",
		"{\"mcp\": {/* c */},}", "{\r\n  \"a\": [1, 2],\r\n}\r\n", byteOrderMark + "{}", `{"a":1,"a":2}`, "{\"mcpServers\":{\n\n}}", `{"/*":"*/","//":",}"}`,
		"a = 1\n", "a = 1", "a = nan\r\nb = [inf, -inf]", "[mcp_servers.b]\ncommand = 'x'\n", tomlOpens, tomlOpens + "\n" + tomlEnds + "\n", "mcp_servers.a.b = 1\n",
		"a = '''\n[mcp_servers.gated]\n" + tomlOpens + "\n'''\n", "a.\"b.c\" = [ # x\n {y = \"]\"}, # z\n]\n[[q]]\n[ 's' . t ] # u\n", "a = \"\"\"\"\"\"\n[mcp_servers]",
		"[mcp_servers.gated]\ncommand = \"gated\"\nargs = [\"mcp\"]\n[mcp_servers.gated.env]\nA = \"1\"\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := []string{"/usr/bin/gated", "mcp"}
		for _, p := range Dialects() {
			edit := ServerFile{For: p}.editJSON
			if p == (Codex{}) {
				edit = editTOML
			}
			bare, err := edit(text, true, nil)
			if err != nil {
				require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Conflict}, refusal.CodeOf(err), "%v", err)
				continue
			}
			with, err := edit(bare.text, true, line)
			if err != nil {
				require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Conflict}, refusal.CodeOf(err), "%v", err)
				continue
			}
			require.Equal(t, string(with.text), string(must.Get(edit(with.text, true, line))(t).text))
			other := must.Get(edit(with.text, true, []string{"/opt/gated-1.2", "mcp", "--as", "x", "--socket", "/s"}))(t)
			for _, now := range []serverEdit{with, other} {
				back := must.Get(edit(now.text, true, nil))(t)
				require.Equal(t, string(bare.text), string(back.text), "%s", p.Name())
			}
		}
	})
}

// inHome returns the environment of a user with that home.
func inHome(home string) func(string) string {
	return func(name string) string { return map[string]string{"HOME": home}[name] }
}

// An entry of gated's keeps what the user added to it. Install changes the program and its arguments alone.
func TestInstallKeepsWhatWasAddedToTheEntry(t *testing.T) {
	for _, c := range []struct {
		product      Dialect
		old, new     string
		left, notes  string
		removesNotes string
	}{
		{Claude{}, "{\n  \"mcpServers\": {\n    \"gated\": {\"env\": {\"A\": \"1\"}, \"timeout\": 9, \"args\": [\"mcp\",  \"--as\", \"claude\"], \"command\": \"/old/gated\", \"type\": \"stdio\"}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"gated\": {\"env\": {\"A\": \"1\"}, \"timeout\": 9, \"args\": [\"mcp\",  \"--as\", \"x\"], \"command\": \"/usr/bin/gated\", \"type\": \"stdio\"}\n  }\n}\n",
			"", "", "env, timeout"},
		{Gemini{}, "{ // mine\n \"mcpServers\": {\n  // theirs\n  \"gated\": { /* a */ \"command\": \"gated\", // b\n   \"trust\": true,\n   \"args\": [\n    \"mcp\"\n   ]\n  }, // c\n  \"z\": {}\n }\n}\n",
			"{ // mine\n \"mcpServers\": {\n  // theirs\n  \"gated\": { /* a */ \"command\": \"/usr/bin/gated\", // b\n   \"trust\": true,\n   \"args\": [\n    \"mcp\",\n    \"--as\",\n    \"x\"\n   ]\n  }, // c\n  \"z\": {}\n }\n}\n",
			"{ // mine\n \"mcpServers\": {\n  // theirs\n   // c\n  \"z\": {}\n }\n}\n", "", "trust"},
		{OpenCode{}, "{\"mcp\":{\"gated\":{\"type\":\"local\",\"enabled\":false,\"command\":[\"gated-2.0\",\"mcp\",\"--as\",\"y\"],\"environment\":{}},},}",
			"{\"mcp\":{\"gated\":{\"type\":\"local\",\"enabled\":false,\"command\":[\"/usr/bin/gated\",\"mcp\",\"--as\",\"x\"],\"environment\":{}},},}",
			"-", "switched off", "environment"},
		{Codex{}, "a = 1\n" + tomlOpens + "\n[mcp_servers.gated] # mine\ncommand = '/old/gated' # its place\nargs = [\"mcp\"]\nstartup_timeout_sec = 20\n# and\nenabled = false\n" + tomlEnds +
			"\n[mcp_servers.gated.tools.submit]\napproval_mode = \"prompt\"\n# the end\n\n[b]\nc = nan\n",
			"a = 1\n" + tomlOpens + "\n[mcp_servers.gated] # mine\ncommand = \"/usr/bin/gated\" # its place\nargs = [\"mcp\", \"--as\", \"x\"]\nstartup_timeout_sec = 20\n# and\nenabled = false\n" + tomlEnds +
				"\n[mcp_servers.gated.tools.submit]\napproval_mode = \"prompt\"\n# the end\n\n[b]\nc = nan\n",
			"a = 1\n# and\n# the end\n\n[b]\nc = nan\n", "switched off", "enabled, startup_timeout_sec, tools"},
		{Codex{}, "mcp_servers.gated.args = [ \"mcp\" , \"--as\" , \"y\" ]\r\nmcp_servers.gated.command = \"\"\"gated\"\"\"\r\nmcp_servers.\"gated\".env.A = \"#\"\r\nx = inf",
			"mcp_servers.gated.args = [\"mcp\", \"--as\", \"x\"]\r\nmcp_servers.gated.command = \"/usr/bin/gated\"\r\nmcp_servers.\"gated\".env.A = \"#\"\r\nx = inf",
			"x = inf", "", "env"},
	} {
		f := ServerFileOf(c.product, t.TempDir(), inHome(t.TempDir()))
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o755))
		require.NoError(t, os.WriteFile(f.Path, []byte(c.old), 0o640))
		for _, action := range []Action{Changed, Unchanged} {
			r := must.Get(f.Install("/usr/bin/gated", "mcp", "--as", "x"))(t)
			require.Equal(t, action, r.Changes[0].Action)
			require.Equal(t, c.new, string(must.Get(os.ReadFile(f.Path))(t)))
			require.Contains(t, strings.Join(r.Notes, "\n"), c.notes)
			require.Contains(t, strings.Join(r.Notes, "\n"), "the entry keeps what was added to it: "+c.removesNotes)
		}
		if c.left == "-" { // a comma would be left alone
			must.Fail(f.Uninstall())(t, refusal.Conflict)
			continue
		}
		r := must.Get(f.Uninstall())(t)
		require.Contains(t, strings.Join(r.Notes, "\n"), "what was added to it: "+c.removesNotes)
		if c.left == "" {
			require.NoFileExists(t, f.Path)
		} else {
			require.Equal(t, c.left, string(must.Get(os.ReadFile(f.Path))(t)))
		}
	}
}

// TestOnlyTheLineChanges: whatever stands beside the program and the arguments of gated's entry, in whatever order, an
// installation leaves it byte for byte.
func TestOnlyTheLineChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blank := func(name string) string {
			return rapid.SampledFrom([]string{"", " ", "\n  ", "\r\n", " /* \"command\": 1 */ ", " // }\n"}).Draw(t, name)
		}
		was := rapid.SampledFrom([][]string{{"gated", "mcp"}, {"/old/gated-2.0", "mcp", "--as", "y"}, {"/usr/bin/gated", "mcp", "--as", "x"}}).Draw(t, "was")
		quoted := func(words ...string) string {
			return string(must.Get(json.Marshal(words))(t))
		}
		parts := []string{`"env": {"A": "\u0031", "command": "no"}`, `"timeout": 1e3`, `"trust"` + blank("a") + ":" + blank("b") + "false", "C", "A"}
		text := blank("first") + "{" + blank("c") + `"mcpServers":{` + blank("d") + `"gated":{`
		var command, args string
		for i, part := range rapid.Permutation(parts).Draw(t, "order") {
			if i > 0 {
				text += ","
			}
			switch part {
			case "C":
				command = blank("e") + `"command":` + blank("f")
				part = command + "@C@"
			case "A":
				args = blank("g") + `"args":` + blank("h")
				part = args + "@A@"
			}
			text += blank("i") + part + blank("j")
		}
		text += "}" + blank("k") + `,"z":{"command":"gated","args":["mcp"]}}` + blank("l") + "}" + blank("end")
		write := func(line []string) string {
			return strings.NewReplacer("@C@", strings.Trim(quoted(line[0]), "[]"), "@A@", quoted(line[1:]...)).Replace(text)
		}
		f := ServerFile{For: Gemini{}}
		line := []string{"/usr/bin/gated", "mcp", "--as", "x"}
		got := must.Get(f.editJSON([]byte(write(was)), true, line))(t)
		require.Equal(t, write(line), string(got.text))
		out := string(must.Get(f.editJSON(got.text, true, nil))(t).text)
		require.NotContains(t, out, `"gated":{`)
		require.Contains(t, out, `"z":{"command":"gated","args":["mcp"]}}`)
	})
}

// A file that was there is there again after the removal, with every byte.
func TestAFileOfServersComesBack(t *testing.T) {
	for _, d := range Dialects() {
		for _, text := range []string{"", "\n", " \r\n", "{}", "{}\n", "{ }", "{\n}\n", "{\n  \"mcpServers\": {}\n}\n", `{"mcp":{ }}`, "{\"a\": 1}\r\n", "# only\n", "a = 1"} {
			f := ServerFileOf(d, t.TempDir(), inHome(t.TempDir()))
			require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o755))
			require.NoError(t, os.WriteFile(f.Path, []byte(text), 0o600))
			if _, err := f.Install("/usr/bin/gated", "mcp"); err != nil {
				require.ErrorIs(t, err, refusal.Malformed)
				continue
			}
			must.Get(f.Install("/opt/gated", "mcp", "--as", "x"))(t)
			must.Get(f.Uninstall())(t)
			require.Equal(t, text, string(must.Get(os.ReadFile(f.Path))(t)), d.Name())
		}
	}
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
	require.Empty(t, ServerFileOf(Codex{}, "/top", inHome("")).Path)
}
