package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestInstallForEveryProduct: the entry is the product's, is read back as what
// Install writes, stays the same line, and goes away without a trace.
func TestInstallForEveryProduct(t *testing.T) {
	for _, d := range Dialects() {
		top := t.TempDir()
		s := SettingsFor(d, top)
		require.Equal(t, Created, s.install(t).Action, d.Name())
		first := s.content(t)
		require.Equal(t, Unchanged, s.install(t).Action)
		must.Get(s.Install(program, Setup{OnFailure: Block, Deadline: 2 * time.Second, Socket: "/run/a b/s"}))(t)
		must.Get(s.Install(program, Setup{}))(t)
		state := must.Get(s.State())(t)
		require.Len(t, state.Hooks, 1)
		h := state.Hooks[0]
		require.True(t, h.Known, "%s: %s", d.Name(), s.content(t))
		require.Empty(t, h.Lame)
		require.Equal(t, program, h.Program)
		require.Equal(t, ToolsOf(d), h.Tools)
		require.Equal(t, 9*time.Second, h.Timeout)
		require.Equal(t, d, h.Setup.Dialect())
		require.Equal(t, Block, h.Setup.OnFailure)
		require.Equal(t, "/run/a b/s", h.Setup.Socket)
		must.Get(s.Install(program, Setup{OnFailure: Warn, Deadline: ToolDeadline, Socket: "/s"}))(t)
		require.NotEqual(t, first, s.content(t))
		require.Equal(t, Removed, s.uninstall(t).Action)
		require.Empty(t, must.Get(os.ReadDir(top))(t), "the directories that were made are gone")
	}
}

func TestTheEntryOfEveryProduct(t *testing.T) {
	for d, want := range map[Dialect]string{
		Codex{}:   `{"hooks":{"PreToolUse":[{"matcher":"Bash|apply_patch","hooks":[{"type":"command","command":"/usr/bin/gated hook pre-tool-use --for codex --on-failure warn","timeout":6}]}]}}`,
		Gemini{}:  `{"hooks":{"BeforeTool":[{"matcher":"replace|write_file","hooks":[{"type":"command","name":"gated","command":"/usr/bin/gated hook pre-tool-use --for gemini --on-failure warn","timeout":6000}]}]}}`,
		Cursor{}:  `{"version":1,"hooks":{"preToolUse":[{"command":"/usr/bin/gated hook pre-tool-use --for cursor --on-failure warn","matcher":"ApplyPatch|Delete|Edit|EditNotebook|StrReplace|Write","timeout":6}]}}`,
		Copilot{}: `{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"/usr/bin/gated hook pre-tool-use --for copilot --on-failure warn","timeoutSec":6}]}}`,
	} {
		s := SettingsFor(d, t.TempDir())
		s.install(t)
		require.JSONEq(t, want, s.content(t))
	}
	s := SettingsFor(OpenCode{}, t.TempDir())
	s.install(t)
	require.Contains(t, s.content(t), `const command = ["/usr/bin/gated","hook","pre-tool-use","--for","opencode","--on-failure","warn"];`)
	require.Contains(t, s.content(t), "const block = false;")
	require.LessOrEqual(t, strings.Count(s.content(t), "\n"), 30)
	must.Get(s.Install(program, Setup{OnFailure: Block}))(t)
	require.Contains(t, s.content(t), "const block = true;")
}

// TestTheRestOfAFlatFileStays, byte for byte.
func TestTheRestOfAFlatFileStays(t *testing.T) {
	for _, text := range []string{
		"{ \"version\": 1,\n\t\"hooks\": {\"preToolUse\": [ {\"command\": \"./a.sh\"} ], \"stop\": []}}\n",
		"{\"version\":1}", "{\n  \"version\": 1,\n  \"hooks\": {\n    \"stop\": []\n  }\n}\n",
	} {
		s := SettingsFor(Cursor{}, t.TempDir())
		require.NoError(t, os.MkdirAll(filepath.Dir(s.Path), 0o755))
		require.NoError(t, os.WriteFile(s.Path, []byte(text), 0o600))
		require.Equal(t, Changed, s.install(t).Action)
		require.Equal(t, Unchanged, s.install(t).Action)
		require.Len(t, must.Get(s.State())(t).Hooks, 1)
		s.uninstall(t)
		require.Equal(t, text, s.content(t))
	}
}

// TestAnEntryOfAnotherDialectIsBad: it says nothing useful to the product that
// runs it, and Install mends it.
func TestAnEntryOfAnotherDialectIsBad(t *testing.T) {
	s := SettingsFor(Codex{}, t.TempDir())
	claude := Settings{Path: s.Path}
	claude.install(t)
	h := must.Get(s.State())(t).Hooks[0]
	require.True(t, h.Known)
	require.Equal(t, "it reads the calls of Claude Code, and Codex runs it", h.Lame)
	require.Contains(t, s.install(t).Differs, "for: claude -> codex")
	require.Empty(t, must.Get(s.State())(t).Hooks[0].Lame)
}

