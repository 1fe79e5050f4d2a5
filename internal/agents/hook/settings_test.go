package hook

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

const program = "/usr/bin/gated"

const line = program + " hook pre-tool-use --on-failure warn"

func settings(t *testing.T, content string) Settings {
	s := Settings{Path: filepath.Join(t.TempDir(), ".claude", "settings.json")}
	if content != "" {
		require.NoError(t, os.Mkdir(filepath.Dir(s.Path), 0o755))
		require.NoError(t, os.WriteFile(s.Path, []byte(content), 0o640))
	}
	return s
}

func (s Settings) install(t *testing.T) Change {
	t.Helper()
	r := must.Get(s.Install(program, Setup{}))(t)
	require.Len(t, r.Changes, 1)
	return r.Changes[0]
}

func (s Settings) uninstall(t *testing.T) Change {
	t.Helper()
	r := must.Get(s.Uninstall())(t)
	require.Len(t, r.Changes, 1)
	return r.Changes[0]
}

func (s Settings) content(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile(s.Path))(t)
	return string(b)
}

const fresh = `{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Edit|Write|MultiEdit|NotebookEdit",
        "hooks": [
          {
            "type": "command",
            "command": "/usr/bin/gated hook pre-tool-use --on-failure warn",
            "timeout": 6
          }
        ]
      }
    ]
  }
}
`

func TestInstallWhereThereAreNoSettings(t *testing.T) {
	s := settings(t, "")
	dry := s
	dry.DryRun = true
	require.Equal(t, Change{Path: s.Path, Action: Created}, dry.install(t))
	require.NoDirExists(t, filepath.Dir(s.Path))
	require.Equal(t, Unchanged, s.uninstall(t).Action)

	require.Equal(t, Change{Path: s.Path, Action: Created}, s.install(t))
	require.Equal(t, fresh, s.content(t))
	require.Equal(t, Change{Path: s.Path, Action: Unchanged}, s.install(t))
	require.Equal(t, fresh, s.content(t))
	require.NoFileExists(t, s.Path+backupSuffix)

	require.Equal(t, Removed, dry.uninstall(t).Action)
	require.FileExists(t, s.Path)
	require.Equal(t, Removed, s.uninstall(t).Action)
	require.NoFileExists(t, s.Path)
	require.Equal(t, Unchanged, s.uninstall(t).Action)
	require.NoDirExists(t, filepath.Dir(s.Path))
}

// TestInstallKeepsEverythingElse, to the byte: what is not in the line that was
// added was there before, in that order.
func TestInstallKeepsEverythingElse(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{`{}`, "{ \"hooks\": {\n  \"PreToolUse\": [\n    {\n      \"matcher\": \"Edit|Write|MultiEdit|NotebookEdit\",\n      \"hooks\": [\n        {\n          \"type\": \"command\",\n          \"command\": \"" + line + "\",\n          \"timeout\": 6\n        }\n      ]\n    }\n  ]\n} }"},
		{"{\n\t\"model\": \"x\",\n\t\"env\": {\"B\": \"\\u0031\", \"A\": 1.0}\n}", "{\n\t\"model\": \"x\",\n\t\"env\": {\"B\": \"\\u0031\", \"A\": 1.0},\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{\n\t\t\t\t\"matcher\": \"Edit|Write|MultiEdit|NotebookEdit\",\n\t\t\t\t\"hooks\": [\n\t\t\t\t\t{\n\t\t\t\t\t\t\"type\": \"command\",\n\t\t\t\t\t\t\"command\": \"" + line + "\",\n\t\t\t\t\t\t\"timeout\": 6\n\t\t\t\t\t}\n\t\t\t\t]\n\t\t\t}\n\t\t]\n\t}\n}"},
		{`{"z":1,"hooks":{"Stop":[],"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"x","unknown":1e2}]}]},"a":2}`,
			`{"z":1,"hooks":{"Stop":[],"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"x","unknown":1e2}]},{"matcher":"Edit|Write|MultiEdit|NotebookEdit","hooks":[{"type":"command","command":"` + line + `","timeout":6}]}]},"a":2}`},
		{`{"hooks":{"Stop":[{"hooks":[]}]}}`,
			`{"hooks":{"Stop":[{"hooks":[]}],"PreToolUse":[{"matcher":"Edit|Write|MultiEdit|NotebookEdit","hooks":[{"type":"command","command":"` + line + `","timeout":6}]}]}}`},
	} {
		s := settings(t, c.before)
		require.Equal(t, Change{Path: s.Path, Action: Changed, Backup: s.Path + backupSuffix}, s.install(t))
		require.Equal(t, c.after, s.content(t))
		require.Equal(t, Unchanged, s.install(t).Action)
		require.Equal(t, c.before, Settings{Path: s.Path + backupSuffix}.content(t))
		info := must.Get(os.Stat(s.Path))(t)
		require.Equal(t, os.FileMode(0o640), info.Mode())

		require.Equal(t, Change{Path: s.Path, Action: Changed}, s.uninstall(t))
		require.Equal(t, c.before, s.content(t))
		require.NoFileExists(t, s.Path+backupSuffix, "it says nothing that the settings do not")
	}
}

