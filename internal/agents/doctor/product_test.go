package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/hook"
)

// grep is a hook that refuses a call with the held path anywhere in it, in the
// form that follows.
const grep = `grep -qE "$held($|[^-])" || { echo '{}'; exit 0; }` + "\n"

// TestEachProductIsTriedWithItsOwnCall, and read as the product reads.
func TestEachProductIsTriedWithItsOwnCall(t *testing.T) {
	claude := `{"hookSpecificOutput":{"permissionDecision":"deny"}}`
	for d, refusal := range map[hook.Dialect]string{
		hook.Codex{}: claude, hook.Gemini{}: `{"decision":"deny"}`, hook.Cursor{}: `{"permission":"deny"}`,
		hook.Copilot{}: `{"permissionDecision":"deny"}`, hook.OpenCode{}: `{"refuse":"no"}`,
	} {
		for _, c := range []struct {
			text string
			want State
			says string
		}{
			{grep + "echo '" + refusal + "'\n", OK, wordsBlocks},
			{grep + "echo '" + claude + "'\n", map[bool]State{true: OK, false: Bad}[refusal == claude], ""},
			{"cat >/dev/null\necho '" + refusal + "'\n", Bad, wordsBlocksAll},
			{"cat >/dev/null\nexit 1\n", Bad, wordsDoesNot},
		} {
			p := newPatient(t)
			t.Setenv("PATH", "/usr/bin:/bin")
			program := p.program(c.text)
			s := hook.SettingsFor(d, p.dir)
			_, err := s.Install(program, hook.Setup{})
			require.NoError(t, err)
			p.Settings = []hook.Settings{s}
			r := p.examine()
			for _, tool := range hook.ToolsOf(d) {
				f := r.of(s.Path + " " + tool)
				require.Equal(t, c.want, f.State, "%s %s: %+v", d.Name(), c.text, r.Findings)
				require.Contains(t, f.Detail, c.says)
			}
		}
	}
}

// TestClaudesEntryInAFileOfCodexIsBad: nothing is ok that Codex cannot use.
func TestClaudesEntryInAFileOfCodexIsBad(t *testing.T) {
	p := newPatient(t)
	s := hook.SettingsFor(hook.Codex{}, p.dir)
	_, err := hook.Settings{Path: s.Path}.Install(p.program(judge+"exit 2\n"), hook.Setup{})
	require.NoError(t, err)
	p.Settings = []hook.Settings{s}
	r := p.examine()
	require.False(t, r.Sound)
	for _, f := range r.Findings {
		require.False(t, f.State == OK && f.Setup != nil, "%+v", f)
	}
}

// codexSays puts a program codex into PATH that answers with a line.
func codexSays(t *testing.T, answer string) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\nread a; read b; read c\necho '{\"id\":1,\"result\":{}}'\ncat <<'EOF'\n"+answer+"\nEOF\n"), 0o755))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

// TestTrustOfCodex goes by the file and by the line: what Codex trusts elsewhere says nothing of this entry.
func TestTrustOfCodex(t *testing.T) {
	p := newPatient(t)
	dir := t.TempDir()
	here, link := filepath.Join(dir, "hooks.json"), filepath.Join(dir, "link.json")
	require.NoError(t, os.WriteFile(here, []byte("{}"), 0o600))
	require.NoError(t, os.Symlink(here, link))
	const line = "/g hook pre-tool-use --for codex"
	files := []hook.FileState{{Settings: hook.Settings{Path: here, For: hook.Codex{}}, SettingsState: hook.SettingsState{Hooks: []hook.ToolState{{Command: line}}}}}
	list := func(path, command, trust, enabled string) string {
		return `{"id":2,"result":{"data":[{"hooks":[{"command":"x","trustStatus":"untrusted"},{"command":"` + command + `","sourcePath":"` + path +
			`","enabled":` + enabled + `,"trustStatus":"` + trust + `"}]}]}}`
	}
	for answer, want := range map[string]State{
		list(here, line, "trusted", "true"):               OK,
		list(link, line, "managed", "true"):               OK,
		list(here, line, "untrusted", "true"):             Bad,
		list(here, line, "modified", "true"):              Bad,
		list(here, line, "trusted", "false"):              Bad,
		list("/else/hooks.json", line, "trusted", "true"): Bad,
		list(here, line+" --steer", "trusted", "true"):    Bad,
		`{"id":2,"result":{"data":[]}}`:                   Bad,
		`{"id":2,"error":{"code":-1}}`:                    Note,
		`{"method":"x"}` + "\n" + `junk`:                  Note,
	} {
		codexSays(t, answer)
		var r Report
		p.trust(t.Context(), &r, files)
		require.Len(t, r.Findings, 1)
		require.Equal(t, want, r.of(whatTrust).State, "%s: %+v", answer, r.Findings)
	}
	t.Setenv("PATH", t.TempDir())
	var r Report
	p.trust(t.Context(), &r, files)
	require.Equal(t, Note, r.of(whatTrust).State)
	require.Contains(t, r.of(whatTrust).Detail, "not tried: the program codex is not found")
}

func FuzzCodexHooks(f *testing.F) {
	f.Add([]byte(`{"id":2,"result":{"data":[{"hooks":[{"command":"a"}]}]}}`))
	f.Add([]byte(`{"id":2,"result":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, ok := parseCodexHooks(b)
		require.True(t, ok || list == nil)
	})
}