func TestAPluginOfOthersStays(t *testing.T) {
	s := SettingsFor(OpenCode{}, t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Dir(s.Path), 0o755))
	require.NoError(t, os.WriteFile(s.Path, []byte("export const A = 1;\n"), 0o600))
	must.Fail(s.Install(program, Setup{}))(t, refusal.Conflict)
	require.Equal(t, Unchanged, s.uninstall(t).Action)
	require.Empty(t, must.Get(s.State())(t).Hooks)

	require.NoError(t, os.WriteFile(s.Path, []byte(pluginMark+"edited\n"), 0o600))
	require.False(t, must.Get(s.State())(t).Hooks[0].Known)
	require.Equal(t, Changed, s.install(t).Action)
	require.True(t, must.Get(s.State())(t).Hooks[0].Known)
}

func TestAnExitCodeIsRefusedWhereItSaysNothing(t *testing.T) {
	for _, d := range Dialects() {
		_, err := SettingsFor(d, t.TempDir()).Install(program, Setup{ExitCode: new(true)})
		if d.CanExit() {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, refusal.BadParams)
		}
	}
}

func TestFound(t *testing.T) {
	top, home := t.TempDir(), t.TempDir()
	require.Empty(t, Found(top, inHome(home)))
	require.NoError(t, os.MkdirAll(filepath.Join(top, ".codex"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".config", "opencode"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".github", "hooks"), 0o755))
	require.Equal(t, []Dialect{Codex{}, OpenCode{}}, Found(top, inHome(home)))
	require.Equal(t, []Dialect{Codex{}}, Found(top, inHome("")))
}

// A product's own variable says where its directory is, in its own way.
func TestDirectoriesThatVariablesName(t *testing.T) {
	top, home, dir := t.TempDir(), t.TempDir(), t.TempDir()
	for d, c := range map[Dialect]struct{ name, value, file string }{
		Claude{}:   {"CLAUDE_CONFIG_DIR", dir + "/a", dir + "/a/settings.json"},
		Codex{}:    {"CODEX_HOME", dir + "/b", dir + "/b/hooks.json"},
		Gemini{}:   {"GEMINI_CLI_HOME", dir + "/c", dir + "/c/.gemini/settings.json"},
		Cursor{}:   {"", "", home + "/.cursor/hooks.json"},
		Copilot{}:  {"COPILOT_HOME", "rel", top + "/rel/hooks/gated.json"},
		OpenCode{}: {"XDG_CONFIG_HOME", dir + "/e", dir + "/e/opencode/plugins/gated.js"},
	} {
		getenv := func(name string) string { return map[string]string{"HOME": home, c.name: c.value}[name] }
		require.Contains(t, SettingsAtHome(top, getenv), Settings{Path: c.file, For: d, AtHome: true})
		require.Contains(t, SettingsThatCount(top, getenv), Settings{Path: c.file, For: d, AtHome: true})
		require.NotContains(t, Found(top, getenv), d)
		require.NoError(t, os.MkdirAll(filepath.Dir(c.file), 0o755))
		require.Contains(t, Found(top, getenv), d)
		require.NoError(t, os.RemoveAll(filepath.Dir(c.file)))
	}
	require.Empty(t, SettingsAtHome(top, inHome("")))
	count := map[string]int{}
	for _, s := range SettingsThatCount(home, inHome(home)) {
		count[s.Path]++
		require.Equal(t, 1, count[s.Path], s.Path)
	}
}

// TestCodexIsTrustedByAPerson: the installer says so.
func TestCodexIsTrustedByAPerson(t *testing.T) {
	r := must.Get(SettingsFor(Codex{}, t.TempDir()).Install(program, Setup{}))(t)
	require.Len(t, r.Notes, 1)
	require.Contains(t, r.Notes[0], "/hooks")
}

// FuzzPlugin: any text is gated's plugin as a whole, or nothing is known of it.
func FuzzPlugin(f *testing.F) {
	text, err := plugin(program, Setup{For: "opencode", OnFailure: Warn})
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(pluginMark + pluginCommand + `["a b","--for","opencode"]` + ";\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ours := readPlugin(b)
		if !ours {
			require.Empty(t, c)
			return
		}
		state := Settings{For: OpenCode{}}.pluginState(b)
		if !state.Hooks[0].Known {
			return
		}
		again := must.Get(plugin(state.Hooks[0].Program, state.Hooks[0].Setup))(t)
		require.Equal(t, string(b), string(again))
		_ = must.Get(json.Marshal(state.Hooks[0].Command))(t)
	})
}
