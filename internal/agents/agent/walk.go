package agent

import (
	"errors"
	"io/fs"

	"gated/internal/base/proc"
)

// maxDepth bounds a walk. Lineages that people make have a dozen steps.
const maxDepth = 256

// errMoved says that processes changed during a walk over them.
var errMoved = errors.New("the processes changed while they were looked at")

// climb reads the processes from pid upwards, until last says stop or no more can be seen; it never includes pid 1.
// Then it reads each of them again. A process is only ever handed to a process that was its ancestor before. So if its
// start and parent are the same in both readings, they held in between. The whole chain held at the moment after the
// first readings and before the second ones.
func climb(t Table, pid int, last func(proc.Process) bool) ([]proc.Process, error) {
	var chain []proc.Process
	for next := pid; next > 1; {
		if len(chain) == maxDepth {
			return nil, errors.New("the processes are nested too deep")
		}
		p, err := t.Read(next)
		if hidden := errors.Is(err, proc.ErrGone) || errors.Is(err, fs.ErrPermission); hidden && len(chain) > 0 {
			break // it has ended; the second reading sees that its child was handed on
		}
		if err != nil {
			return nil, err
		}
		if n := len(chain); p.PID != next || n > 0 && p.Start > chain[n-1].Start {
			return nil, errMoved // a parent is never younger than its child
		}
		chain = append(chain, p)
		if last(p) {
			break
		}
		next = p.Parent
	}
	for _, was := range chain {
		now, err := t.ReadStat(was.PID)
		if err != nil || now.Start != was.Start || now.Parent != was.Parent || now.Session != was.Session {
			return nil, errMoved
		}
	}
	return chain, nil
}

// passes reports whether a name passes from parent to child. It does not pass if the child has another uid or PID
// namespace. It also does not pass if the child's session is neither its parent's nor its own: then the parent took the
// child in, or left the session since.
func passes(parent, child proc.Process) bool {
	return passable(parent) && passable(child) && parent.UID == child.UID &&
		(child.Session == parent.Session || child.Session == child.PID)
}

func passable(p proc.Process) bool { return p.OneUID && !p.Foreign }

// unbroken returns through how many processes of a chain, from the lowest, a name passes for a caller with this uid.
func unbroken(chain []proc.Process, uid uint32) int {
	for i, p := range chain {
		if i == 0 && !(passable(p) && p.UID == uid) || i > 0 && !passes(p, chain[i-1]) {
			return i
		}
	}
	return len(chain)
}

// index returns the place of a pid in a chain, or -1.
func index(chain []proc.Process, pid int) int {
	for i, p := range chain {
		if p.PID == pid {
			return i
		}
	}
	return -1
}
