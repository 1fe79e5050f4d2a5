package local

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"gated/internal/op"
	"gated/internal/proc"
)

// markVar is the one environment variable that the driver adds: processes that
// left their session are found by it.
const markVar = "GATED_GUEST"

func markOf(inc op.Incarnation) string { return markVar + "=" + string(inc) }

// waitPID waits for whatever process has the pid now. It is for waiting alone: a
// pid is not enough to signal by.
func waitPID(ctx context.Context, pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	p, err := proc.OpenPID(n)
	if p == nil || err != nil {
		return err // nil where it ended
	}
	defer p.Close()
	return p.Wait(ctx)
}

// marked returns pidfds of all processes whose environment at their last exec
// had one of the marks, by mark. Processes that may not be looked into are
// skipped: they are another user's.
func marked(marks map[string]bool) (map[string][]*proc.FD, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[string][]*proc.FD{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if mark := readMark(pid); !marks[mark] {
			continue
		}
		p, err := proc.OpenPID(pid)
		if err != nil {
			return found, err
		}
		if p == nil {
			continue // it ended
		}
		if mark := readMark(pid); marks[mark] && !p.Ended() {
			found[mark] = append(found[mark], p) // still the one that the pidfd is of
		} else {
			p.Close()
		}
	}
	return found, nil
}

// readMark returns a process's mark, or "".
func readMark(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	for range execTries {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return ""
		}
		for _, kv := range bytes.Split(env, []byte{0}) {
			if bytes.HasPrefix(kv, []byte(markVar+"=")) {
				return string(kv)
			}
		}
		if len(env) > 0 || !midExec(dir) {
			return ""
		}
		<-time.After(time.Millisecond) // there is nothing to wait on for the end of an exec
	}
	return ""
}

// execTries bounds the looks at a process that seems to be executing a program.
const execTries = 100

// midExec reports whether a process without an environment is only between two
// programs: then it has no arguments either, yet it has a program, which a
// kernel thread and a zombie have not.
func midExec(dir string) bool {
	args, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(args) > 0 {
		return false
	}
	_, err = os.Readlink(dir + "/exe")
	return err == nil
}
