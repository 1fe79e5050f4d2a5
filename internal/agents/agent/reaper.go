package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"gated/internal/base/proc"
)

// The hidden arguments that make this program a part of Reaper: the middle process, which ends, and the orphan that it
// leaves.
const (
	betweenArg = "__gated_between"
	orphanArg  = "__gated_orphan"
)

// The descriptors of both processes.
const (
	reportFD = 3 // the orphan writes its parent's pid here
	goFD     = 4 // ends when the middle process has ended
)

// MaybeOrphan turns this process into a part of Reaper if it was started as such, and then does not return. Each
// program that calls Reaper calls MaybeOrphan first; its tests call it in TestMain.
func MaybeOrphan() {
	if len(os.Args) != 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case betweenArg:
		err = startSelf(orphanArg, os.NewFile(reportFD, "report"), os.NewFile(goFD, "go")).Start()
	case orphanArg:
		if _, err = io.Copy(io.Discard, os.NewFile(goFD, "go")); err == nil {
			_, err = fmt.Fprintln(os.NewFile(reportFD, "report"), os.Getppid())
		}
	default:
		return
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// startSelf returns a command that runs this program again, even if its file was replaced.
func startSelf(arg string, report, start *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", arg)
	cmd.ExtraFiles = []*os.File{report, start}
	return cmd
}

// Reaper returns the pid of the process that gets this one's orphans: the nearest ancestor that is a subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER), else pid 1. It makes an orphan to measure it. There is no other way: the kernel
// tells a process only about itself.
func Reaper(ctx context.Context) (pid int, err error) {
	report, reportEnd, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	start, startEnd, err := os.Pipe()
	if err != nil {
		_ = reportEnd.Close()
		return 0, err
	}
	defer startEnd.Close()
	cmd := startSelf(betweenArg, reportEnd, start)
	err = cmd.Start()
	_ = reportEnd.Close()
	_ = start.Close()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill()
		_ = report.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	// After this Wait the orphan has lost its parent.
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("measure the reaper of orphans: %w", errors.Join(err, ctx.Err()))
	}
	if err := startEnd.Close(); err != nil {
		return 0, err
	}
	b, err := io.ReadAll(io.LimitReader(report, 32))
	if err != nil {
		return 0, fmt.Errorf("measure the reaper of orphans: %w", errors.Join(err, ctx.Err()))
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return 0, errors.New("measure the reaper of orphans: the orphan said nothing")
	}
	pid, err = strconv.Atoi(string(b[:len(b)-1]))
	if err != nil {
		return 0, fmt.Errorf("measure the reaper of orphans: %w", err)
	}
	return pid, nil
}

// Restore enters the registrations from before the daemon's restart, and returns them in two parts: those that live,
// and those that ended meanwhile. It does not enter the ended ones, nor call Config.Ended for them. A process is the
// same if its pid, start time and boot id are the same. Tokens live.
//
// It is called once, before any registration. An error means that Restore could not tell whether a process lives; then
// it enters nothing.
func (r *Registry) Restore(list []Registration) (alive, ended []Registration, err error) {
	r.admission.Lock()
	defer r.admission.Unlock()
	var found []*entry
	defer func() {
		if err != nil {
			for _, e := range found {
				e.drop()
			}
		}
	}()
	for _, reg := range list {
		e, err := r.find(reg)
		if err != nil {
			return nil, nil, err
		}
		if e == nil {
			ended = append(ended, reg)
			continue
		}
		found = append(found, e)
		alive = append(alive, reg)
	}
	for i, e := range found {
		if err := r.enter(e); err != nil {
			found = found[i:] // the earlier ones are entered, and Close ends them
			return nil, nil, err
		}
	}
	return alive, ended, nil
}

// find returns an entry for a registration whose process still lives, or nil.
func (r *Registry) find(reg Registration) (*entry, error) {
	if reg.Process == (proc.ID{}) {
		return &entry{Registration: reg, committed: true}, nil
	}
	if reg.Process.Boot != r.cfg.Boot || r.blind != "" {
		return nil, nil
	}
	handle, err := r.cfg.Table.Open(reg.Process.PID, reg.Process.Start)
	if handle == nil || err != nil {
		return nil, err
	}
	e := &entry{Registration: reg, handle: handle, committed: true}
	if !e.alive() {
		e.drop() // a zombie
		return nil, nil
	}
	return e, nil
}

func (e *entry) drop() {
	if e.handle != nil {
		e.handle.Close()
	}
}
