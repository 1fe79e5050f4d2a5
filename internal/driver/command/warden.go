package command

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	scriptFD = 6
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
		Grace: grace.Milliseconds()}
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
	ends := make(chan os.Signal, 1) // holds one, also if several have ended
	signal.Notify(ends, unix.SIGCHLD)
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
	status := o.attend(pid, ends, said)
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
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	files := []uintptr{null.Fd(), 1, 1}
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

// attend waits for the end of the child, and ends it if the daemon orders that. One goroutine collects the child and
// sends the signals. Until the child is collected, its number and its group's are no other process's.
func (o orders) attend(pid int, ends chan os.Signal, said <-chan byte) syscall.WaitStatus {
	var late <-chan time.Time
	for {
		select {
		case <-ends:
			status, one := collect()
			if one == pid || one < 0 {
				return status
			}
			if one > 0 { // there may be more, but a command that leaves children without pause must not hold an order up
				select {
				case ends <- unix.SIGCHLD:
				default:
				}
			}
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

// collect collects one child that has ended. It returns 0 if there is none, and -1 if there is no child at all. Those that lost
// their parent came to the warden.
func collect() (status syscall.WaitStatus, pid int) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return status, pid
		}
	}
}

// endRest kills every process that the child left. All that lost their parent became the
// warden's children, so the kernel proves their end: there is no child left to wait for. It never
// gives up, because nothing else knows these processes. One that forks without pause can escape a
// kill many times, so endRest looks again at once.
func endRest() {
	killed := map[int]bool{}
	for {
		fresh := false
		for _, pid := range children() {
			if !killed[pid] {
				killed[pid], fresh = true, true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		how := syscall.WNOHANG
		if !fresh {
			how = 0 // all that it knows are on their way out
		}
		for {
			pid, err := syscall.Wait4(-1, nil, how, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				return // there are no children
			}
			if pid == 0 {
				break
			}
			delete(killed, pid)
			how = syscall.WNOHANG
		}
	}
}

// children lists the warden's own children, also the dead ones. The kernel has a list for each
// thread (proc_pid_children(5)). If it has none, every process is asked for its parent.
func children() []int {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		return childrenByParent()
	}
	var out []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended, and another one has its children
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

func childrenByParent() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := proc.ReadStat(pid); err == nil && p.Parent == os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}
