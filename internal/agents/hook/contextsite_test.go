package hook

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// The hook for context comes and goes by a wish, stays without one, and leaves all else byte for byte.
func TestContextInstalled(t *testing.T) {
	yes, no := true, false
	for _, d := range Dialects() {
		s := SettingsFor(d, t.TempDir())
		lines := func() []string { return must.Get(s.State())(t).Contexts }
		install := func(wish *bool) Report { return must.Get(s.Install(program, Setup{Context: wish}))(t) }
		install(nil)
		bare := must.Get(os.ReadFile(s.Path))(t)
		require.Empty(t, lines(), "the default is none")
		report := install(&yes)
		if len(d.context().events) == 0 {
			require.Contains(t, strings.Join(report.Notes, ""), "no hook that adds", "%s", d.Name())
			require.Equal(t, string(bare), string(must.Get(os.ReadFile(s.Path))(t)))
			continue
		}
		line := program + " hook context"
		if d != Dialect(Claude{}) {
			line += " --for " + d.Name()
		}
		require.Equal(t, []string{line, line}, lines())
		require.Len(t, must.Get(s.State())(t).Hooks, 1, "a hook for context is no hook that refuses")
		both := must.Get(os.ReadFile(s.Path))(t)
		for _, event := range d.context().events {
			require.Contains(t, string(both), "\""+event+"\"")
		}
		require.Equal(t, Unchanged, install(nil).Changes[0].Action, "without a wish it stays")
		require.Equal(t, Unchanged, install(&yes).Changes[0].Action)
		require.Equal(t, Changed, must.Get(s.Install("/opt/gated", Setup{}))(t).Changes[0].Action)
		require.Equal(t, strings.Replace(line, program, "/opt/gated", 1), lines()[0], "another program")
		install(nil)
		install(&no)
		require.Empty(t, lines())
		require.JSONEq(t, string(bare), string(must.Get(os.ReadFile(s.Path))(t)))
		install(&yes)
		must.Get(s.Uninstall())(t)
		require.NoFileExists(t, s.Path, "nothing else was in it")
	}
}

// Another program's hook at the same event stays.
func TestContextBesideOthers(t *testing.T) {
	yes := true
	const theirs = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"date"}]}]},"model":"m"}`
	s := settings(t, theirs)
	must.Get(s.Install(program, Setup{Context: &yes}))(t)
	require.Len(t, must.Get(s.State())(t).Contexts, 2)
	require.Contains(t, s.content(t), `"command":"date"`)
	must.Get(s.Uninstall())(t)
	require.Equal(t, theirs, s.content(t))
}

// Gemini CLI takes an object, the others plain text. No news is nothing.
func TestContextIsTold(t *testing.T) {
	require.Equal(t, "news\n", Claude{}.context().tell("news\n").Stdout)
	require.Equal(t, "news\n", Codex{}.context().tell("news\n").Stdout)
	require.JSONEq(t, `{"hookSpecificOutput":{"additionalContext":"news\n"}}`, Gemini{}.context().tell("news\n").Stdout)
	for _, d := range Dialects() {
		require.Zero(t, d.context().tell(""))
	}
}
