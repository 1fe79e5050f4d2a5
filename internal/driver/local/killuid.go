package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/proc"
)

// killArg is the hidden first argument that makes this program kill all processes of a uid.
const killArg = "__gated_kill_uid"

// killerWait bounds one killer. A process of its uid could stop it, where neither Landlock nor a filter forbids that. Then
// another one is tried.
const killerWait = 3 * time.Second

// endUID ends all processes of a guest's own uid. It returns nil only if the kernel proves that
// none is left.
//
// One kill(-1) by a process of that uid reaches all of them in one step: while the kernel walks
// its list, no process can be made. A process with SIGKILL waiting for it never makes another
// (copy_process fails). So after that kill each process that is left is on its way out, and a
// walk through /proc finds it, unless /proc hides it. The proof is then either that the kernel
// has no process of the uid, or that /proc shows some and all of them have ended: an init that
// collects nobody keeps those for ever.
func (d *Driver) endUID(ctx context.Context, inc op.Incarnation, uid uint32) error {
	return d.awaitUID(ctx, inc, uid, d.killUID(ctx, inc, uid))
}

// errNoneYet is why killUID killed nothing.
var errNoneYet = errors.New("no process had it")

// killUID kills all processes of a guest's own uid at once.
func (d *Driver) killUID(ctx context.Context, inc op.Incarnation, uid uint32) error {
	if none, err := proc.NoneOf(uid); err != nil {
		return err
	} else if none {
		return errNoneYet
	}
	if err := d.checkKill(inc, uid); err != nil {
		return err
	}
	return killAllOf(ctx, uid)
}

// awaitUID is endUID after a first kill. It kills again if that kill proves nothing.
func (d *Driver) awaitUID(ctx context.Context, inc op.Incarnation, uid uint32, killed error) error {
	for ; ; killed = d.killUID(ctx, inc, uid) {
		if none, err := proc.NoneOf(uid); none || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("processes of uid %d do not end", uid), killed, ctx.Err())
		}
		if err := d.checkKill(inc, uid); err != nil {
			return err
		}
		if killed != nil {
			select { // a killer that cannot start, or that refuses, is not tried all the time
			case <-time.After(huntPause):
			case <-ctx.Done():
			}
		}
		for range 2 { // the first walk waits for those that were just killed
			seen, alive, err := endSeen(ctx, uid)
			if err != nil {
				return errors.Join(err, killed)
			}
			if killed == nil && seen > 0 && alive == 0 {
				return nil
			}
		}
	}
}

// checkKill is the guard of that kill. It refuses every uid that does not belong to this guest alone.
// What a run had may be another guest's by now.
func (d *Driver) checkKill(inc op.Incarnation, uid uint32) error {
	owners := 0
	uuid, _, _ := strings.Cut(string(inc), ":")
	d.uids.mu.Lock()
	theirs := d.uids.table.Held[uuid] != uid
	for _, held := range d.uids.table.Held {
		if held == uid {
			owners++
		}
	}
	d.uids.mu.Unlock()
	why := ""
	switch {
	case uid == 0:
		why = "it is root's"
	case uid == uint32(os.Geteuid()) || uid == uint32(os.Getuid()):
		why = "it is the daemon's own"
	case uid == overflowUID || uid == 1<<32-1:
		why = "it is no user's"
	case !d.uids.in.has(uid):
		why = fmt.Sprintf("local.guest_uids %s does not have it", d.uids.in)
	case owners != 1:
		why = fmt.Sprintf("%d guests have it", owners)
	case theirs:
		why = "it is another guest's"
	}
	for name, a := range d.accounts {
		if a.Switch && a.UID == uid {
			why = fmt.Sprintf("the command %s runs as it", name)
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("the processes of uid %d are not killed: %s", uid, why)
}

// killAllOf kills all processes of a uid at once. The killer is this program again. It becomes
// the uid after its exec, so that a process of that uid cannot trace it.
func killAllOf(ctx context.Context, uid uint32) error {
	ctx, cancel := context.WithTimeout(ctx, killerWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", killArg, strconv.FormatUint(uint64(uid), 10))
	cmd.Args[0] = "gated"
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, AmbientCaps: handed()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kill all processes of uid %d: %w: %s", uid, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// maybeKill turns this process into the killer if it was started as one. Then it does not
// return.
func maybeKill() {
	if len(os.Args) != 3 || os.Args[1] != killArg {
		return
	}
	runtime.LockOSThread() // capabilities belong to a thread
	if err := becomeAndKill(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0) // os.Exit would let the race detector of a test sleep for a second
}

// becomeAndKill becomes the uid and kills all of its processes except this one. With CAP_KILL
// left, or with another uid among its own, it would kill others, too. So it checks both.
func becomeAndKill(text string) error {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return err
	}
	uid := uint32(n)
	if uid == 0 || int(uid) == os.Getuid() || int(uid) == os.Geteuid() {
		return fmt.Errorf("uid %d is root's or the daemon's own", uid)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := dropPrivileges(account{Switch: true, UID: uid, GID: uid}); err != nil {
		return err
	}
	// Getresuid has an int32 of the kernel's number, so a uid from 1<<31 on is negative there.
	if r, e, s := unix.Getresuid(); uint32(r) != uid || uint32(e) != uid || uint32(s) != uid {
		return fmt.Errorf("this process has the uids %d, %d and %d", uint32(r), uint32(e), uint32(s))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData // version 3 takes two
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if have != [2]unix.CapUserData{} {
		return errors.New("this process has capabilities left")
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

// endSeen kills each process of the uid that /proc shows, and waits for its end. That makes room
// if the uid's processes took every pid, so that no killer could start. It returns how many
// /proc showed and how many of them had not ended.
func endSeen(ctx context.Context, uid uint32) (seen, alive int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || uidOf(pid) != uid {
			continue
		}
		p, err := openOf(pid, uid)
		if err != nil {
			return seen, alive, err
		}
		seen++
		if p == nil {
			continue // it ended
		}
		alive++
		err = errors.Join(p.Signal(unix.SIGKILL), p.Wait(ctx))
		p.Close()
		if err != nil {
			return seen, alive, fmt.Errorf("process %d of uid %d does not end: %w", pid, uid, err)
		}
	}
	return seen, alive, nil
}
