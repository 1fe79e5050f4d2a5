// Package programs builds gated and opsign for tests, as make build does: what that compiled is not compiled once more.
package programs

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds commands of this module into a directory, whose name ends with a slash, or into a file. args are packages, and
// flags of go build before them.
func Build(into string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", into}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", args, err, out)
	}
	return nil
}
