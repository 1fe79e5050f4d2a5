package harness_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

var (
	products = flag.Bool("products", false, "install the products, and run each of them")
	write    = flag.Bool("write", false, "write the table of the guide instead of comparing it")
	verbose  = flag.Bool("talk", false, "log what each product said to its model")
)

// The environment of the process in the namespace.
const (
	installedIn = "HARNESS_PRODUCTS" // the directory with node_modules
	gatedIn     = "HARNESS_GATED"    // the program gated
)

// TestMain runs the tests. With -products, it installs the products, and runs the tests in a process that has a network
// namespace of its own.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*products || os.Getenv(installedIn) != "" {
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// outside does what needs a network, and then runs this program again without one. It returns that program's exit code.
func outside() (int, error) {
	dir, err := install()
	if errors.Is(err, errNoRegistry) {
		fmt.Println("harness: the products were not run:", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	bin, err := os.MkdirTemp("/tmp", "gh") // short, and where the tests link the program
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(bin) }() // the tests are over
	gated := filepath.Join(bin, "gated")
	build := exec.Command("go", "build", "-o", gated, "gated/cmd/gated")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build gated: %w\n%s", err, out)
	}
	inside := exec.Command("/proc/self/exe", os.Args[1:]...)
	inside.Env = append(os.Environ(), installedIn+"="+dir, gatedIn+"="+gated)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = loopbackAlone()
	err = inside.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	if errors.Is(err, syscall.EPERM) {
		return 0, fmt.Errorf("this user may not make a network namespace, and without one no product runs: %w", err)
	}
	return 0, err
}
