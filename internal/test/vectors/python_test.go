package vectors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/evidencereader"
	"gated/internal/test/must"
)

// second runs the second reader, and returns its exit code and its words.
func second(t *testing.T, files ...string) (int, string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), evidencereader.Python(t), append([]string{filepath.Join(dir, "..", "verify.py")}, files...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestTheSecondReader has the reader in Python read each case, and demands that it reads it as the product does.
func TestTheSecondReader(t *testing.T) {
	count := 0
	for _, n := range Names(t) {
		count += len(Read(t, n).Cases)
	}
	code, words := second(t)
	require.Equal(t, 0, code, words)
	require.Equal(t, fmt.Sprintf("%d cases read, 0 differ\n", count), words)
}

// TestTheSecondReaderFindsFlippedOutcomes: a case that expects the opposite is found there too.
func TestTheSecondReaderFindsFlippedOutcomes(t *testing.T) {
	where, count := t.TempDir(), 0
	var files []string
	for _, n := range Names(t) {
		f := flipped(t, n)
		files, count = append(files, filepath.Join(where, n+".json")), count+len(f.Cases)
		require.NoError(t, os.WriteFile(files[len(files)-1], must.Get(json.Marshal(f))(t), 0o600))
	}
	code, words := second(t, files...)
	require.Equal(t, 1, code, words)
	require.True(t, strings.HasSuffix(words, fmt.Sprintf("\n%d cases read, %d differ\n", count, count)), words)
}
