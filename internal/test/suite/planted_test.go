package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// plant is one fault: a text of a file, what is in its place, and the tests that have to fail with it. They are tests
// of make test or, if the race detector has to find the fault, of make test-race. Paths are below internal.
type plant struct {
	name, file, was, is string
	pkg, tests          string
	race                bool
}

var plants = []plant{
	{"a nonce is not spent", "gate/count.go", `if err := nonce.Spend(tx, r.Nonce, nonce.Fate(t.Nonce)); err != nil {`,
		`if err := error(nil); nonce.Fate(t.Nonce) == nonce.Unspent {`,
		"gate", "TestApprovalCountsOnce|TestStoreFailure", false},
	{"a nonce is spent twice", "nonce/nonce.go", `UPDATE nonces SET fate = ? WHERE nonce = ? AND fate = ''`,
		`UPDATE nonces SET fate = ? WHERE nonce = ?`, "nonce", "TestIssueSpendLookup|TestConcurrentSpendHasOneWinner", false},
	{"a namespace is not looked at", "authz/verify.go", `u, ok := useOf(s.namespace, over.batch != nil)`,
		`u, ok := use{op.Operational, over.batch != nil}, true`, "authz", "TestRoleIsTheNamespace", false},
	{"a permit is used twice", "gate/permit.go", `if p.core.used.Swap(true) {`, `if p.core.used.Swap(false) {`,
		"gate", "TestCancelledCaller", false},
	{"a row does not travel to the ledger", "base/store/capture.go", `if k.err != nil {`,
		`if k.err != nil || d.Op == sqlite3.SQLITE_UPDATE {`, "base/store", "TestEveryKindOfChangeIsReplayed", false},
	{"two goroutines set the clock at once", "nonce/clock.go",
		"\tc.mu.Lock()\n\tdefer c.mu.Unlock()\n\tr := c.read()\n\twhy := c.doubt(r)\n\tif",
		"\tr := c.read()\n\twhy := c.doubt(r)\n\tif",
		"gate", "TestApprovalCountsOnce", true},
	{"another incarnation is accepted", "gate/approve.go", `case o.Incarnation != s.Incarnation:`, `case false:`,
		"gate", "TestRemadeTargetIsStaleAtApproval|TestRemadeTargetIsStaleAtExecution", false},
	{"a revoked key is accepted", "authz/revoked.go", `case t.revoked.holds(key):`, `case false:`,
		"authz", "TestRevokedKeys", false},
	{"an expired request is accepted", "authz/verify.go", `case now.After(c.expires.Add(v.Skew)):`, `case false:`,
		"authz", "TestTimeAndTarget", false},
	{"another gate's request is accepted", "authz/verify.go", `case c.gate != v.Gate:`, `case false:`,
		"authz", "TestTimeAndTarget", false},
	{"one person too few is enough", "gate/count.go", `if !need.Met(r.Signatures) {`,
		`if need.Missing(r.Signatures) > 1 {`, "gate",
		"TestTwoPeopleSignOneAfterTheOther|TestOnePersonIsOnePrincipalWithOneKey", false},
}

var (
	planted  = flag.Bool("planted", false, "plant each fault, and ask that its tests fail")
	detector = flag.String("detector", "-race", "go's flags for the race detector")
)

// TestPlantedFaults asks that each fault can still be planted; with -planted, that its tests fail with it and pass
// without it.
func TestPlantedFaults(t *testing.T) {
	without := map[string]*reader{}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			overlay := p.overlay(t)
			p.hasTests(t)
			if !*planted {
				return
			}
			key := fmt.Sprint(p.pkg, p.race)
			if without[key] == nil {
				without[key], _ = p.run(t, allTests(p)) // red asks whether each test passed
			}
			r, err := p.run(t, p.tests, "-overlay", overlay)
			require.NoError(t, p.red(r, err, without[key]))
			for _, f := range r.failures {
				t.Logf("planted: %s | red: %s", p.name, f.name())
			}
		})
	}
}

// overlay writes the file with the fault into a directory of the test's own, and returns what go's -overlay takes.
func (p plant) overlay(t *testing.T) string {
	t.Helper()
	from := must.Get(filepath.Abs(filepath.Join("../..", p.file)))(t)
	text := string(must.Get(os.ReadFile(from))(t))
	require.Equal(t, 1, strings.Count(text, p.was), "a fault is planted where %s has this once: %s", p.file, p.was)
	dir := t.TempDir()
	to, overlay := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(to, []byte(strings.Replace(text, p.was, p.is, 1)), 0o600))
	replace := must.Get(json.Marshal(map[string]map[string]string{"Replace": {from: to}}))(t)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	return overlay
}