func TestInstallLeavesAnEntryWhereItIs(t *testing.T) {
	const ours = `{"hooks":[{"timeout":6,"type":"command","command":"` + line + `"},{"command":"x"}],"matcher":"` + claudeMatcher + `"}`
	const content = `{"hooks":{"PreToolUse":[` + ours + `,{"matcher":"Bash"}]}}`
	s := settings(t, content)
	require.Equal(t, Change{Path: s.Path, Action: Unchanged}, s.install(t))
	require.Equal(t, content, s.content(t))
	// One that would not be run for every edit, or not be waited for, is not it.
	for _, other := range []string{strings.Replace(content, "|Write", "", 1), strings.Replace(content, `"timeout":6`, `"async":true`, 1),
		strings.Replace(content, `[`+ours, `[`+ours+`,`+ours, 1)} {
		s := settings(t, other)
		require.Equal(t, Changed, s.install(t).Action)
		require.Contains(t, s.content(t), `{"matcher":"Edit|Write|MultiEdit|NotebookEdit","hooks":[{"type":"command","command":"`+line+`","timeout":6}]}]`)
		require.Equal(t, 1, strings.Count(s.content(t), "pre-tool-use"))
	}
}

func TestABackupIsNeverOfWhatWasEdited(t *testing.T) {
	s := settings(t, `{"a":1}`)
	s.install(t)
	other := Settings{Path: s.Path}
	r := must.Get(other.Install(program, Setup{ExitCode: new(true)}))(t)
	require.Equal(t, []Change{{Path: s.Path, Action: Changed, Differs: []string{"exit-code: off -> on"}}}, r.Changes)
	require.Equal(t, `{"a":1}`, Settings{Path: s.Path + backupSuffix}.content(t))
	require.Equal(t, 1, bytes.Count([]byte(s.content(t)), []byte("pre-tool-use")))
	require.Contains(t, s.content(t), "--exit-code")

	// Somebody adds something of theirs: what is left is not the backup.
	require.NoError(t, os.WriteFile(s.Path, bytes.Replace([]byte(s.content(t)), []byte(`"a":1`), []byte(`"a":2`), 1), 0o640))
	require.Equal(t, Change{Path: s.Path, Action: Changed, Backup: s.Path + backupSuffix}, s.uninstall(t))
	require.Equal(t, `{"a":2}`, s.content(t))
	require.Equal(t, `{"a":1}`, Settings{Path: s.Path + backupSuffix}.content(t))
	// The older backup is never replaced, nor is what somebody put at its name.
	require.Equal(t, Change{Path: s.Path, Action: Changed}, s.install(t))
	require.Equal(t, `{"a":1}`, Settings{Path: s.Path + backupSuffix}.content(t))
	require.NoError(t, os.Remove(s.Path+backupSuffix))
	require.NoError(t, os.Symlink("elsewhere", s.Path+backupSuffix))
	s.uninstall(t)
	require.Equal(t, Change{Path: s.Path, Action: Changed}, s.install(t))
	require.Equal(t, Changed, s.uninstall(t).Action)
	require.Equal(t, "elsewhere", must.Get(os.Readlink(s.Path+backupSuffix))(t))
	require.Equal(t, `{"a":2}`, s.content(t))
}

