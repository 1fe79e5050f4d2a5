package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// tripAt failures within tripWithin open the circuit for openFor.
	tripAt     = 5
	tripWithin = 30 * time.Second
	openFor    = 30 * time.Second
	// probeGrace is how long beyond its deadline a hook that tries may take to
	// say how it went.
	probeGrace = time.Second
	// maxCircuit is the largest circuit that is read, in bytes.
	maxCircuit = 4 << 10
)

// circuit is what the hooks before found of a gate. While it is open nobody
// asks. Afterwards, or as soon as the daemon's socket is another one, one hook
// tries, and the others go on as if it were open until that one has said how it
// went. Times are in milliseconds since 1970.
type circuit struct {
	Failed    []int64 `json:"failed,omitempty"`     // the newest failures, at most tripAt
	OpenUntil int64   `json:"open_until,omitempty"` // 0: closed
	// Socket tells the daemon's socket as it was when it was asked last from
	// another one: a daemon that starts makes its own.
	Socket string `json:"socket,omitempty"`
}

// state says what a hook may do.
type state int

const (
	closed state = iota
	open
	trying // nobody asks but one, to find out
)

// at returns the circuit's state. What no clock could have written, since it
// went back or the file is not ours, counts as closed: the price is a deadline.
func (c circuit) at(now time.Time) state {
	left := c.OpenUntil - now.UnixMilli()
	switch {
	case c.OpenUntil == 0 || left > openFor.Milliseconds():
		return closed
	case left > 0:
		return open
	default:
		return trying
	}
}

// fail adds a failure of a daemon with that socket.
func (c circuit) fail(now time.Time, socket string) circuit {
	at := now.UnixMilli()
	opened := circuit{OpenUntil: at + openFor.Milliseconds(), Socket: socket}
	if c.at(now) != closed {
		return opened
	}
	failed := slices.DeleteFunc(slices.Clone(c.Failed), func(then int64) bool {
		return then > at || at-then >= tripWithin.Milliseconds()
	})
	failed = append(failed, at)
	if len(failed) >= tripAt {
		return opened
	}
	return circuit{Failed: failed}
}

func (h Home) circuitName() string { return "circuit-" + h.gate + ".json" }

// circuit reads what is kept. A file that is missing, broken or too large is a
// closed circuit.
func (h Home) circuit() circuit {
	b, err := h.read(h.circuitName(), maxCircuit)
	if err != nil || len(b) == 0 {
		return circuit{}
	}
	var c circuit
	if json.Unmarshal(b, &c) != nil || c.OpenUntil < 0 || len(c.Failed) > tripAt {
		return circuit{}
	}
	return c
}

// state returns the circuit's state, which is trying also where the daemon may be
// back before its time.
func (c circuit) state(now time.Time, socket string) state {
	s := c.at(now)
	if s == open && c.Socket != socket {
		return trying
	}
	return s
}

// socket tells the socket that is there from one that was: by file system, inode
// and the time of its last change.
func (h Home) socket() string {
	var b strings.Builder
	for _, path := range h.sockets {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil {
			fmt.Fprintf(&b, "%d:%d:%d.%d ", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
		} else {
			b.WriteString("- ")
		}
	}
	return b.String()
}

// keep writes a circuit. The caller has the lock.
func (h Home) keep(c circuit) error {
	if len(c.Failed) == 0 && c.OpenUntil == 0 {
		err := os.Remove(h.path(h.circuitName()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	b, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return err
	}
	return h.replace(h.circuitName(), b)
}

// enter reports whether a hook may ask the daemon, and whether it is the one
// that finds out for all. A closed circuit costs the reading of one file and a look at the socket.
func (h Home) enter(now time.Time, deadline time.Duration) (ask, probe bool) {
	socket := h.socket()
	switch h.circuit().state(now, socket) {
	case closed:
		return true, false
	case open:
		return false, false
	}
	err := h.locked(func() error {
		// Another may have been faster.
		if h.circuit().state(now, socket) != trying {
			return nil
		}
		probe = true
		wait := min(deadline+probeGrace, openFor)
		return h.keep(circuit{OpenUntil: now.Add(wait).UnixMilli(), Socket: socket})
	})
	if err != nil && !errors.Is(err, errBusy) {
		return true, true // nothing can be kept: every hook finds out for itself
	}
	return probe, probe
}

// reached closes the circuit after a try that went well.
func (h Home) reached() error {
	return h.locked(func() error { return h.keep(circuit{}) })
}
