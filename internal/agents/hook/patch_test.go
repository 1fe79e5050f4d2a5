package hook

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/shell"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// several is a patch of several files.
const several = `*** Begin Patch
*** Add File: src/new.go
+package src
+*** Delete File: not/a/header
*** Update File: src/a.go
*** Move to: docs/b.go
@@
-old
+new
*** Delete File: /abs/c.go
*** End Patch
`

func TestParsePatch(t *testing.T) {
	all := []string{"src/new.go", "src/a.go", "docs/b.go", "/abs/c.go"}
	for name, text := range map[string]string{
		"as it is":      several,
		"carriage":      strings.ReplaceAll(several, "\n", "\r\n"),
		"blanks before": strings.ReplaceAll(several, "***", " \t***"),
		"blanks after":  strings.ReplaceAll(several, ".go\n", ".go \t\n"),
		"wrapped":       "<<'EOF'\n" + several + "EOF\n",
		"no blank":      strings.ReplaceAll(several, ": ", ":"),
		"not ended":     strings.TrimSuffix(several, "*** End Patch\n"),
		"twice":         several + several,
	} {
		require.Equal(t, all, must.Get(parsePatch(text))(t, name), name)
	}
	for _, text := range []string{"", "x", "*** Update File: a", beginPatch, beginPatch + "\n*** End Patch", beginPatch + "\n*** Update File:\n",
		beginPatch + "\n*** Update File: a\n*** Move to: \n", "*** update file: a", "diff --git a/a b/a"} {
		must.Fail(parsePatch(text))(t, refusal.Malformed, text)
	}
}

// inWork is where the shell of these tests runs.
var inWork = shell.Place{Dir: "/w"}

func TestParseShell(t *testing.T) {
	heredoc := "apply_patch <<'EOF'\n" + several + "EOF\n"
	for line, dirs := range map[string][]string{
		heredoc: {"/w"},
		"apply_patch <<EOF\n" + several + "EOF\n":                                     {"/w"},
		"applypatch <<-\"E\"\n" + strings.ReplaceAll(several, "***", "\t***") + "E\n": {"/w"},
		"cd sub && " + heredoc:                                          {"/w", "/w/sub"},
		"pushd sub && " + heredoc:                                       {"/w", "/w/sub"},
		"if cd -P sub; then " + heredoc + "fi":                          {"/w", "/w/sub"},
		"set -e; cd 'a b'; cd \"c\"\n(" + heredoc + ")":                 {"/w", "/w/a b", "/w/c", "/w/a b/c"},
		"cd a; (cd -- /d; " + heredoc + ")":                             {"/w", "/w/a", "/d"},
		"cd s'u'b && " + heredoc:                                        {"/w", "/w/sub"},
		"HOME=/h; cd; " + heredoc:                                       {"/w", "/h"},
		"d=sub; cd \"$d\" && " + heredoc:                                {"/w", "/w/sub"},
		"env -C sub " + heredoc:                                         {"/w", "/w/sub"},
		"sudo -u a " + heredoc:                                          {"/w"},
		"bash -c \"cd sub && apply_patch <<'EOF'\n" + several + "EOF\"": {"/w", "/w/sub"},
		"cd a && true; cd /b; bash <<'X'\n" + heredoc + "X\n":           {"/w", "/w/a", "/b"},
		"apply_patch '" + several + "'":                                 {"/w"},
		"/opt/codex --codex-run-as-apply-patch '" + several + "'":       {"/w"},
		"apply_patch \"$(cat <<'EOF'\n" + several + "EOF\n)\"":          {"/w"},
		"cat <<'EOF' | apply_patch\n" + several + "EOF\n":               {"/w"},
		"bash -lc \"apply_patch <<'EOF'\n" + several + "EOF\"":          {"/w"},
		"$APPLY " + strings.TrimPrefix(heredoc, "apply_patch "):         {"/w"},
		"cat <<'X' > y\nx\nX\napply_patch <<EOF\n" + several + "EOF\n":  {"/w"},
	} {
		want := []string{}
		for _, path := range []string{"src/new.go", "src/a.go", "docs/b.go"} {
			for _, dir := range dirs {
				want = append(want, dir+"/"+path)
			}
		}
		require.Equal(t, append(want, "/abs/c.go"), must.Get(parseShell(line, inWork))(t, line), line)
	}
	for _, line := range []string{"", "ls", "apply_patch --help", "which apply_patch", "grep -r '" + beginPatch + "' .", "cat > a <<'EOF'\n" + several + "EOF\n",
		"grep '" + beginPatch + "' x | grep apply_patch", "git commit -m \"apply_patch reads " + beginPatch + "\"", "echo '" + several + "'"} {
		require.Empty(t, must.Get(parseShell(line, inWork))(t, line), line)
	}
}

