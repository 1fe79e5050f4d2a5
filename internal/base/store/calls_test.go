package store

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/faults"
)

// H03: what a store does, once for every write, fsync, rename, open, truncate,
// unlink and mmap below its directory that it consists of: that one answers EIO
// or ENOSPC, or it and all that come after it do.
func TestEveryCallFails(t *testing.T) {
	dir := inMemory(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestEveryCallFailsChild$", "-test.v")
	cmd.Env = append(os.Environ(), faultDir+"="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s, err := faults.Start(cmd, dir, faults.Fault{})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", &out)
	require.NoError(t, s.Wait())
	require.Contains(t, out.String(), "--- PASS: TestEveryCallFailsChild")
	said := 0
	for line := range strings.Lines(out.String()) {
		if i := strings.Index(line, "reliability: "); i >= 0 {
			t.Log(strings.TrimSpace(line[i:]))
			said++
		}
	}
	require.Greater(t, said, 8)
}

// inMemory returns a directory in memory, where there is one: thousands of stores
// are made, and what a disk would do with their fsyncs is not the question.
func inMemory(t *testing.T) string {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(shm, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "gated")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestEveryCallFailsChild(t *testing.T) {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return // the work of TestEveryCallFails
	}
	for _, s := range scripts {
		sums := map[string]*tally{}
		for _, errno := range []unix.Errno{unix.EIO, unix.ENOSPC} {
			for _, lasting := range []bool{false, true} {
				eachCall(t, dir, s, faults.Fault{Errno: errno, Lasting: lasting}, sums)
			}
		}
		// A file system that errors made read-only says this from then on.
		eachCall(t, dir, s, faults.Fault{Errno: unix.EROFS, Lasting: true}, sums)
		for what, sum := range sums {
			t.Logf("reliability: %s | store: %s | runs %d | lost %d | twice %d", what, s.name, sum.runs, sum.lost, sum.twice)
			require.Zero(t, sum.lost, what)
			require.Zero(t, sum.twice, what)
		}
	}
}

// eachCall runs a script with the fault at its first call, its second, and so
// on until there is none left.
func eachCall(t *testing.T, dir string, s script, f faults.Fault, sums map[string]*tally) {
	for f.Nth = 1; ; f.Nth += faults.Stride {
		l := newLife(t, dir, f)
		kind := l.run(s)
		if kind == 0 {
			require.Greater(t, f.Nth, s.least, "%s does more than that", s.name)
			return
		}
		what := fmt.Sprintf("%s answers %s", kind, unix.ErrnoName(f.Errno))
		if f.Lasting {
			what = fmt.Sprintf("all fails with %s, from each call on", unix.ErrnoName(f.Errno))
		}
		if sums[what] == nil {
			sums[what] = &tally{}
		}
		sums[what].runs++
		sums[what].lost += l.lost
		sums[what].twice += l.twice
	}
}

// tally counts faults, and what came of them: rows that somebody was told of
// and that are not there, and rows that are there although somebody was told
// otherwise, and will have asked again.
type tally struct{ runs, lost, twice int }

// script is something that a store does.
type script struct {
	name  string
	least int // calls that it makes
	setUp func(*life)
	work  func(*life)
}

// The schemas between which a script migrates.
const oldest, newest = 3, 5

var scripts = []script{
	{name: "made, written, copied, closed", least: 60, setUp: func(*life) {}, work: func(l *life) {
		l.open(schema)
		l.put("first", 10)
		l.checkpointOften()
		l.group("one", "two", "three")
		l.put("large", 12<<10)
		l.copy()
		l.put("last", 10)
		l.close()
	}},
	{name: "opened, migrated", least: 60, setUp: func(l *life) {
		l.open(grown(oldest))
		l.put("first", 10)
		l.put("second", 10)
		l.close()
		for before := range oldest { // one of which is to go
			require.NoError(l.t, os.WriteFile(preName(l.path, before+1), nil, 0o600))
		}
	}, work: func(l *life) {
		l.open(grown(newest))
		l.put("last", 10)
	}},
}
