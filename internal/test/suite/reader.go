package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action      string `json:"Action"` // start, run, pause, cont, output, pass, fail, skip, build-output, build-fail
	Package     string `json:"Package"`
	ImportPath  string `json:"ImportPath"` // of build-output
	Test        string `json:"Test"`
	Output      string `json:"Output"`
	FailedBuild string `json:"FailedBuild"`
}

// failure is a test that failed, or a package that failed without one.
type failure struct {
	pkg      string
	test     string // empty for a package
	said     string
	crashed  bool // a race, a panic or a time-out somewhere in the package, or it was stuck
	unsteady bool // it passed each time alone
}

func (f failure) name() string { return strings.TrimSpace(f.pkg + " " + f.test) }

// reader counts what go test -json writes to it.
type reader struct {
	log, progress io.Writer
	plain         bool                                 // all that tests say is progress
	patience      time.Duration                        // how long nothing may happen in a package; 0 is for ever
	signal        func(pkg string, sig syscall.Signal) // to the package's test binary

	mu      sync.Mutex // for all below
	partial []byte     // a line that has not ended

	passed, inapplicable int
	skipped              []failure
	failures             []failure

	passes  map[string]int           // by failure.name
	began   map[string]bool          // packages that have not ended
	running map[[2]string]bool       // tests that have not ended; false for one that waits for its turn
	timers  map[string]*time.Timer   // by package that has not ended
	stuck   map[string]string        // by package, which tests ran when it was
	broken  string                   // a line of go's own that says that something failed
	logged  map[string]*bytes.Buffer // by package that has not ended: the log has one package after the other
	said    map[[2]string]*tail      // of tests and packages that have not ended, and of builds
	crashed map[string]bool
}

func newReader(log, progress io.Writer, patience time.Duration) *reader {
	return &reader{log: log, progress: progress, patience: patience, timers: map[string]*time.Timer{}, stuck: map[string]string{}, passes: map[string]int{}, began: map[string]bool{}, running: map[[2]string]bool{}, logged: map[string]*bytes.Buffer{}, said: map[[2]string]*tail{}, crashed: map[string]bool{}}
}

// Write takes the next bytes of go test's output.
func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = append(r.partial, p...)
	for {
		line, rest, ended := bytes.Cut(r.partial, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		r.line(line)
		r.partial = rest
	}
}

// end is called after the last byte.
func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.partial) > 0 {
		r.line(r.partial)
		r.partial = nil
	}
	for pkg := range r.logged {
		r.flush(pkg)
	}
	for pkg := range r.timers {
		r.rests(pkg)
	}
}

// unexplained says why go test ended as it did, if no failure says that: it was killed, or it stopped at something that is no test.
// Then packages are missing, and what passed says little.
func (r *reader) unexplained(ended error) string {
	var exit *exec.ExitError
	switch {
	case ended == nil && len(r.began) == 0:
		return ""
	case len(r.began) > 0:
		return fmt.Sprintf("these packages did not end: %v (%v)", slices.Sorted(maps.Keys(r.began)), ended)
	case !errors.As(ended, &exit) || exit.ExitCode() != 1 || len(r.failures) == 0 || r.broken != "":
		return strings.TrimSpace(fmt.Sprintf("%v %s", ended, r.broken))
	}
	return ""
}

// flush writes what a package said into the log.
func (r *reader) flush(pkg string) {
	if b := r.logged[pkg]; b != nil {
		r.log.Write(b.Bytes())
		delete(r.logged, pkg)
	}
}

// line reads one line. What is no event is go's own word, as of a package that is not there.
func (r *reader) line(line []byte) {
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.log, "%s\n", line)
		fmt.Fprintf(r.progress, "%s\n", line)
		if bytes.HasPrefix(line, []byte("FAIL")) {
			r.broken = string(line)
		}
		return
	}
	switch e.Action {
	case "start":
		r.began[e.Package] = true
		r.stirs(e.Package)
	case "run", "pause", "cont":
		r.running[[2]string{e.Package, e.Test}] = e.Action != "pause"
		r.stirs(e.Package)
	case "output", "build-output":
		r.output(e)
	case "pass", "fail", "skip":
		r.ended(e)
	}
}

// died finds that a test binary was killed, or exited by itself: go says 1 for tests that failed.
var died = regexp.MustCompile(`(?m)^(signal: |exit status ([02-9]|\d\d))`)

