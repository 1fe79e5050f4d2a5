package harness_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"gated/internal/test/programs"
)

var (
	products = flag.Bool("products", false, "install the products, and run each of them")
	write    = flag.Bool("write", false, "write the table of the guide instead of comparing it")
	verbose  = flag.Bool("talk", false, "log what each product said to its model")
)

// The environment of the process in the namespace.
const (
	installedIn = "HARNESS_PRODUCTS" // the directory with node_modules
	builtIn     = "HARNESS_PROGRAMS" // the directory of this run, with gated, opsign and every world
)

// TestMain runs the tests. With -products, it installs the products, and runs the tests in a process that has a network
// namespace of its own.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := start(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err) // .ci/run looks for "harness: not run: "
		code = 1
	}
	os.Exit(code)
}

// start runs the tests here, or in a process of their own. It returns an exit code.
func start(m *testing.M) (int, error) {
	switch {
	case !*products:
		return m.Run(), nil
	case os.Getenv(installedIn) == "":
		return outside()
	}
	if err := raiseLoopback(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// outside does what needs a network, and then runs this program again without one. It returns that program's exit code.
func outside() (int, error) {
	dir, err := install()
	if err != nil {
		return 0, err
	}
	bin, err := runDir()
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(bin) }() // the tests are over
	if err := programs.Build(bin+"/", "gated/cmd/gated", "gated/cmd/opsign"); err != nil {
		return 0, err
	}
	inside := exec.Command("/proc/self/exe", os.Args[1:]...)
	inside.Env = append(os.Environ(), installedIn+"="+dir, builtIn+"="+bin)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = loopbackAlone()
	err = inside.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		return 0, fmt.Errorf("this user may not make a network namespace, and without one no product runs. Run make harness "+
			"as root, or allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "+
			"kernel.apparmor_restrict_unprivileged_userns): %w", err)
	}
	return 0, err
}

// maxRunDir is the most bytes of the name of a run's directory: a socket three levels below it has to fit into
// sun_path's 108 bytes (unix(7)).
const maxRunDir = 108 - len("/w0123456789/repo/a-socket-of-a-product\x00")

// runDir makes the directory of one run, below the user's cache. It is not below /tmp: with a home there, Codex offers
// its shell no program apply_patch.
func runDir() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(cache, "r")
	if err == nil && len(dir) > maxRunDir {
		_ = os.Remove(dir) // it is empty
		err = fmt.Errorf("%s is too long for a run's sockets: set XDG_CACHE_HOME to a shorter directory", cache)
	}
	return dir, err
}
