package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// alone is an apt-get that fails if another one runs.
const alone = `#!/bin/sh
mkdir "$0.lock" || exit 100
sleep 0.2
rmdir "$0.lock"
`

// TestTwoRunsInstall: of two that begin at once, one waits for the other.
func TestTwoRunsInstall(t *testing.T) {
	if _, err := os.Stat("/var/lib/apt/lists"); err != nil {
		t.Skip("needs Debian")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"apt-get": alone, "id": "#!/bin/sh\necho 0\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	for _, name := range []string{"bash", "sh", "flock", "sleep", "mkdir", "rmdir"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	ended := make(chan error)
	for range 2 {
		go func() {
			cmd := exec.Command(filepath.Join(dir, "bash"), "../../../scripts/needs.sh", "install")
			cmd.Env = []string{"PATH=" + dir}
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			ended <- err
		}()
	}
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}