// crash finds what no second look excuses, also where a test says what a program said that it started. A text of a test that looks so
// costs a second look.
var crash = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: |SIG[A-Z]+: |race detected during execution of test|test timed out`)

func (r *reader) output(e event) {
	pkg := e.Package
	if e.Action == "build-output" {
		pkg = e.ImportPath
	}
	if r.logged[pkg] == nil {
		r.logged[pkg] = &bytes.Buffer{}
	}
	r.logged[pkg].WriteString(e.Output)
	key := [2]string{pkg, e.Test}
	if r.said[key] == nil {
		r.said[key] = &tail{}
	}
	r.said[key].add(e.Output)
	if crash.MatchString(e.Output) {
		r.crashed[e.Package] = true
	}
	if r.plain || strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t") || strings.HasPrefix(e.Output, "matrix: ") {
		io.WriteString(r.progress, e.Output)
	}
}

// inapplicable finds that a case of a suite is about what a back end does not have, in the reason of the skip, which is said last.
var inapplicable = regexp.MustCompile(`(?m)^ *[\w.-]+\.go:\d+: does not apply: .*\n(?: *--- SKIP: .*\n)?\z`)

func (r *reader) ended(e event) {
	key := [2]string{e.Package, e.Test}
	said := r.said[key].String()
	delete(r.said, key)
	delete(r.running, key)
	r.stirs(e.Package)
	switch {
	case e.Test == "":
		r.rests(e.Package)
		delete(r.began, e.Package)
		r.flush(e.Package)
		r.packageEnded(e, said)
	case e.Action == "pass":
		r.passed++
		r.passes[failure{pkg: e.Package, test: e.Test}.name()]++
	case e.Action == "skip" && inapplicable.MatchString(said):
		r.inapplicable++ // a case of a suite that is about what a back end does not have
	case e.Action == "skip":
		r.skipped = append(r.skipped, failure{pkg: e.Package, test: e.Test, said: said})
	default:
		r.testFailed(e, said)
	}
}

// testFailed keeps a test that failed. A test whose subtest failed may have failed because of that, so it is no failure of its own,
// and what it said stands with the subtest's.
func (r *reader) testFailed(e event, said string) {
	for i, f := range r.failures {
		if f.pkg == e.Package && strings.HasPrefix(f.test, e.Test+"/") {
			r.failures[i].said += said
			return
		}
	}
	r.failures = append(r.failures, failure{pkg: e.Package, test: e.Test, said: said})
}

// packageEnded marks the failures of a package that crashed. A package that failed without a test is a failure itself:
// it was not built, it exited, or a test in it never ended.
func (r *reader) packageEnded(e event, said string) {
	stuck := r.stuck[e.Package]
	crashed := r.crashed[e.Package] || stuck != ""
	failed := false // by a test
	for i := range r.failures {
		if r.failures[i].pkg == e.Package {
			r.failures[i].crashed, failed = crashed, true
		}
	}
	var unended strings.Builder
	for key, t := range r.said {
		if key[0] == e.Package {
			unended.WriteString(t.String())
			delete(r.said, key)
		}
	}
	cut := died.MatchString(said)
	for key := range r.running {
		if key[0] == e.Package {
			cut = true // it never ended, and what came after it never began
			delete(r.running, key)
		}
	}
	if e.Action != "fail" || failed && !cut {
		return
	}
	if t := r.said[[2]string{e.FailedBuild, ""}]; t != nil {
		said = t.String() + said
	}
	r.failures = append(r.failures, failure{pkg: e.Package, said: stuck + unended.String() + said, crashed: crashed})
}

// tail keeps the begin and the end of a text.
type tail struct {
	begin, end []byte
	left       bool
}

// keep is how many bytes of each end of a text are kept.
const keep = 20000

func (t *tail) add(s string) {
	room := min(len(s), keep-len(t.begin))
	t.begin, s = append(t.begin, s[:room]...), s[room:]
	t.end = append(t.end, s...)
	if over := len(t.end) - keep; over > 0 {
		t.end, t.left = t.end[over:], true
	}
}

func (t *tail) String() string {
	switch {
	case t == nil:
		return ""
	case t.left:
		return string(t.begin) + "\n[…]\n" + string(t.end)
	}
	return string(t.begin) + string(t.end)
}
