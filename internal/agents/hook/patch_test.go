package hook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

func TestParseShell(t *testing.T) {
	all := []string{"src/new.go", "src/a.go", "docs/b.go", "/abs/c.go"}
	for line, dirs := range map[string][]string{
		"apply_patch <<'EOF'\n" + several + "EOF\n":                                         nil,
		"apply_patch <<EOF\n" + several + "EOF\n":                                           nil,
		"applypatch <<-\"E\"\n" + strings.ReplaceAll(several, "***", "\t***") + "E\n":       nil,
		"cd sub && apply_patch <<'EOF'\n" + several + "EOF\n":                               {"sub"},
		"pushd sub && apply_patch <<'EOF'\n" + several + "EOF\n":                            {"sub"},
		"if cd -P sub; then apply_patch <<'EOF'\n" + several + "EOF\nfi":                    {"sub"},
		"set -e; cd 'a b'; cd \"c\"\n(cd -- /d; apply_patch <<'EOF'\n" + several + "EOF\n)": {"a b", "c", "/d"},
		"apply_patch '" + several + "'":                                                     nil,
		"apply_patch \"$(cat <<'EOF'\n" + several + "EOF\n)\"":                              nil,
		"cat <<'EOF' | apply_patch\n" + several + "EOF\n":                                   nil,
		"bash -lc \"apply_patch <<'EOF'\n" + several + "EOF\"":                              nil,
	} {
		got := must.Get(parseShell(line))(t, line)
		require.Equal(t, shellPatch{all, dirs}, got, line)
	}
	for _, line := range []string{"", "ls", "apply_patch --help", "grep -r '" + beginPatch + "' .", "cat > a <<'EOF'\n" + several + "EOF\n"} {
		require.Equal(t, shellPatch{}, must.Get(parseShell(line))(t, line), line)
	}
	for _, line := range []string{
		"apply_patch <<EOF\n" + beginPatch + "\n*** Update File: $F\n*** End Patch\nEOF\n",
		"apply_patch <<EOF\n" + beginPatch + "\n*** Update File: `echo a`\n*** End Patch\nEOF\n",
		"cd $D && apply_patch <<'EOF'\n" + several + "EOF\n",
		"cd ~ && apply_patch <<'EOF'\n" + several + "EOF\n",
		"cd - && apply_patch <<'EOF'\n" + several + "EOF\n",
		`printf '` + beginPatch + `\n*** Update File: a\n*** End Patch\n' | apply_patch`,
	} {
		must.Fail(parseShell(line))(t, refusal.Malformed, line)
	}
	quoted := must.Get(parseShell("apply_patch <<'EOF'\n" + beginPatch + "\n*** Update File: app/$id.tsx\nEOF\n"))(t)
	require.Equal(t, []string{"app/$id.tsx"}, quoted.paths, "the shell expands nothing there")
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
			require.Empty(t, paths)
		}
		for i, p := range paths {
			require.NotEmpty(t, p)
			require.Contains(t, text, p)
			require.NotContains(t, paths[:i], p)
		}
		line, err := parseShell("apply_patch <<'E'\n" + text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			require.Empty(t, line)
			return
		}
		require.Len(t, line.paths, len(paths))
	})
}
