package client_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// The program of docs/guides/client.md is of another module, and is built with nothing but the lines of that page.
func TestAnotherModuleImportsIt(t *testing.T) {
	page := string(must.Get(os.ReadFile("../docs/guides/client.md"))(t))
	_, program, found := strings.Cut(page, "```go\n")
	require.True(t, found)
	program, _, found = strings.Cut(program, "```\n")
	require.True(t, found)
	const lines = "    require gated v0.0.0\n    replace gated => ../gated\n"
	require.Contains(t, page, lines)
	dir := filepath.Join(t.TempDir(), "mine")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Symlink(must.Get(filepath.Abs(".."))(t), filepath.Join(dir, "../gated")))
	for name, content := range map[string]string{
		"main.go": program,
		"go.mod":  "module example.org/mine\n\ngo 1.26\n\n" + strings.ReplaceAll(lines, "    ", ""),
		"go.sum":  string(must.Get(os.ReadFile("../go.sum"))(t)),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	build := exec.Command("go", "build", "-trimpath", "-o", "mine", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	run := exec.Command(filepath.Join(dir, "mine"))
	run.Env = []string{"GATED_SOCKET=" + filepath.Join(dir, "none.sock")}
	out, err = run.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Equal(t, api.ExitUnreachable, exit.ExitCode())
	require.Contains(t, string(out), "the daemon cannot be reached")
}
