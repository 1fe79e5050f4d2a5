package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dying is how long a package that is stuck has to write its stacks.
const dying = time.Minute

// stirs is told that a package began, or that a test of it began, went on or ended. A limit for a whole package would be one that
// all its tests share, and a busy machine breaks that. So a package is stuck only if none of this happens for so long.
func (r *reader) stirs(pkg string) {
	switch timer := r.timers[pkg]; {
	case r.patience == 0 || r.stuck[pkg] != "":
	case timer != nil:
		timer.Reset(r.patience)
	default:
		r.timers[pkg] = time.AfterFunc(r.patience, func() { r.quiet(pkg) })
	}
}

// rests is told that a package ended.
func (r *reader) rests(pkg string) {
	if timer := r.timers[pkg]; timer != nil {
		timer.Stop()
		delete(r.timers, pkg)
	}
}

// quiet ends a package in which nothing happens: first with SIGQUIT, so that it says where each goroutine is.
func (r *reader) quiet(pkg string) {
	r.mu.Lock()
	if !r.began[pkg] || r.timers[pkg] == nil {
		r.mu.Unlock()
		return
	}
	sig := syscall.SIGKILL
	if r.stuck[pkg] == "" {
		sig = syscall.SIGQUIT
		r.stuck[pkg] = fmt.Sprintf("stuck: no test began or ended for %v, and these ran: %s; their stacks are in the log\n", r.patience, strings.Join(r.hanging(pkg), ", "))
		fmt.Fprintf(r.progress, "%s is %s", pkg, r.stuck[pkg])
	}
	r.timers[pkg].Reset(dying)
	r.mu.Unlock()
	r.signal(pkg, sig)
}

// hanging are the tests of a package that run, and not those that wait for their parts or for their turn.
func (r *reader) hanging(pkg string) (names []string) {
	for key, runs := range r.running {
		part := func(other [2]string) bool {
			return other[0] == pkg && r.running[other] && strings.HasPrefix(other[1], key[1]+"/")
		}
		if key[0] == pkg && runs && !slices.ContainsFunc(slices.Collect(maps.Keys(r.running)), part) {
			names = append(names, key[1])
		}
	}
	slices.Sort(names)
	return names
}

// signalTests sends a signal to the test binary of a package, which go test runs in the package's directory. It needs /proc;
// elsewhere go test's own -timeout is left.
func signalTests(goTest int, pkg string, sig syscall.Signal) {
	dir, err := exec.Command("go", "list", "-find", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return
	}
	in := "PWD=" + string(bytes.TrimSpace(dir)) // the test may have gone elsewhere since
	parent := fmt.Sprintf("\nPPid:\t%d\n", goTest)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, at := range processes {
		env, _ := os.ReadFile(filepath.Join(at, "environ"))
		status, _ := os.ReadFile(filepath.Join(at, "status"))
		pid, err := strconv.Atoi(filepath.Base(at))
		if err == nil && strings.Contains(string(status), parent) && slices.Contains(strings.Split(string(env), "\x00"), in) {
			_ = syscall.Kill(pid, sig)
		}
	}
}
