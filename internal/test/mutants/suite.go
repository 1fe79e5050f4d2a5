package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suite is the test program of a package, with every mutant in it.
type suite struct {
	pkg     string // ./internal/gate
	dir     string
	program string
	flags   []string
	tests   []*test
	atStart map[int]bool // switches that the start of the program reaches, before any test
}

// test is a test of a suite, as it went without a mutant.
type test struct {
	name    string
	took    time.Duration
	reached map[int]bool
}

// compile builds the test programs of packages.
func compile(root, overlay, dir string, tested []string) ([]*suite, error) {
	args := append([]string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", dir + "/"}, tested...)
	var suites []*suite
	for _, pkg := range tested {
		suites = append(suites, &suite{pkg: pkg, dir: filepath.Join(root, pkg), program: filepath.Join(dir, filepath.Base(pkg)+".test")})
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return suites, nil
}

// open lists the tests of a suite. Generated tests get the same seed each time, so that a mutant has one verdict.
func (s *suite) open() ([]string, error) {
	usage, _ := s.run("", "", time.Minute, "-help")
	if strings.Contains(usage, "-rapid.seed") {
		s.flags = []string{"-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms"}
	}
	out, err := s.run("", "", time.Minute, "-test.list=^(Test|Example|Fuzz)")
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", s.pkg, err, out)
	}
	names := slices.DeleteFunc(strings.Fields(out), func(n string) bool { return !regexp.MustCompile(`^(Test|Example|Fuzz)`).MatchString(n) })
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no tests", s.pkg)
	}
	return names, nil
}

// try runs one test without a mutant, and notes which switches it reaches. No name at all is the start alone.
func (s *suite) try(name, scratch string) (*test, error) {
	f, err := os.CreateTemp(scratch, "reached")
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	began := time.Now()
	out, err := s.run("", f.Name(), 5*time.Minute, append(slices.Clone(s.flags), "-test.run=^"+name+"$")...)
	if err != nil {
		return nil, fmt.Errorf("%s fails without a mutant in %s: %w\n%s", name, s.pkg, err, out)
	}
	t := &test{name: name, took: time.Since(began), reached: map[int]bool{}}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return nil, err
	}
	for n := range strings.FieldsSeq(string(b)) {
		number, err := strconv.Atoi(n)
		if err != nil {
			return nil, err
		}
		t.reached[number] = true
	}
	return t, os.Remove(f.Name())
}

// kills runs the tests that reach a mutant, the fast ones first, and returns which run failed; "" if all pass.
func (s *suite) kills(n int, own bool) string {
	var reaching []*test
	for _, t := range s.tests {
		if t.reached[n] && (own || !s.atStart[n]) {
			reaching = append(reaching, t)
		}
	}
	slices.SortStableFunc(reaching, func(a, b *test) int { return int(a.took - b.took) })
	// Each run is longer than the one before it, because most mutants need no slow test.
	for limit := time.Second / 2; len(reaching) > 0; limit *= 2 {
		var names []string
		var took time.Duration
		for len(reaching) > 0 && (len(names) == 0 || took+reaching[0].took < limit) {
			names, took, reaching = append(names, reaching[0].name), took+reaching[0].took, reaching[1:]
		}
		run := "-test.run=^(" + strings.Join(names, "|") + ")$"
		out, err := s.run(strconv.Itoa(n), "", 10*time.Second+5*took, append(slices.Clone(s.flags), "-test.failfast", run)...)
		if errors.Is(err, context.DeadlineExceeded) {
			return "too slow: " + strings.Join(names, " ")
		}
		if failed := failure.FindStringSubmatch(out); failed != nil {
			return failed[1]
		}
		if err != nil {
			return "the program ended: " + strings.Join(names, " ")
		}
	}
	return ""
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// addressSpace bounds the memory of a test program, in KiB: a mutant may collect for ever.
const addressSpace = 16 << 20

// run runs the test program with one mutant, at most so long, and ends what it started.
func (s *suite) run(mutant, reached string, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$@"`, addressSpace), "sh", s.program, "-test.parallel=1"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), chosenEnv+"="+mutant, reachedEnv+"="+reached)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), err
}
