package command

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
)

// wardenArg is the hidden first argument that makes this program a warden.
const wardenArg = "__gated_command"

// The warden's descriptors, in the order of pipes.start.
const (
	ordersFD = 3
	reportFD = 4
	imageFD  = 5 // of the file that the kernel executes
	scriptFD = 6 // or the input, if the program is no script
)

// highFD is the descriptor of the image while the child is made. It is above all descriptors
// that the making of a child moves.
const highFD = 100

// scriptPath is the path by which an interpreter opens the sealed script: its own descriptor 3,
// open in no other process.
const scriptPath = "/proc/self/fd/3"

// stopOrder asks for SIGTERM, the grace, and SIGKILL. If the pipe closes, the daemon has ended,
// and the warden sends SIGKILL.
const stopOrder = 's'

// orders is what the daemon tells the warden. It comes through a pipe, because other processes
// can read a command line.
type orders struct {
	Argv   []string
	Env    []string
	Dir    string
	Switch bool
	UID    uint32
	GID    uint32
	Groups []uint32
	Script bool
	Input  bool  // the last descriptor is the program's standard input
	Grace  int64 // ms
}

// report is the warden's answer at the end.
type report struct {
	Error  string // nothing ran
	Status int
	Signal int
	Lost   bool // never sent; the daemon sets it if no report came
}

// ordersOf turns a job into words for the kernel. For a script, they are the words that the
// kernel would make from the #! line, but with the copies.
func ordersOf(j job, grace time.Duration) orders {
	o := orders{Argv: j.argv, Env: []string{}, Dir: j.dir, Switch: !j.as.Own, UID: j.as.UID, GID: j.as.GID, Groups: j.as.Groups,
		Input: j.input != nil, Grace: grace.Milliseconds()}
	if o.Dir == "" {
		o.Dir = "/"
	}
	for k, v := range j.env {
		o.Env = append(o.Env, k+"="+v)
	}
	slices.Sort(o.Env)
	if r := j.program.reader; r != nil {
		o.Script = true
		o.Argv = []string{r.path}
		if j.program.option != "" {
			o.Argv = append(o.Argv, j.program.option)
		}
		o.Argv = append(append(o.Argv, scriptPath), j.argv[1:]...)
	}
	return o
}

// MaybeWatch turns this process into the warden of a command if it was started as one. Then it
// does not return. Every program that links this package and makes a Driver calls it first.
// Tests call it in TestMain.
func MaybeWatch() {
	if len(os.Args) != 2 || os.Args[1] != wardenArg {
		return
	}
	// The settings before an exec belong to a thread, and the death of that thread ends the
	// child.
	runtime.LockOSThread()
	r := watch()
	b, err := json.Marshal(r)
	if err == nil {
		_, err = os.NewFile(reportFD, "report").Write(b)
	}
	if err != nil {
		syscall.Exit(1)
	}
	syscall.Exit(0) // os.Exit would let the race detector of a test sleep for a second
}

// watch starts the ordered program and stays until all its descendants are gone.
func watch() report {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return report{Error: fmt.Sprintf("close_range: %v", err)}
	}
	in := bufio.NewReader(os.NewFile(ordersFD, "orders"))
	line, err := in.ReadBytes('\n')
	var o orders
	if err == nil {
		err = json.Unmarshal(line, &o, json.RejectUnknownMembers(true))
	}
	if err != nil { // the daemon died before it gave orders
		return report{Error: fmt.Sprintf("no orders: %v", err)}
	}
	pid, err := o.start()
	if err != nil {
		return report{Error: err.Error()}
	}
	_ = os.Stdout.Close() // only the watched processes may still write there
	_ = os.Stderr.Close()
	said := make(chan byte, 1)
	go func() {
		b, err := in.ReadByte()
		if err != nil {
			b = 0
		}
		said <- b
	}()
	status := o.attend(pid, said)
	endRest()
	r := report{Status: status.ExitStatus()}
	if status.Signaled() {
		r.Status, r.Signal = 0, int(status.Signal())
	}
	return r
}

// start makes the child. It has its own session and its user, and only its output is open. It
// cannot gain rights by a set-uid file (prctl(2)). It ends when the warden does.
func (o orders) start() (int, error) {
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("child_subreaper: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("no_new_privs: %w", err)
	}
	image, err := unix.FcntlInt(imageFD, unix.F_DUPFD_CLOEXEC, highFD)
	if err != nil {
		return 0, fmt.Errorf("the program's copy: %w", err)
	}
	input, err := o.input()
	if err != nil {
		return 0, err
	}
	files := []uintptr{input, 1, 1}
	if o.Script {
		files = append(files, scriptFD)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.Switch {
		attr.Credential = &syscall.Credential{Uid: o.UID, Gid: o.GID, Groups: o.Groups}
	}
	pid, err := syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", image), o.Argv,
		&syscall.ProcAttr{Dir: o.Dir, Env: o.Env, Files: files, Sys: attr})
	if err != nil {
		return 0, fmt.Errorf("start in %s: %w", o.Dir, err)
	}
	return pid, nil
}

// input returns the descriptor of the program's standard input: a sealed copy of its own, or /dev/null.
func (o orders) input() (uintptr, error) {
	switch {
	case o.Input && o.Script:
		return scriptFD + 1, nil
	case o.Input:
		return scriptFD, nil
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return uintptr(fd), err
}

// attend waits for the end of the child, and ends it if the daemon orders that.
func (o orders) attend(pid int, said <-chan byte) syscall.WaitStatus {
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		ended <- status
	}()
	var late <-chan time.Time
	for {
		select {
		case status := <-ended:
			return status
		case b := <-said:
			if b == stopOrder {
				_ = syscall.Kill(-pid, syscall.SIGTERM)
				late = time.After(time.Duration(o.Grace) * time.Millisecond)
				continue
			}
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		case <-late:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}

// endRest kills every process that the child left. All that lost their parent became the
// warden's children.
func endRest() {
	for {
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			return // there are no children
		}
	}
}

// children lists the warden's own children, also the dead ones.
func children() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	var out []int
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			pid, atoiErr := strconv.Atoi(name)
			if atoiErr != nil {
				continue
			}
			if p, err := proc.ReadStat(pid); err == nil && p.Parent == os.Getpid() {
				out = append(out, pid)
			}
		}
		if err == io.EOF || err != nil {
			return out
		}
	}
}
