package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait.
const patience = time.Minute

var errTooLong = errors.New("it did not happen within a minute")

// until asks at once, and then after each interval, until the answer is true.
func until(ctx context.Context, every time.Duration, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// idle waits for d, or until ctx ends.
func idle(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// process is a daemon that this program started.
type process struct {
	cmd    *exec.Cmd
	socket string
}

// startProcess starts a daemon and waits until it answers. It returns the time between
// the two.
func startProcess(ctx context.Context, socket, program string, args ...string) (*process, time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	began := now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	p := &process{cmd, socket}
	err := until(ctx, 500*time.Microsecond, func() (bool, error) {
		c, err := dial(socket)
		var sys *net.OpError
		if errors.As(err, &sys) {
			return false, p.gone()
		}
		if err != nil {
			return false, err
		}
		_, err = c.do(get("/v1/status"))
		return err == nil, errors.Join(err, c.Close())
	})
	took := now().Sub(began)
	if err != nil {
		return nil, 0, errors.Join(err, p.stop())
	}
	return p, took, nil
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

// clockTicks is the kernel's USER_HZ, which is 100 on every machine (proc(5)).
const clockTicks = 100

// cpuOf is the CPU time that a process has used, 0 if the kernel does not say.
func cpuOf(pid string) time.Duration {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may have spaces; utime and stime are the 14th and
	// 15th field of the line.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks
}

// used is the CPU time of this process, to the microsecond.
func used() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// resident is a figure of a process's memory in MiB: VmRSS is what it has resident,
// VmHWM the most that it had (proc(5)).
func (p *process) resident(figure string) (float64, error) {
	status, err := os.ReadFile("/proc/" + p.pid() + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), figure+":")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("the kernel does not say %s", figure)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}

// gone is an error if the process has ended.
func (p *process) gone() error {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == nil && info.Signo != 0 {
		return fmt.Errorf("%s ended before it served", p.cmd.Path)
	}
	return err
}

// stop ends the daemon as a service manager would and waits for it.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}

// daemon starts the real daemon over a state directory, and says how long it took
// until it answered.
func (b *bench) daemon(dir, socket string) (p *process, took time.Duration, err error) {
	return startProcess(b.ctx, socket, b.program("gated"), "serve", "--state", dir, "--socket", socket)
}

// onGate has this program serve a gate over guests in memory while work runs, and
// returns the directory with the gate's database.
func (b *bench) onGate(name string, s Served, work func(p *process, dir string) error) (dir string, err error) {
	if dir, err = b.gateDir(name); err != nil {
		return "", err
	}
	s.Dir = dir
	mode := "decide"
	if s.Run {
		mode = "run"
	}
	profile := ""
	if b.Profiles != "" {
		profile = filepath.Join(b.Profiles, filepath.Base(s.Dir)+".pprof")
	}
	p, _, err := startProcess(b.ctx, socketIn(s.Dir), b.Self, "serve", s.Dir, strconv.Itoa(s.Guests), mode,
		strconv.Itoa(s.Threshold), profile)
	if err != nil {
		return "", err
	}
	return dir, errors.Join(work(p, dir), p.stop())
}
