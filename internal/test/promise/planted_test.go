package promise_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/promise"
)

const (
	matrix = "internal/test/matrix"
	// longest bounds one run of tests, which takes some seconds on two free cores.
	longest = 5 * time.Minute
)

// field is a product with every fault, of which one is chosen, and the programs of tests that were built from it.
type field struct {
	overlay, choice string
	cases           []string // of the matrix, by which promises are kept
	built           map[string]string
}

// TestPlantedFaults chooses each fault, with -planted. What has to fail then fails by an assertion, and every other case of the
// matrix by which a promise is kept passes. Without a fault everything passes.
func TestPlantedFaults(t *testing.T) {
	if !*planted {
		return // TestEachFaultCanBePlanted did what is quick
	}
	all := promise.All()
	var faults []promise.Fault
	for _, p := range all {
		faults = append(faults, p.Faults...)
	}
	f := &field{cases: casesOf(all), built: map[string]string{}}
	f.overlay, f.choice = overlaid(t, faults)
	if !t.Run("none", func(t *testing.T) { f.choose(t, 0); f.sound(t) }) {
		return
	}
	found, tried, number := 0, 0, 0
	for _, p := range all {
		for _, x := range p.Faults {
			number++
			if !strings.Contains(p.Says, *onePlant) && !slices.Contains(finds(p, x), *onePlant) {
				continue
			}
			tried++
			if t.Run(p.Says+", "+strings.Join(finds(p, x), " "), func(t *testing.T) { f.finds(t, number, x, finds(p, x)) }) {
				found++
			}
		}
	}
	require.Positive(t, tried, "no promise contains %q", *onePlant)
	t.Logf("%d of %d found, which break %d promises", found, tried, len(all))
}

func (f *field) choose(t *testing.T, number int) {
	require.NoError(t, os.WriteFile(f.choice, []byte(strconv.Itoa(number)), 0o644)) // programs of other users read it, too
}

// sound asks that all cases by which promises are kept pass.
func (f *field) sound(t *testing.T) {
	how, out := f.matrix(t)
	for id, ended := range how {
		require.Equal(t, "PASS", ended, "%s\n%s", id, out)
	}
}

// finds asks that a fault is found by all of want, and by no other case.
func (f *field) finds(t *testing.T, number int, x promise.Fault, want []string) {
	f.choose(t, number)
	how, shown := f.matrix(t)
	var failed, expected []string
	for id, ended := range how {
		require.NotEqual(t, "SKIP", ended, id)
		if ended == "FAIL" {
			failed = append(failed, id)
		}
	}
	for _, by := range want {
		if promise.IsCase(by) {
			expected = append(expected, by)
			continue
		}
		pkg, run := place(t, by)
		f.choose(t, 0)
		out, err := f.run(t, pkg, run, x.Args...)
		require.NoError(t, err, "%s\n%s", by, out)
		require.NotContains(t, out, "--- SKIP", by)
		f.choose(t, number)
		out, err = f.run(t, pkg, run, x.Args...)
		require.Error(t, err, "%s does not find the fault\n%s", by, out)
		require.Contains(t, out, "--- FAIL: Test", "%s does not end by an assertion", by)
		shown += out
	}
	require.ElementsMatch(t, append(expected, x.Also...), failed, "the cases that fail with the fault\n%s", shown)
	require.NotContains(t, shown, "\npanic: ")
	require.Contains(t, shown, x.Shows)
}

// command is one with the overlay, which also holds for the programs that a test builds.
func (f *field) command(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 4*longest)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = filepath.Join(top, dir), append(os.Environ(), "CGO_ENABLED=0",
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+f.overlay))
	return cmd
}

// run runs tests of a package, which it builds once.
func (f *field) run(t *testing.T, pkg, run string, args ...string) (string, error) {
	if f.built[pkg] == "" {
		program := filepath.Join(filepath.Dir(f.choice), strings.ReplaceAll(pkg, "/", "-"))
		out, err := f.command(t, pkg, "go", "test", "-c", "-vet=off", "-o", program, ".").CombinedOutput()
		require.NoError(t, err, "it cannot be built\n%s", out)
		f.built[pkg] = program
	}
	args = append([]string{"-test.v", "-test.timeout", longest.String(), "-test.run", run}, args...)
	out, err := f.command(t, pkg, f.built[pkg], args...).CombinedOutput()
	return string(out), err
}

var ended = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): TestMatrix/cases/(\w+) `)

// matrix runs all cases by which promises are kept, and returns how each ended, and what was printed.
func (f *field) matrix(t *testing.T) (map[string]string, string) {
	out, _ := f.run(t, matrix, "^TestMatrix$/^cases$/^("+strings.Join(f.cases, "|")+")$") // the lines say how it ended
	how := map[string]string{}
	for _, m := range ended.FindAllStringSubmatch(out, -1) {
		how[m[2]] = m[1]
	}
	for _, id := range f.cases {
		require.NotEmpty(t, how[id], "%s did not end\n%s", id, out)
	}
	return how, out
}
