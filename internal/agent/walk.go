package agent

import (
	"errors"
	"io/fs"

	"gated/internal/proc"
)

// maxDepth bounds a walk. Lineages that people make have a dozen steps.
const maxDepth = 256

// errMoved is returned when processes changed while they were walked over.
var errMoved = errors.New("the processes changed while they were looked at")

// climb reads the processes from pid upwards until last says so or none is left
// that can be seen; pid 1 is never among them. Then it reads each of them again.
// That a process has the same start and the same parent in both readings means
// that both held in between, for a process is only ever handed upwards, to one
// that was its ancestor before: so between the last of the first readings and
// the first of the second ones there is a moment at which all of the chain held.
func climb(t Table, pid int, last func(proc.Process) bool) ([]proc.Process, error) {
	var chain []proc.Process
	for next := pid; next > 1; {
		if len(chain) == maxDepth {
			return nil, errors.New("the processes are nested too deep")
		}
		p, err := t.Read(next)
		if hidden := errors.Is(err, proc.ErrGone) || errors.Is(err, fs.ErrPermission); hidden && len(chain) > 0 {
			break // where it has ended, its child was handed on, and is seen to be
		}
		if err != nil {
			return nil, err
		}
		if n := len(chain); p.PID != next || n > 0 && p.Start > chain[n-1].Start {
			return nil, errMoved // a parent is never the younger one
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

// passes reports whether a name passes from parent to child. It does not where
// another uid stands in between, or another PID namespace. Nor does it where
// the child is in a session that is neither its parent's nor its own: then
// its parent did not make it but took it in (or left the session since).
func passes(parent, child proc.Process) bool {
	return passable(parent) && passable(child) && parent.UID == child.UID &&
		(child.Session == parent.Session || child.Session == child.PID)
}

func passable(p proc.Process) bool { return p.OneUID && !p.Foreign }

// unbroken returns how many processes of a chain, from its lowest, a name
// passes through for a caller with this uid.
func unbroken(chain []proc.Process, uid uint32) int {
	for i, p := range chain {
		if i == 0 && !(passable(p) && p.UID == uid) || i > 0 && !passes(p, chain[i-1]) {
			return i
		}
	}
	return len(chain)
}

// index returns where a pid is in a chain, or -1.
func index(chain []proc.Process, pid int) int {
	for i, p := range chain {
		if p.PID == pid {
			return i
		}
	}
	return -1
}