// hasTests asks that the package has each of the tests. go test would take a name that no test has for a pass.
func (p plant) hasTests(t *testing.T) {
	t.Helper()
	var text bytes.Buffer
	for _, name := range must.Get(filepath.Glob(filepath.Join("../..", p.pkg, "*_test.go")))(t) {
		text.Write(must.Get(os.ReadFile(name))(t))
	}
	for name := range strings.SplitSeq(p.tests, "|") {
		require.Contains(t, text.String(), "\nfunc "+name+"(t *testing.T) {")
	}
}

// allTests are those of all plants that share a run without a fault.
func allTests(of plant) string {
	var tests []string
	for _, p := range plants {
		if p.pkg == of.pkg && p.race == of.race {
			tests = append(tests, p.tests)
		}
	}
	return strings.Join(tests, "|")
}

// run runs tests of the package.
func (p plant) run(t *testing.T, tests string, flags ...string) (*reader, error) {
	t.Helper()
	flags = append(flags, "-count=1", "-vet=off", "-timeout=15m", "-run", "^("+tests+")$")
	if p.race {
		t.Setenv("CGO_ENABLED", "1")
		flags = append(flags, strings.Fields(*detector)...)
	}
	r := newReader(io.Discard, io.Discard, 0)
	// In the process group of this test, so that a signal to that ends it, too.
	err := goTest(t.Context(), r, func(cmd *exec.Cmd) { cmd.SysProcAttr = nil }, append(flags, "gated/internal/"+p.pkg))
	return r, err
}

// red says why r does not show that tests failed because of the fault.
func (p plant) red(r *reader, ended error, without *reader) error {
	for _, f := range r.failures {
		switch {
		case f.test == "":
			return fmt.Errorf("it did not fail by a test alone: %s", f.said)
		case without.passes[f.name()] == 0:
			return fmt.Errorf("%s does not pass without the fault, either: %v", f.name(), without.failures)
		case p.race && !strings.Contains(f.said, "race detected during execution of test"):
			return fmt.Errorf("%s failed without a race: %s", f.name(), f.said)
		}
	}
	if why := r.unexplained(ended); why != "" {
		return errors.New(why)
	}
	if len(r.failures) == 0 {
		return fmt.Errorf("no test failed, and %d passed", r.passed)
	}
	return nil
}

// TestRed: only a test that fails with the fault and passes without it is red.
func TestRed(t *testing.T) {
	const part = `t.Run("part", func(t *testing.T) { t.Error("wrong") }); `
	passing := map[string]int{"gated/a TestIt": 1, "gated/a TestIt/part": 1}
	for _, c := range []struct {
		name, test, body string
		race             bool
		passes           map[string]int // without the fault
		says             string
	}{
		{"a test fails", "TestIt", `t.Error("wrong")`, false, passing, ""},
		{"a part fails", "TestIt", part, false, passing, ""},
		{"a race", "TestIt", `t.Error("race detected during execution of test")`, true, passing, ""},
		{"a failure without a race", "TestIt", `t.Error("wrong")`, true, passing, "a TestIt failed without a race: "},
		{"all pass", "TestIt", ``, false, passing, "no test failed, and 1 passed"},
		{"no test ran", "TestOther", ``, false, passing, "no test failed, and 0 passed"},
		{"it fails without, too", "TestIt", `t.Error("wrong")`, false, nil, "does not pass without the fault, either"},
		{"it is not built", "TestIt", `undefined()`, false, passing, "undefined: undefined"},
		{"it exits", "TestIt", `os.Exit(1)`, false, passing, "it did not fail by a test alone: "},
		{"it fails and exits", "TestIt", part + `os.Exit(1)`, false, passing, "it did not fail by a test alone: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, map[string]string{"a": "func " + c.test + "(t *testing.T) {" + c.body + "}"})
			r := newReader(io.Discard, io.Discard, 0)
			ended := goTest(t.Context(), r, nil, []string{"-vet=off", "-run", "^TestIt$", "./..."})
			err := plant{race: c.race}.red(r, ended, &reader{passes: c.passes})
			if c.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}
