// Package programs gives tests gated and opsign. make test builds them once, before a test's time runs, and hands them over.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// handed names the directory of what was built before: plain/NAME, and crashpoints/NAME with that tag.
const handed = "GATED_TEST_PROGRAMS"

// HandedOver returns the directory of what was built before the tests, or "". Tests may keep there what they need again.
func HandedOver() string { return os.Getenv(handed) }

// Into puts programs of cmd/ into a directory, which it makes. Where none were handed over it builds them.
func Into(dir string, names ...string) error { return into(dir, "plain", names) }

// WithCrashPoints is Into, for programs with the tag of package crashpoint.
func WithCrashPoints(dir string, names ...string) error { return into(dir, "crashpoints", names) }

func into(dir, form string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Another program writes the files, because a child that this one starts meanwhile would keep them open for writing, and
	// what is open for writing cannot be run.
	program, args := "go", []string{"build", "-trimpath", "-buildvcs=false", "-o", dir + string(filepath.Separator)}
	if form != "plain" {
		args = append(args, "-tags", form)
	}
	from := HandedOver()
	if from != "" {
		program, args = "cp", []string{"-t", dir, "--"}
	}
	for _, name := range names {
		if from != "" {
			args = append(args, filepath.Join(from, form, name))
		} else {
			args = append(args, "gated/cmd/"+name)
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, args, err, out)
	}
	return nil
}