func TestUninstallTakesOutOursAlone(t *testing.T) {
	const theirs = `{"matcher":"Edit","hooks":[{"type":"command","command":"gated-lint hook"},{"type":"prompt"}]}`
	mixed := `{"matcher":"*","hooks":[{"command":"first"},{"type":"command","command":"'/opt/my dir/gated' hook pre-tool-use"},{"command":"last"}]}`
	s := settings(t, `{"hooks":{"PreToolUse":[`+theirs+`,`+mixed+`,{"hooks":[{"command":"gated hook pre-tool-use --deadline 1s || true"}]}]}}`)
	require.Equal(t, Change{Path: s.Path, Action: Changed}, s.uninstall(t))
	require.Equal(t, `{"hooks":{"PreToolUse":[`+theirs+`,{"matcher":"*","hooks":[{"command":"first"},{"command":"last"}]}]}}`, s.content(t))
}

// TestSettingsThatAskTooOften are refused, because each entry is removed by itself.
func TestSettingsThatAskTooOften(t *testing.T) {
	for _, n := range []int{maxOurs - 1, maxOurs, maxOurs + 1} {
		text := `{"hooks":{"PreToolUse":[` + strings.TrimSuffix(strings.Repeat(`{"hooks":[{"command":"`+line+`"}]},`, n), ",") + `]}}`
		s := settings(t, text)
		if n > maxOurs {
			must.Fail(s.Install(program, Setup{}))(t, refusal.Conflict)
			must.Fail(s.Uninstall())(t, refusal.Conflict)
			require.Equal(t, text, s.content(t))
			continue
		}
		require.Equal(t, Changed, s.install(t).Action)
		require.Equal(t, 1, strings.Count(s.content(t), "pre-tool-use"))
	}
}

func TestOurs(t *testing.T) {
	for line, want := range map[string]bool{
		line: true, "gated hook pre-tool-use": true, "/x/gated-1.2 hook pre-tool-use": true, "'/a b/gated' hook pre-tool-use --exit-code": true,
		`'/it'\''s/gated' hook pre-tool-use`: true, "": false, "gated": false, "gated hook": false, "gated hook pre-commit": false,
		"echo gated hook pre-tool-use": false, "'gated hook pre-tool-use": false, "/gated/x hook pre-tool-use": false,
	} {
		require.Equal(t, want, Claude{}.site().isOurs(line), line)
	}
	for _, program := range []string{"/usr/bin/gated", "/a b/gated", "/it's/gated", "/$(x)/gated"} {
		command := must.Get(Command(program, "hook", "pre-tool-use", "--on-failure", "warn"))(t)
		require.True(t, Claude{}.site().isOurs(command), command)
	}
	for _, program := range []string{"gated", "", "/a\nb/gated", "/\x1b/gated"} {
		must.Fail(Command(program))(t, refusal.BadParams)
	}
}

