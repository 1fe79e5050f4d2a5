package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestAPackageThatIsStuck ends, and the run says which test hung and where, also if the package has another failure and the test
// went to another directory.
func TestAPackageThatIsStuck(t *testing.T) {
	module(t, map[string]string{
		"a": failing("-++++", `t.Error("busy")`) + `
func TestHangs(t *testing.T) {
	t.Run("waits", func(t *testing.T) { t.Parallel() })
	t.Run("a part", func(t *testing.T) {
		t.Chdir("/")
		hangs()
	})
}
func hangs() {
	r, _, _ := os.Pipe()
	r.Read(make([]byte, 1))
}
`,
		"b": "func TestIt(t *testing.T) {}",
	})
	log := filepath.Join(t.TempDir(), "log")
	passed, out := suite(t, "-stuck", "2s", "-log", log)
	require.False(t, passed, out)
	require.Contains(t, out, "gated/a is stuck: no test began or ended for 2s, and these ran: TestHangs/a_part; their stacks are in the log\n")
	require.Contains(t, out, "no second look: gated/a had a race, a panic or a time-out, or was stuck\n")
	require.Contains(t, out, "FAILED gated/a\n    stuck: no test began or ended for 2s, and these ran: TestHangs/a_part; their stacks are in the log\n")
	require.Contains(t, string(must.Get(os.ReadFile(log))(t)), "\ngated/a.hangs(", "where it hung")
	require.Contains(t, out, "ok  \tgated/b")
}

// TestAPackageThatGoesOn: what begins, waits, goes on or ends keeps a package alive, and output alone does not.
func TestAPackageThatGoesOn(t *testing.T) {
	const limit = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		var progress bytes.Buffer
		r := newReader(io.Discard, &progress, limit)
		var mu sync.Mutex
		var signals []string
		r.signal = func(pkg string, sig syscall.Signal) {
			mu.Lock()
			defer mu.Unlock()
			signals = append(signals, fmt.Sprint(pkg, " ", sig))
		}
		sent := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(signals)
		}
		says := func(after time.Duration, pkg, action, test string) {
			<-time.After(after)
			synctest.Wait()
			fmt.Fprintf(r, `{"Action":%q,"Package":%q,"Test":%q}`+"\n", action, pkg, test)
		}
		says(0, "other", "start", "")
		says(0, "a", "start", "")
		for _, what := range []string{"run TestA", "run TestA/b", "pause TestA/b", "cont TestA/b", "pass TestA/b", "run TestA/c", "skip TestA/c", "fail TestA"} {
			var action, test string
			_, err := fmt.Sscan(what, &action, &test)
			require.NoError(t, err)
			says(0, "other", "run", "TestOther")
			says(limit-1, "a", action, test)
			require.Empty(t, sent(), what)
		}
		says(0, "other", "pass", "")
		says(limit-1, "a", "fail", "")
		says(2*limit, "a", "start", "")
		require.Empty(t, sent(), "a package that ended")

		says(0, "a", "run", "TestA")
		says(0, "a", "run", "TestA/waits")
		says(0, "a", "pause", "TestA/waits")
		says(0, "a", "run", "TestAB")
		says(limit-1, "a", "output", "TestA")
		require.Empty(t, sent())
		says(1, "a", "output", "TestA")
		require.Equal(t, []string{"a quit"}, sent())
		require.Equal(t, "a is stuck: no test began or ended for 10m0s, and these ran: TestA, TestAB; their stacks are in the log\n", progress.String())
		says(dying, "a", "run", "TestC")
		says(dying, "a", "output", "TestC")
		require.Equal(t, []string{"a quit", "a killed", "a killed"}, sent(), "it took no notice")
		says(0, "a", "fail", "")
		says(limit, "a", "output", "")
		require.Len(t, sent(), 3)
		last := r.failures[len(r.failures)-1]
		require.Empty(t, last.test)
		require.True(t, last.crashed)
		require.Contains(t, last.said, "these ran: TestA, TestAB; their stacks are in the log\n")
		r.end()
	})
}

// TestASecondLookThatIsStuck ends too.
func TestASecondLookThatIsStuck(t *testing.T) {
	module(t, map[string]string{"a": failing("-", `if len(before) == 0 {
				t.Error("busy")
			}`) + `
func TestMain(m *testing.M) {
	m.Run()
	if before, _ := os.ReadFile("runs"); len(before) > 1 {
		r, _, _ := os.Pipe()
		r.Read(make([]byte, 1))
	}
	os.Exit(1)
}
`})
	var out bytes.Buffer
	passed, err := run(context.Background(), []string{"-log", filepath.Join(t.TempDir(), "log"), "-stuck", "2s", "--", "-vet=off", "--", "./a"}, &out)
	require.NoError(t, err)
	require.False(t, passed, out.String())
	require.Contains(t, out.String(), "a second look at gated/a TestIt/a_part:_1\n")
	require.Contains(t, out.String(), "1 failed, 0 unsteady")
}
