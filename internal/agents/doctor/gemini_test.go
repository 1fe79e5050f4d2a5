package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/hook"
	"gated/internal/test/must"
)

// geminiPatient has a hook of Gemini CLI that blocks, and a home of its own.
func geminiPatient(t *testing.T) (*patient, string) {
	p := newPatient(t)
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, ".gemini"), 0o700))
	p.Env = append(p.env, "GEMINI_CLI_TRUST_WORKSPACE=", "HOME="+home, "GEMINI_CLI_SYSTEM_SETTINGS_PATH="+filepath.Join(home, "system.json"))
	s := hook.SettingsFor(hook.Gemini{}, p.dir)
	must.Get(s.Install(p.program(grep+`echo '{"decision":"deny"}'`+"\n"), hook.Setup{}))(t)
	p.Settings = []hook.Settings{s}
	return p, home
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestTrustOfGemini: nothing of a directory that Gemini CLI does not trust is called ok.
func TestTrustOfGemini(t *testing.T) {
	for name, c := range map[string]struct {
		folders, user, system, env string
		want                       State
		says                       string
	}{
		"nothing is said":          {"", "", "", "", Bad, "no rule in"},
		"trusted":                  {`{"DIR":"TRUST_FOLDER"}`, "", "", "", OK, "has TRUST_FOLDER for"},
		"with comments":            {"// mine\n{\"DIR/\": /* so */ \"TRUST_FOLDER\"}", "", "", "", OK, "has TRUST_FOLDER"},
		"above it":                 {`{"UP":"TRUST_FOLDER"}`, "", "", "", OK, "has TRUST_FOLDER"},
		"a sibling's parent":       {`{"UP/other":"TRUST_PARENT"}`, "", "", "", OK, "has TRUST_PARENT"},
		"not trusted":              {`{"UP":"TRUST_FOLDER","DIR":"DO_NOT_TRUST"}`, "", "", "", Bad, "has DO_NOT_TRUST"},
		"another's name":           {`{"DIRx":"TRUST_FOLDER"}`, "", "", "", Bad, "no rule in"},
		"below it":                 {`{"DIR/sub":"TRUST_FOLDER"}`, "", "", "", Bad, "no rule in"},
		"no level":                 {`{"/x":"TRUST"}`, "", "", "", Bad, "cannot be told"},
		"no JSON":                  {`{`, "", "", "", Bad, "cannot be told"},
		"no object":                {`null`, "", "", "", Bad, "cannot be told"},
		"off":                      {"", "{\"security\":{\"folderTrust\":{\"enabled\":false}} // c\n}", "", "", OK, "folderTrust.enabled: false"},
		"on by the system":         {"", `{"security":{"folderTrust":{"enabled":false}}}`, `{"security":{"folderTrust":{"enabled":true}}}`, "", Bad, "no rule in"},
		"off by the system":        {`{"DIR":"DO_NOT_TRUST"}`, "", `{"security":{"folderTrust":{"enabled":false}}}`, "", OK, "folderTrust.enabled: false"},
		"settings that are broken": {"", `{"security":[]}`, "", "", Bad, "cannot be told"},
		"by the environment":       {`{"DIR":"DO_NOT_TRUST"}`, "", "", "GEMINI_CLI_TRUST_WORKSPACE=true", OK, "TRUST_WORKSPACE is true"},
		"against it":               {`{"DIR":"TRUST_FOLDER"}`, "", "", "GEMINI_CLI_TRUST_WORKSPACE=false", Bad, "TRUST_WORKSPACE is false"},
		"restricted":               {`{"DIR":"TRUST_FOLDER"}`, "", "", "GEMINI_RESTRICTED_MODE=true", Bad, "RESTRICTED_MODE is true"},
		"another home":             {`{"DIR":"TRUST_FOLDER"}`, "", "", "GEMINI_CLI_HOME=/nowhere", Bad, "no rule in /nowhere/.gemini/"},
		"another file":             {`{"DIR":"TRUST_FOLDER"}`, "", "", "GEMINI_CLI_TRUSTED_FOLDERS_PATH=/nowhere", Bad, "no rule in /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			p, home := geminiPatient(t)
			p.Env = append(p.Env, c.env)
			names := strings.NewReplacer("DIR", p.dir, "UP", filepath.Dir(p.dir))
			for path, text := range map[string]string{".gemini/trustedFolders.json": c.folders, ".gemini/settings.json": c.user, "system.json": c.system} {
				if text != "" {
					write(t, filepath.Join(home, path), names.Replace(text))
				}
			}
			// The checkout's own settings do not count: it could trust itself.
			write(t, p.Settings[0].Path, strings.Replace(string(must.Get(os.ReadFile(p.Settings[0].Path))(t)), "{",
				`{"security":{"folderTrust":{"enabled":false}},`, 1))
			r := p.examine()
			f := r.of(whatGeminiTrust)
			require.Equal(t, c.want, f.State, "%+v", r.Findings)
			require.Contains(t, f.Detail, c.says)
			require.Equal(t, c.want == OK, r.Sound)
			for _, f := range r.Findings {
				if c.want == Bad && c.says != "cannot be told" {
					require.False(t, f.State == OK && f.Setup != nil, "%+v", f)
				}
			}
		})
	}
}

