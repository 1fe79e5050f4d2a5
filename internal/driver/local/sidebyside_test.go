package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestSideBySideIsBounded: as many at once as it may, and no more.
func TestSideBySideIsBounded(t *testing.T) {
	for _, n := range []int{0, 1, maxEnding - 1, maxEnding, maxEnding + 1} {
		var began, done atomic.Int64
		open, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			sideBySide(n, func(int) { began.Add(1); <-open; done.Add(1) })
		}()
		waitFor(t, "all that may", func() bool { return began.Load() == int64(min(n, maxEnding)) })
		close(open)
		<-ended
		require.EqualValues(t, n, done.Load())
	}
}

// TestARunThatDoesNotEndHoldsNoOtherUp: the first run has a cgroup that is never empty. The second one is hunted meanwhile.
func TestARunThatDoesNotEndHoldsNoOtherUp(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.strayWait = time.Hour })
	stuck := cgroup(t.TempDir())
	write := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(string(stuck), file), []byte(text), 0o600))
	}
	write("cgroup.events", "populated 1\n")
	write("cgroup.kill", "")
	r, other := must.Two(os.Pipe())(t)
	defer r.Close()
	idle := idleProcess(t)
	var looks atomic.Int64 // at that process; the first one is for both runs
	w.d.seek.environ = func(pid int) ([]byte, error) {
		if pid == idle {
			looks.Add(1)
		}
		return []byte("A=B"), nil
	}
	mine := own()
	ended := make(chan []verdict)
	go func() {
		ended <- w.d.killLost(w.ctx, []lostGuest{
			{inc: "stuck", group: stuck, run: &runFile{UID: &mine, Group: true, Confined: true}},
			{inc: "hunted", tie: &tie{r}, run: &runFile{UID: &mine}}})
	}()
	waitFor(t, "the hunt", func() bool { return looks.Load() > 2 })
	require.NoError(t, other.Close())
	write("cgroup.events", "populated 0\n")
	require.Equal(t, []verdict{{}, {}}, <-ended)
}

// idleProcess starts a process of the daemon's own user, and ends it with the test.
func idleProcess(t *testing.T) int {
	cmd := exec.Command("/bin/sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// TestAMarkThatNoLookFindsIsNotLeft: processes of one guest come without end. That says nothing about another guest.
func TestAMarkThatNoLookFindsIsNotLeft(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var mu sync.Mutex
	marked, reads, rounds := idleProcess(t), 0, 0
	w.d.seek.environ = func(pid int) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if pid != marked {
			return []byte("A=B"), nil
		}
		if reads++; reads%2 == 0 { // a look reads the environment again before it believes it
			marked = idleProcess(t)
			rounds++
		}
		if rounds == 3 {
			cancel()
		}
		return []byte(markOf("endless")), nil
	}
	want := sought{marks: map[string]bool{markOf("endless"): true, markOf("gone"): true}, uids: map[uint32]bool{own(): true}}
	left, unread := w.d.killMarked(ctx, want)
	require.NoError(t, unread)
	require.ErrorIs(t, left[markOf("endless")], context.Canceled)
	require.NoError(t, left[markOf("gone")])
	require.Len(t, want.marks, 2)
}