func TestSettingsThatAreLeftAlone(t *testing.T) {
	for content, code := range map[string]refusal.Code{
		"{": refusal.Malformed, `{"a":1,}`: refusal.Malformed, "// x\n{}": refusal.Malformed, `{"hooks":{},"hooks":{}}`: refusal.Malformed, "[]": refusal.Malformed, "\xef\xbb\xbf{}": refusal.Malformed,
		`{"hooks":[]}`: refusal.Conflict, `{"hooks":{"PreToolUse":{}}}`: refusal.Conflict, `{"hooks":null}`: refusal.Conflict,
	} {
		s := settings(t, content)
		must.Fail(s.Install(program, Setup{}))(t, code, content)
		must.Fail(s.Uninstall())(t, code, content)
		require.Equal(t, content, s.content(t))
		require.NoFileExists(t, s.Path+backupSuffix)
	}
	s := settings(t, string(bytes.Repeat([]byte(" "), maxSettings+1)))
	must.Fail(s.Install(program, Setup{}))(t, refusal.Oversized)
}

func TestSettingsBehindALink(t *testing.T) {
	s := settings(t, `{"a":1}`)
	dir := t.TempDir()
	for name, to := range map[string]string{"file": s.Path, "dangling": filepath.Join(dir, "none"), "dir": filepath.Dir(s.Path)} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, path := range []string{"file", "dangling", "dir/settings.json"} {
		linked := Settings{Path: filepath.Join(dir, path)}
		must.Fail(linked.Install(program, Setup{}))(t, refusal.Conflict, path)
		must.Fail(linked.Uninstall())(t, refusal.Conflict, path)
	}
	require.Equal(t, `{"a":1}`, s.content(t))
	require.NoFileExists(t, filepath.Join(dir, "none"))
	must.Fail(Settings{Path: dir}.Install(program, Setup{}))(t, refusal.Conflict)
}

func TestSettingsThatChangeMeanwhile(t *testing.T) {
	s := settings(t, `{"a":1}`)
	old := must.Get(readSettings(s.Path))(t)
	for _, change := range []func() error{
		func() error { return os.WriteFile(s.Path, []byte(`{"a":2}`), 0o640) },
		func() error { // the same bytes in another file
			return errors.Join(os.WriteFile(s.Path+"x", old.content, 0o640), os.Rename(s.Path+"x", s.Path))
		},
		func() error { return os.Remove(s.Path) },
		func() error { return os.Symlink("/dev/null", s.Path) },
	} {
		require.NoError(t, change())
		require.ErrorIs(t, old.replace([]byte("{}")), refusal.Conflict)
		require.ErrorIs(t, old.remove(), refusal.Conflict)
	}
	require.NoError(t, os.Remove(s.Path))
	missing := must.Get(readSettings(s.Path))(t)
	require.NoError(t, os.WriteFile(s.Path, []byte(`{"a":3}`), 0o600))
	require.ErrorIs(t, missing.replace([]byte("{}")), refusal.Conflict)
	require.Equal(t, `{"a":3}`, s.content(t))
	require.Len(t, must.Get(os.ReadDir(filepath.Dir(s.Path)))(t), 1, "nothing is left beside it")
}

// TestSettingsComeBack: settings that were there are there again after the removal, with every byte. So is a file that was
// blank. An entry that somebody removed by hand changes nothing of that.
func TestSettingsComeBack(t *testing.T) {
	for _, d := range Dialects() {
		for _, text := range []string{"", "\n", " \r\n", "{}", "{}\n", "{ }", "{\n}\n", "{\n  \"hooks\": {}\n}\n", `{"hooks":{"PreToolUse":[ ],"BeforeTool":[],"preToolUse":[]}}`,
			"{\"version\":1}", "{\n  \"version\": 1\n}\n", "{\n  \"version\": 1\n}", "{ // mine\n  \"hooks\": { /* none */ }, // c\r\n}\n", "// a\n{}"} {
			s := SettingsFor(d, t.TempDir())
			require.NoError(t, os.MkdirAll(filepath.Dir(s.Path), 0o755))
			require.NoError(t, os.WriteFile(s.Path, []byte(text), 0o600))
			if _, err := s.Install(program, Setup{}); err != nil {
				require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Conflict}, refusal.CodeOf(err))
				continue
			}
			must.Get(s.Install(program, Setup{Context: new(true), OnFailure: Block}))(t)
			require.Len(t, must.Get(s.State())(t).Hooks, 1)
			s.uninstall(t)
			require.Equal(t, text, s.content(t), d.Name())
			require.NoFileExists(t, s.Path+backupSuffix)
		}
	}
}