// TestTrustOfGeminiBehindALink: a path of a rule may lead to the directory.
func TestTrustOfGeminiBehindALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(dir, link))
	of := func(dir string, rules ...trustLevel) trustLevel {
		rule, found := trustRule(rules, dir)
		require.Equal(t, rule != trustLevel{}, found)
		return rule
	}
	here, root := trustLevel{link, trustFolder}, trustLevel{"/", doNotTrust}
	require.Equal(t, here, of(dir, here, trustLevel{"rel", doNotTrust}))
	require.Equal(t, root, of(dir, root))
	// The longest path as it is written counts, not the nearest; of several the first.
	require.Equal(t, here, of(dir, root, here))
	first, second := trustLevel{link[:len(link)-4] + "more", trustParent}, trustLevel{link[:len(link)-4] + "none", trustParent}
	require.Equal(t, first, of(filepath.Dir(link), first, second))
	// The last level of one path counts, as in JSON that a program reads.
	require.Equal(t, []trustLevel{{"/a", doNotTrust}, {"/b", trustParent}},
		must.Get(parseTrustedFolders([]byte(`{"/a":"TRUST_FOLDER","/b":"TRUST_PARENT","/a/":"DO_NOT_TRUST"}`)))(t))
}

// TestSwitchesOfTheUserCountInACheckout: an entry that a file of the user's home switches off is not called ok.
func TestSwitchesOfTheUserCountInACheckout(t *testing.T) {
	for _, c := range []struct {
		d          hook.Dialect
		home, here string
		want       State
	}{
		{hook.Claude{}, `{"disableAllHooks":true}`, "", Bad},
		{hook.Claude{}, `{"disableAllHooks":true}`, `"disableAllHooks":false,`, OK},
		{hook.Claude{}, `{"disableAllHooks":false}`, `"disableAllHooks":true,`, Bad},
		{hook.Gemini{}, `{"hooksConfig":{"enabled":false}}`, "", Bad},
		{hook.Gemini{}, `{"hooksConfig":{"enabled":false}}`, `"hooksConfig":{"enabled":true},`, OK},
		{hook.Gemini{}, `{"hooksConfig":{"disabled":["gated"]}}`, `"hooksConfig":{"enabled":true},`, Bad},
		{hook.Codex{}, "[features]\nhooks = false\n", "", Bad},
		{hook.Codex{}, "[features]\ncodex_hooks = false\n", "", Bad},
		{hook.Codex{}, "[features]\nhooks = true\nx = nan\n", "", OK},
	} {
		p := newPatient(t)
		t.Setenv("PATH", "/usr/bin:/bin")
		home := t.TempDir()
		env := map[string]string{"HOME": home, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
		p.Env = append(p.env, "HOME="+home, "GEMINI_CLI_TRUST_WORKSPACE=true")
		answer := map[hook.Dialect]string{hook.Gemini{}: `{"decision":"deny"}`}[c.d]
		if answer == "" {
			answer = `{"hookSpecificOutput":{"permissionDecision":"deny"}}`
		}
		s := hook.SettingsFor(c.d, p.dir)
		must.Get(s.Install(p.program(grep+"echo '"+answer+"'\n"), hook.Setup{}))(t)
		write(t, s.Path, strings.Replace(string(must.Get(os.ReadFile(s.Path))(t)), "{", "{"+c.here, 1))
		path := filepath.Join(home, map[hook.Dialect]string{hook.Claude{}: ".claude/settings.json", hook.Gemini{}: ".gemini/settings.json", hook.Codex{}: ".codex/config.toml"}[c.d])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		write(t, path, c.home)
		p.Settings = hook.SettingsThatCount(p.dir, func(name string) string { return env[name] })
		r := p.examine()
		require.Equal(t, c.want == OK, r.Sound, "%s %s: %+v", c.d.Name(), c.home, r.Findings)
		for _, f := range r.Findings {
			require.False(t, c.want == Bad && f.State == OK && f.Setup != nil, "%+v", f)
		}
	}
}

// TestASwitchThatCannotBeRead is worth a note: the file has no hook. One behind a link of the user's own is read.
func TestASwitchThatCannotBeRead(t *testing.T) {
	p := newPatient(t)
	t.Setenv("PATH", "/usr/bin:/bin")
	s := hook.SettingsFor(hook.Codex{}, p.dir)
	must.Get(s.Install(p.program(grep+`echo '{"hookSpecificOutput":{"permissionDecision":"deny"}}'`+"\n"), hook.Setup{}))(t)
	off := hook.Settings{Path: filepath.Join(t.TempDir(), "config.toml"), For: hook.Codex{}, AtHome: true, Switches: true}
	p.Settings = []hook.Settings{s, off}
	write(t, off.Path, "[features")
	require.True(t, p.examine().Sound)
	require.NoError(t, os.Remove(off.Path))
	write(t, off.Path+".real", "[features]\nhooks = false\n")
	require.NoError(t, os.Symlink(off.Path+".real", off.Path))
	r := p.examine()
	require.False(t, r.Sound, "%+v", r.Findings)
	require.Contains(t, r.of(whatTools).Detail, "features.hooks = false")
}

// FuzzGeminiFiles: whatever Gemini CLI's files have, levels are those that it knows, and a directory is in the path of the
// rule that counts.
func FuzzGeminiFiles(f *testing.F) {
	f.Add([]byte(`{"/a":"TRUST_FOLDER","/a/b":"DO_NOT_TRUST","/a/b/d":"TRUST_PARENT"}`), "/a/b/c")
	f.Add([]byte(`{"security":{"folderTrust":{"enabled":true}}}`), "/")
	f.Fuzz(func(t *testing.T, text []byte, dir string) {
		_, err := parseFolderTrust(text)
		_ = err // a text that is refused is said to be
		rules, err := parseTrustedFolders(text)
		if err != nil || !filepath.IsAbs(dir) {
			return
		}
		rule, found := trustRule(rules, filepath.Clean(dir))
		if !found {
			return
		}
		require.Contains(t, []string{trustFolder, trustParent, doNotTrust}, rule.level)
		at := rule.path
		if rule.level == trustParent {
			at = filepath.Dir(at)
		}
		rel := must.Get(filepath.Rel(real(at), real(filepath.Clean(dir))))(t)
		require.False(t, rel == ".." || strings.HasPrefix(rel, "../"), rel)
	})
}
