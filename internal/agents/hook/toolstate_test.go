package hook

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestTheStateOfSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	s := must.Get(Settings{Path: path}.State())(t)
	require.Equal(t, SettingsState{}, s)

	all := []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	const line = `/usr/bin/gated hook pre-tool-use`
	for _, c := range []struct {
		group string
		want  ToolState
	}{
		{`{"matcher":"Edit|Write","hooks":[{"type":"command","command":"` + line + `","timeout":7}]}`,
			ToolState{Command: line, Matcher: "Edit|Write", Tools: []string{"Edit", "Write"}, Timeout: 7 * time.Second}},
		{`{"hooks":[{"type":"command","command":"` + line + `"}]}`, ToolState{Command: line, Tools: all}},
		{`{"matcher":"*","hooks":[{"type":"command","command":"` + line + `","async":false}]}`, ToolState{Command: line, Matcher: "*", Tools: all}},
		{`{"matcher":".*Edit","hooks":[{"type":"command","command":"` + line + `"}]}`,
			ToolState{Command: line, Matcher: ".*Edit", Tools: all[:3]}},
		{`{"matcher":"[","hooks":[{"type":"command","command":"` + line + `","async":true}]}`, ToolState{Command: line, Matcher: "[", Lame: lameAsync}},
		{`{"matcher":"*","hooks":[{"type":"prompt","command":"` + line + `"}]}`, ToolState{Command: line, Matcher: "*", Tools: all, Lame: lameType}},
		{`{"matcher":"*","hooks":[{"type":"command","command":"` + line + `","if":"Edit(*.ts)"}]}`, ToolState{Command: line, Matcher: "*", Tools: all, Lame: lameIf}},
	} {
		require.NoError(t, os.WriteFile(path, []byte(`{"disableAllHooks":true,"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"other"}]},`+c.group+`]}}`), 0o600))
		s := must.Get(Settings{Path: path}.State())(t)
		require.Equal(t, SettingsState{There: true, Switch: Switch{Off: "disableAllHooks"}, Hooks: []ToolState{c.want}}, s, c.group)
	}
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	s = must.Get(Settings{Path: path}.State())(t)
	require.Equal(t, SettingsState{There: true}, s)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	must.Err(Settings{Path: path}.State())(t)
}

// Settings of Gemini CLI that switch the hook off, by name or with all hooks, are said to do so.
func TestGeminiSwitchedOff(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                         "",
		`{"hooksConfig":{"enabled":true}}`:           "",
		`{"hooksConfig":{"enabled":false}}`:          "hooksConfig.enabled: false",
		`{"hooksConfig":{"disabled":["x"]}}`:         "",
		`{"hooksConfig":{"disabled":["x","gated"]}}`: "hooksConfig.disabled: gated",
	} {
		s := SettingsFor(Gemini{}, t.TempDir())
		require.NoError(t, os.MkdirAll(filepath.Dir(s.Path), 0o755))
		require.NoError(t, os.WriteFile(s.Path, []byte(text), 0o644))
		must.Get(s.Install(program, Setup{}))(t)
		require.Equal(t, want, must.Get(s.State())(t).Off, text)
	}
}
