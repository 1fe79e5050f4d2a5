package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// hostDir tells the child process of these tests where to work.
const hostDir = "GATED_TEST_FAULTS_DIR"

// inMemory returns a directory in memory, where there is one: thousands of
// databases are made, and what a disk would do with their fsyncs is not the
// question.
func inMemory(t *testing.T) string {
	t.Helper()
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(shm, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		return t.TempDir()
	}
	dir := must.Get(os.MkdirTemp(shm, "gated"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// inChild runs a test in a process of its own, whose calls below one directory can fail. The test logs at least that
// many lines about reliability.
func inChild(t *testing.T, test string, lines int) {
	t.Helper()
	dir := inMemory(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), hostDir+"="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s := must.Get(Start(cmd, dir, Fault{}))(t)
	require.NoError(t, cmd.Wait(), "%s", &out)
	require.NoError(t, s.Wait())
	require.Contains(t, out.String(), "--- PASS: "+test)
	relay(t, out.String(), lines)
}

// H03: every decision that a gate makes, once for each call below its directory
// that it consists of: that one fails, or it and all that come after it do.
func TestDecisionsWhereEveryCallFails(t *testing.T) {
	inChild(t, "TestDecisionsChild", 5)
}

func TestDecisionsChild(t *testing.T) {
	dir := os.Getenv(hostDir)
	if dir == "" {
		return // the work of TestDecisionsWhereEveryCallFails
	}
	p := prepare(t, dir)
	sums := map[string]*tally{}
	for _, f := range []Fault{{Errno: unix.EIO}, {Errno: unix.ENOSPC}, {Errno: unix.EIO, Lasting: true}, {Errno: unix.ENOSPC, Lasting: true},
		{Errno: unix.EROFS, Lasting: true}} {
		stride := Stride
		if f.Lasting { // where it begins matters less than that nothing works
			stride = 7 * Stride
		}
		for f.Nth = 1; ; f.Nth += stride {
			h := newHost(t, dir, p, f)
			kind := h.live()
			if kind == 0 {
				require.Greater(t, f.Nth, 60, "it does more than that")
				break
			}
			what := fmt.Sprintf("%s answers %s", kind, unix.ErrnoName(f.Errno))
			if f.Lasting {
				what = fmt.Sprintf("all fails with %s, from each call on", unix.ErrnoName(f.Errno))
			}
			if sums[what] == nil {
				sums[what] = &tally{}
			}
			sums[what].runs++
			sums[what].lost += h.lost
			sums[what].twice += h.twice
		}
	}
	for what, sum := range sums {
		t.Logf("reliability: %s | gate: submit, approve, reject, cancel, dispatch, record | runs %d | lost %d | twice %d",
			what, sum.runs, sum.lost, sum.twice)
		require.Zero(t, sum.lost, what)
		require.Zero(t, sum.twice, what)
	}
}

// tally counts faults and what came of them: decisions that somebody was told of
// and that are not there, and things that were done twice, or decided although
// somebody was told that they were not.
type tally struct{ runs, lost, twice int }
