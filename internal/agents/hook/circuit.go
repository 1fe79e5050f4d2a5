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
	// probeGrace is how long after its deadline a hook that tries may take to record the result.
	probeGrace = time.Second
	// maxCircuit is the largest circuit that is read, in bytes.
	maxCircuit = 4 << 10
)

// circuit is what earlier hooks learned of a gate. While it is open, no hook asks. Afterwards, or as soon as the daemon
// has another socket, one hook tries. The others act as if it were open until that one has recorded its result. Times
// are in milliseconds since 1970.
type circuit struct {
	Failed    []int64 `json:"failed,omitempty"`     // the newest failures, at most tripAt
	OpenUntil int64   `json:"open_until,omitempty"` // 0: closed
	// Socket identifies the daemon's socket at the last question: a daemon that starts makes a new one.
	Socket string `json:"socket,omitempty"`
}

// state says whether a hook may ask.
type state int

const (
	closed state = iota
	open
	trying // only one hook asks, to find out
)

// at returns the circuit's state. Times that no clock could have written count as closed, because the clock went back
// or the file is not ours. Then a hook at worst waits for one deadline.
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

// circuit reads the stored circuit. A missing, broken or too large file is a closed circuit.
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

// state returns the circuit's state. It is trying also if the daemon may be back early.
func (c circuit) state(now time.Time, socket string) state {
	s := c.at(now)
	if s == open && c.Socket != socket {
		return trying
	}
	return s
}

// socket identifies the present socket by file system, inode and time of its last change.
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

// enter reports whether a hook may ask the daemon, and whether it is the one that tries for all. A closed circuit costs
// one file's reading and a look at the socket.
func (h Home) enter(now time.Time, deadline time.Duration) (ask, probe bool) {
	socket := h.socket()
	switch h.circuit().state(now, socket) {
	case closed:
		return true, false
	case open:
		return false, false
	}
	err := h.locked(func() error {
		// Another hook may have changed it first.
		if h.circuit().state(now, socket) != trying {
			return nil
		}
		probe = true
		wait := min(deadline+probeGrace, openFor)
		return h.keep(circuit{OpenUntil: now.Add(wait).UnixMilli(), Socket: socket})
	})
	if err != nil && !errors.Is(err, errBusy) {
		return true, true // nothing can be stored, so every hook tries for itself
	}
	return probe, probe
}

// reached closes the circuit after a try that went well.
func (h Home) reached() error {
	return h.locked(func() error { return h.keep(circuit{}) })
}
