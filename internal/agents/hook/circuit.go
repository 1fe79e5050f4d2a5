package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// ToolState is a hook of gated's in an agent's settings.
type ToolState struct {
	Command string   // the line in the settings; it is never run
	Program string   // that it calls, if Known
	Known   bool     // Command is byte for byte what Install writes for Program and Setup
	Matcher string   // from the settings
	Tools   []string // those of Tools that it matches
	Timeout int64    // seconds after which the harness goes on without it; 0: the harness's default
	Lame    string   // why the harness would not wait for its answer; empty if it would
	Setup   Setup    // the line's arguments
}

// SettingsState is gated's part of an agent's settings.
type SettingsState struct {
	There bool // the file exists
	Off   bool // no hook is run (disableAllHooks)
	Hooks []ToolState
}

// State reads settings. Errors are those of Install.
func (s Settings) State() (SettingsState, error) {
	old, err := readSettings(s.Path)
	if err != nil || old.info == nil || len(strings.TrimSpace(string(old.content))) == 0 {
		return SettingsState{There: err == nil && old.info != nil}, err
	}
	t, err := readTree(old.content)
	if err != nil {
		return SettingsState{}, named(s.Path, err)
	}
	out := SettingsState{There: true, Off: switchedOff(old.content)}
	for _, p := range t.ours() {
		out.Hooks = append(out.Hooks, t.state(p))
	}
	return out, nil
}

// state reads one hook. A value of a wrong type counts as missing.
func (t tree) state(p place) ToolState {
	var group struct {
		Matcher jsontext.Value `json:"matcher"`
	}
	var c struct {
		Type    string         `json:"type"`
		Command string         `json:"command"`
		Timeout jsontext.Value `json:"timeout"`
		Async   jsontext.Value `json:"async"`
		If      jsontext.Value `json:"if"`
	}
	at := t.groups[p.group]
	_ = json.Unmarshal(t.text[at.start:at.end], &group) // readTree read it already
	at = p.of[p.hook]
	err := json.Unmarshal(t.text[at.start:at.end], &c)
	out := ToolState{Command: c.Command, Setup: readLine(c.Command).setup()}
	if program, setup, ok := asInstalled(c.Command, "pre-tool-use"); ok {
		out.Program, out.Setup, out.Known = program, setup, true
	}
	_ = json.Unmarshal(group.Matcher, &out.Matcher)
	_ = json.Unmarshal(c.Timeout, &out.Timeout)
	switch {
	case err != nil || c.Type != "command":
		out.Lame = lameType
	case len(c.Async) > 0 && string(c.Async) != "false":
		out.Lame = lameAsync
	case len(c.If) > 0:
		out.Lame = lameIf
	}
	for tool := range Tools {
		if toolMatches(out.Matcher, tool) {
			out.Tools = append(out.Tools, tool)
		}
	}
	slices.Sort(out.Tools)
	return out
}

// The reasons why a harness does not wait for a hook's answer.
const (
	lameType  = "its type is not command"
	lameAsync = "it is async: nothing waits for its answer"
	lameIf    = "it has a condition (if): what does not meet that is not asked about"
)

// toolMatches reports whether a matcher surely matches a tool. "" and "*" match all; names with "|" between them match
// those. Anything else is a regular expression, which must match the whole name here, because harnesses differ.
func toolMatches(matcher, tool string) bool {
	if matcher == "" || matcher == "*" {
		return true
	}
	if slices.Contains(strings.Split(matcher, "|"), tool) {
		return true
	}
	re, err := regexp.Compile("^(?:" + matcher + ")$")
	return err == nil && re.MatchString(tool)
}

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