// A second patch stands in its own directory.
func TestParseShellOfSeveralPatches(t *testing.T) {
	one := func(path string) string {
		return "apply_patch <<'E'\n" + beginPatch + "\n*** Delete File: " + path + "\n*** End Patch\nE\n"
	}
	require.Equal(t, []string{"/w/x", "/w/y", "/w/a/y"}, must.Get(parseShell(one("x")+"cd a && "+one("y"), inWork))(t))
}

func TestParseShellThatItCannotTell(t *testing.T) {
	for _, line := range []string{
		"apply_patch <<EOF\n" + beginPatch + "\n*** Update File: $F\n*** End Patch\nEOF\n",
		"apply_patch <<EOF\n" + beginPatch + "\n*** Update File: `date`\n*** End Patch\nEOF\n",
		"cat <<'X' > y\nx\nX\napply_patch <<EOF\n" + beginPatch + "\n*** Update File: $F\n*** End Patch\nEOF\n",
		"cd $D && apply_patch <<'EOF'\n" + several + "EOF\n",
		"cd ~ && apply_patch <<'EOF'\n" + several + "EOF\n",
		"cd - && apply_patch <<'EOF'\n" + several + "EOF\n",
		"cat p | apply_patch", "apply_patch < p", "apply_patch \"$P\"",
		"apply_patch <<'EOF'\n" + several + "EOF\nif", "apply_patch <<'EOF'\n" + several,
		"apply_patch <<'EOF'\n" + beginPatch + "\n*** End Patch\nEOF\n",
		"apply_patch <<'EOF'\n" + several + "EOF\n" + strings.Repeat("#", 1<<20),
	} {
		must.Fail(parseShell(line, inWork))(t, refusal.Malformed, line[:min(len(line), 60)])
	}
	must.Fail(parseShell("apply_patch <<'EOF'\n"+several+"EOF\n", shell.Place{}))(t, refusal.Malformed, "the directory is not known")
	absolute := "cd \"$D\" && apply_patch <<'EOF'\n" + beginPatch + "\n*** Delete File: /a/b\n*** End Patch\nEOF\n"
	require.Equal(t, []string{"/a/b"}, must.Get(parseShell(absolute, inWork))(t), "it needs no directory")
	quoted := must.Get(parseShell("apply_patch <<'EOF'\n"+beginPatch+"\n*** Update File: app/$id.tsx\nEOF\n", inWork))(t)
	require.Equal(t, []string{"/w/app/$id.tsx"}, quoted, "the shell expands nothing there")
	printed := must.Get(parseShell(`printf '`+beginPatch+`\n*** Update File: a\n*** End Patch\n' | apply_patch`, inWork))(t)
	require.Equal(t, []string{"/w/a"}, printed)
}

// FuzzPatch: a patch that is read names files, each once, and each of them is
// a line of it. A shell's line with it names the same.
func FuzzPatch(f *testing.F) {
	f.Add(several)
	f.Add(beginPatch + "\n *** Move to:\ta\u00a0\n")
	f.Add("cd a && apply_patch <<'E'\n" + several + "E")
	f.Fuzz(func(t *testing.T, text string) {
		paths, err := parsePatch(text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
		}
		for i, p := range paths {
			require.NotEmpty(t, p)
			require.Contains(t, text, p)
			require.NotContains(t, paths[:i], p)
		}
		const ends = "the end of the text"
		if strings.ContainsAny(text, "\x00\r") || strings.Contains(text, ends) || !utf8.ValidString(text) {
			return // a shell reads another text
		}
		line, err := parseShell("apply_patch <<'"+ends+"'\n"+text+"\n"+ends+"\n", inWork)
		if err != nil {
			require.True(t, errors.Is(err, refusal.Malformed) || errors.Is(err, refusal.OverLimit), err)
			return
		}
		require.Len(t, line, len(paths))
	})
}
