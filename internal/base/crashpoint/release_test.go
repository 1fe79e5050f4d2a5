package crashpoint_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/crashpoint"
	"gated/internal/test/must"
	"gated/internal/test/programs"
)

// variable is what a program with the tag reads.
const variable = "GATED_CRASH_AT"

// TestAReleaseHasNone builds both programs as a release has them, without the tag, and looks for
// the variable and for every point's name; a program with the tag has them.
func TestAReleaseHasNone(t *testing.T) {
	dir := t.TempDir()
	build := func(name string, args ...string) map[string][]byte {
		to := filepath.Join(dir, name) + string(filepath.Separator)
		require.NoError(t, os.Mkdir(to, 0o700))
		require.NoError(t, programs.Build(to, append(args, "gated/cmd/gated", "gated/cmd/opsign")...))
		read := map[string][]byte{}
		for _, program := range []string{"gated", "opsign"} {
			b := must.Get(os.ReadFile(to + program))(t)
			read[program] = b
		}
		return read
	}
	for program, b := range build("release") {
		require.False(t, bytes.Contains(b, []byte(variable)), "%s has the variable", program)
		for _, row := range crashpoint.Table() {
			require.False(t, bytes.Contains(b, []byte(row.Name)), "%s has %s", program, row.Name)
			require.False(t, bytes.Contains(b, []byte(row.Doc)), "%s has %q", program, row.Doc)
		}
	}
	with := build("tagged", "-tags", "crashpoints")["gated"]
	require.True(t, bytes.Contains(with, []byte(variable)))
	for _, row := range crashpoint.Table() {
		require.True(t, bytes.Contains(with, []byte(row.Name)), "the control lacks %s", row.Name)
	}
}

// TestEveryPointHasItsRow: a row without a name would name no moment, and two of
// one name two.
func TestEveryPointHasItsRow(t *testing.T) {
	form, seen := regexp.MustCompile(`^[a-z]+(-[a-z]+)*\.[a-z]+(-[a-z]+)*$`), map[string]bool{}
	for i, row := range crashpoint.Table() {
		require.Regexp(t, form, row.Name, "point %d", i)
		require.NotEmpty(t, row.Doc, row.Name)
		require.False(t, seen[row.Name], row.Name)
		seen[row.Name] = true
	}
}
