package hook

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	failuresName = "failures.jsonl"
	olderName    = failuresName + ".1"
	droppedName  = "dropped" // how many records were in deleted files
	// maxFailures is the size in bytes at which the file of failures is put aside. It replaces the file that was put
	// aside before.
	maxFailures = 128 << 10
	// maxRead is more than the size of any such file, in bytes.
	maxRead = 4 << 20
	// maxDetail bounds the kept text of an error, in characters.
	maxDetail = 400
)

// Record says that a hook could not do its work: a line of failures.jsonl.
type Record struct {
	Time   time.Time `json:"time"`
	Hook   string    `json:"hook"` // pre-tool-use, pre-commit, pre-push
	Kind   Kind      `json:"kind"`
	Then   OnFailure `json:"then"` // the result for the call; warn let it go on
	Gate   string    `json:"gate"` // as in the name of its circuit
	Detail string    `json:"detail"`
}

// note appends a record. It needs no lock: the kernel appends each line as a whole.
func (h Home) note(r Record) error {
	r.Gate, r.Detail = h.gate, bounded(r.Detail, maxDetail)
	line, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return err
	}
	f, err := h.append(failuresName)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	info, statErr := f.Stat()
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return err
	}
	if info.Size() < maxFailures {
		return nil
	}
	return h.locked(h.rotate)
}

// append opens a file to add to it. It makes a missing file and directory.
func (h Home) append(name string) (*os.File, error) {
	if h.dir == "" {
		return nil, errHomeless
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(h.path(name), flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(h.dir, 0o700); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(h.path(name), flags, 0o600)
	}
	return f, err
}

// rotate puts the file of failures aside if it is still too large, and counts the records of the file that it replaces.
// The caller has the lock.
func (h Home) rotate() error {
	info, err := os.Lstat(h.path(failuresName))
	if err != nil || info.Size() < maxFailures {
		return err
	}
	dropped := h.dropped() + lines(h.records(olderName))
	if err := h.replace(droppedName, strconv.AppendInt(nil, dropped, 10)); err != nil {
		return err
	}
	return os.Rename(h.path(failuresName), h.path(olderName))
}

func (h Home) dropped() int64 {
	b, _ := h.read(droppedName, 32)
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// records returns a file of records; empty if it is missing.
func (h Home) records(name string) []byte {
	b, _ := h.read(name, maxRead)
	return b
}

func lines(b []byte) int64 { return int64(bytes.Count(b, []byte("\n"))) }

// last returns the last n records, the newest first. It skips lines that are not records.
func last(b []byte, n int) []Record {
	var out []Record
	for len(b) > 0 && len(out) < n {
		b = bytes.TrimSuffix(b, []byte("\n"))
		at := bytes.LastIndexByte(b, '\n') + 1
		var r Record
		if json.Unmarshal(b[at:], &r) == nil && r.Kind != "" {
			out = append(out, r)
		}
		b = b[:at]
	}
	return out
}

// Status is the state of a user's hooks.
type Status struct {
	Dir      string     `json:"dir"`      // where it is kept; empty: nowhere
	Failures int64      `json:"failures"` // of all gates, since the first hook
	Open     bool       `json:"open"`     // hooks do not ask this gate now
	Until    *time.Time `json:"until"`    // when one of them tries again
	Last     []Record   `json:"last"`     // the newest first
}

// Status returns the number of failures, the last n of them, and the state of the gate's circuit.
func (h Home) Status(now time.Time, n int) Status {
	s := Status{Dir: h.dir, Last: []Record{}}
	if c := h.circuit(); c.state(now, h.socket()) == open {
		until := time.UnixMilli(c.OpenUntil).UTC()
		s.Open, s.Until = true, &until
	}
	newer, older := h.records(failuresName), h.records(olderName)
	s.Failures = h.dropped() + lines(older) + lines(newer)
	s.Last = append(s.Last, last(slices.Concat(older, newer), n)...)
	return s
}
