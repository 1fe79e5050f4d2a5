package evidencereader

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// interpreter is where Python is. To find it anew for each case takes long where python3 is a script that looks for it.
var interpreter = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// Python returns the path of Python.
func Python(t testing.TB) string {
	t.Helper()
	path, err := interpreter()
	require.NoError(t, err)
	return path
}

// Verify runs scripts/verify-evidence.py over a text in a directory with nothing else, and returns its exit code and its words.
// Read reads the text too and has to agree, unless the script found that nothing can be verified. A test of a package three
// directories below the module's may call it.
func Verify(t testing.TB, text string, args ...string) (code int, words string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "evidence"), []byte(text), 0o600))
	script, err := filepath.Abs("../../../scripts/verify-evidence.py")
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), Python(t), append(append([]string{script}, args...), "evidence")...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	code, words = c.ProcessState.ExitCode(), string(out)
	if code != 2 {
		agrees(t, text, ownOf(t, args), code, words)
	}
	return code, words
}

func agrees(t testing.TB, text string, own Own, code int, words string) {
	t.Helper()
	got, err := Read(text, own)
	if code != 0 {
		require.Error(t, err, "the reader in Go accepts what the script refuses: %s", words)
		return
	}
	require.NoError(t, err, "the reader in Go refuses what the script accepts: %s", words)
	require.Equal(t, Said(words), got)
}

// ownOf returns what the flags of the script give to a reader.
func ownOf(t testing.TB, args []string) (own Own) {
	t.Helper()
	for i, a := range args {
		switch a {
		case "--gate-key":
			own.GateKey = args[i+1]
		case "--witness":
			text, err := os.ReadFile(args[i+1])
			require.NoError(t, err)
			own.Witness += string(text)
		}
	}
	return own
}

// WitnessFile writes a reader's own heads, and returns the flag of the script that names them.
func WitnessFile(t testing.TB, lines string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "heads.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	return []string{"--witness", path}
}

// Said returns what the script said of the lines of one file that it accepted.
func Said(words string) (out []Result) {
	for line := range strings.Lines(words) {
		if head, verified := strings.CutSuffix(line, ": verified\n"); verified {
			_, step, _ := strings.Cut(head, " ")
			out = append(out, Result{Step: step})
		} else if len(out) > 0 {
			out[len(out)-1].End = strings.Fields(line)[0] // the last line of each says it
		}
	}
	return out
}
