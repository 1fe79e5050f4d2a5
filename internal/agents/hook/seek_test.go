package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestAFileThatGeminiLooksFor: the hook asks about each file that Gemini CLI could find for a path that is not there, and
// about the path itself.
func TestAFileThatGeminiLooksFor(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"src/deep/a.go", "other/a.go", "xsrc/deep/b.go", "here.go", ".git/a.go"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), nil, 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "src"), filepath.Join(dir, "link")))
	for path, want := range map[string][]string{
		"a.go":           {"a.go", "other/a.go", "src/deep/a.go"},
		"deep/a.go":      {"deep/a.go", "src/deep/a.go"},
		"src/deep/b.go":  {"src/deep/b.go", "xsrc/deep/b.go"}, // Gemini CLI compares ends of texts
		"here.go":        {"here.go"},
		"none.go":        {"none.go"},
		"../a.go":        {"../a.go"},
		"@deep/a.go":     {"@deep/a.go", "deep/a.go", "src/deep/a.go"},
		"de\x00ep/a.go":  {"deep/a.go", "src/deep/a.go"},
		dir + "/none.go": {"/none.go"},
	} {
		c := rawCall{tools: []string{"replace"}, dirs: []string{dir}, input: map[string][]string{"file_path": {path}}}
		var out []string
		for _, p := range must.Get(Gemini{}.form().paths(c))(t) {
			out = append(out, p[len(dir)+1:])
		}
		if path == dir+"/none.go" {
			want = []string{"none.go"}
		}
		require.Equal(t, want, out, path)
		c.tools = []string{"write_file"}
		require.LessOrEqual(t, len(must.Get(Gemini{}.form().paths(c))(t)), 2, "only replace looks for files")
	}
}

// TestAFileInTooManyDirectories is not looked for in all of them, and the call is not checked then.
func TestAFileInTooManyDirectories(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSought - 1 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755))
	}
	require.Empty(t, must.Get(seek(dir, "a.go"))(t))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "more"), 0o755))
	must.Fail(seek(dir, "a.go"))(t, refusal.OverLimit)
}