// TestCommentsOfGeminiStay: Gemini CLI reads settings with comments, and so does gated.
func TestCommentsOfGeminiStay(t *testing.T) {
	s := SettingsFor(Gemini{}, t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Dir(s.Path), 0o755))
	const text = "{\n  // which\n  \"hooks\": {\n    \"BeforeTool\": [ /* none */ ] // here\n  },\n  \"hooksConfig\": {\"enabled\": false} /* , \"hooks\": */\n}\n"
	require.NoError(t, os.WriteFile(s.Path, []byte(text), 0o600))
	require.Len(t, must.Get(s.Install(program, Setup{}))(t).Notes, 1, "hooks are off")
	for _, part := range []string{"// which", "/* none */ ] // here", "/* , \"hooks\": */"} {
		require.Contains(t, s.content(t), part)
	}
	state := must.Get(s.State())(t)
	require.True(t, state.Hooks[0].Known)
	require.Equal(t, "hooksConfig.enabled: false", state.Off)
	require.Equal(t, Unchanged, s.install(t).Action)
	// Comments that were added since stay too.
	now := strings.Replace(s.content(t), "/* none */", "/* one */ // more\n", 1)
	require.NoError(t, os.WriteFile(s.Path, []byte(now), 0o600))
	s.uninstall(t)
	require.Equal(t, strings.Replace(text, "/* none */", "/* one */ // more\n", 1), s.content(t))
}

func TestHooksThatAreSwitchedOff(t *testing.T) {
	s := settings(t, `{"disableAllHooks":true}`)
	require.Len(t, must.Get(s.Install(program, Setup{}))(t).Notes, 1)
}

// TestInstallAndUninstallGiveBackWhatWasThere for settings of any layout.
func TestInstallAndUninstallGiveBackWhatWasThere(t *testing.T) {
	want := must.Get(Claude{}.site().wanted(line, 6*time.Second, claudeMatcher))(t)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just(any(nil)), rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Just(any([]any{1.0, map[string]any{}})), rapid.Just(any(map[string]any{"matcher": "x"})))
		name := rapid.SampledFrom([]string{"a", "permissions", "Ünï", "", "env"})
		root := rapid.MapOf(name, value).Draw(t, "root")
		events := rapid.MapOf(rapid.SampledFrom([]string{"Stop", "PostToolUse"}), value).Draw(t, "events")
		groups := rapid.SliceOf(value).Draw(t, "groups")
		if len(groups) > 0 {
			events[preToolUse] = groups
		}
		if len(events) > 0 {
			root["hooks"] = events
		}
		text := must.Get(json.Marshal(root, jsontext.AllowInvalidUTF8(true)))(t)
		v := jsontext.Value(text)
		if indent := rapid.SampledFrom([]string{"", " ", "    ", "\t"}).Draw(t, "indent"); indent != "" {
			require.NoError(t, v.Indent(jsontext.WithIndent(indent)))
		}
		text = append(v, rapid.SampledFrom([]string{"", "\n", "\r\n "}).Draw(t, "end")...)

		in, first := must.Two(Claude{}.site().installed(text, want))(t)
		require.True(t, first)
		require.True(t, jsontext.Value(in).IsValid())
		require.Len(t, must.Get(Claude{}.site().readTree(in))(t).ours(), 1)
		again, first := must.Two(Claude{}.site().installed(in, want))(t)
		require.False(t, first)
		require.Equal(t, string(in), string(again))
		out := must.Get(Claude{}.site().uninstalled(in))(t)
		require.Equal(t, string(text), string(out))
	})
}
