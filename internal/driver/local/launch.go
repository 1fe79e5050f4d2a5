package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
)

// launchWait bounds how long a process may take from fork to exec.
const launchWait = 30 * time.Second

// The limits that a run file names.
const (
	byCgroup  = "cgroup"
	byRlimits = "rlimits"
	byNothing = "none"
)

// start runs the guest's command. The child is this program again. It waits for its orders
// until its pid is on disk and it is in its cgroup. So a crash at any moment leaves no
// unrecorded process. start returns when the child has executed the command, or says why it did
// not.
func (d *Driver) start(ctx context.Context, g *guest) error {
	if err := d.settle(ctx, g); err != nil {
		return err
	}
	earlier, _ := d.lost.get(g.incarnation())
	cmd := d.cfg.Commands[g.Command]
	account, err := d.runsAs(ctx, g)
	if err != nil {
		return err
	}
	files, err := openLaunchFiles(g, account)
	if err != nil {
		return err
	}
	defer files.close()
	group, err := d.cgroups.group(g.spec)
	if err != nil {
		return err
	}
	pid, fd, err := files.fork(g.incarnation(), proc.NewFD)
	if err != nil {
		group.remove()
		return err
	}
	crashpoint.Here(crashpoint.StartForked)
	p := &process{FD: fd, target: op.Target{Kind: "guest", Name: g.name}, inc: g.incarnation(), uid: d.uids.of(g.UUID), group: group,
		run: runFile{PID: pid, Unproved: earlier.doubt}, done: make(chan struct{})}
	orders := orders{Argv: cmd.Argv, Env: cmd.environ(p.inc), Account: account, Memory: d.rlimit(g.spec), Landlock: d.landlock, Seccomp: d.seccomp}
	if err := d.release(ctx, g, p, pid, orders, files); err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpWait)
		defer cancel()
		return errors.Join(err, d.giveUp(last, g, p, files))
	}
	d.watch(p)
	return nil
}

// giveUpWait is how long giveUp waits for a child after SIGKILL.
const giveUpWait = 30 * time.Second

// giveUp ends a child whose start failed. If the start's time was over at a bad moment, the child has executed the command. Then
// processes of it may be left, as of any run. A child that has not ended when ctx ends may be left, too.
func (d *Driver) giveUp(ctx context.Context, g *guest, p *process, files *launchFiles) error {
	defer p.Close()
	if err := errors.Join(p.Signal(unix.SIGKILL), p.Wait(ctx)); err != nil {
		err = fmt.Errorf("process %d, which was to become the command, does not end: %w", p.run.PID, err)
		d.lost.add(lostGuest{name: g.name, inc: p.inc, uid: p.uid, group: p.group, tie: files.ready.tie, run: &p.run, verdict: verdict{err: err}})
		return err
	}
	p.Reap()
	most, _ := ctx.Deadline()
	err := errors.Join(files.ready.SetReadDeadline(most), files.ready.read()) // the child's end is closed
	p.tie = files.ready.tie
	if said, began := files.ready.heard(); err != nil || began && said == "" {
		d.endRest(p)
		if err != nil {
			err = fmt.Errorf("nothing says whether the command began, so processes of it were looked for: %w", err)
		}
		return err
	}
	p.tie.close()
	p.group.remove()
	if p.run.Unproved != "" {
		return nil // the run file keeps the doubt about an earlier run
	}
	if err := g.dir.unlink(runFileName, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// release records the child and then sends its orders.
func (d *Driver) release(ctx context.Context, g *guest, p *process, pid int, o orders, files *launchFiles) error {
	now, err := proc.ReadStat(pid)
	if err != nil {
		return err
	}
	p.run = runFile{PID: pid, Ticks: now.Start, BootID: d.cfg.BootID, StartedAt: d.cfg.Now().UTC(), Command: g.Command,
		Confined: d.landlock > 0, Memory: byNothing, CPUs: byNothing, UID: new(o.Account.uid()), Unproved: p.run.Unproved}
	if g.Memory > 0 {
		p.run.Memory = byRlimits
	}
	if d.cgroups.memory {
		p.run.Memory = byCgroup
	}
	if d.cgroups.cpu {
		p.run.CPUs = byCgroup
	}
	p.run.Group = p.group != "" && !p.run.grouped()
	if err := p.run.write(g.dir); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StartRecorded)
	if err := p.group.add(pid); err != nil {
		return err
	}
	byUID, byGroup := p.run.proved(p.uid)
	o.Tie = o.Seccomp && !byUID && !(byGroup && p.group.watched())
	err = files.send(ctx, o)
	p.tie = files.ready.tie
	crashpoint.Here(crashpoint.StartReleased)
	return err
}

// rlimit returns the limit of address space in bytes for a guest whose memory no cgroup limits.
// 0 means none.
func (d *Driver) rlimit(s spec) uint64 {
	if d.cgroups.memory {
		return 0
	}
	return uint64(s.Memory) << 20
}

// launchFiles are the descriptors of one launch, for parent and child.
type launchFiles struct {
	log, data, orders       *os.File // the parent's; so is ready
	ready                   *childWords
	childOrders, childReady *os.File // the child's
}

func openLaunchFiles(g *guest, a account) (_ *launchFiles, err error) {
	f := &launchFiles{}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.log, err = openLog(g.dir); err != nil {
		return nil, err
	}
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return nil, err
	}
	f.data = data.f
	if a.Switch {
		if err := f.data.Chown(int(a.UID), int(a.GID)); err != nil {
			return nil, err
		}
	}
	if f.childOrders, f.orders, err = os.Pipe(); err != nil {
		return nil, err
	}
	conn, child, err := readyPair()
	if err != nil {
		return nil, err
	}
	f.ready, f.childReady = &childWords{UnixConn: conn}, child
	return f, nil
}

func (f *launchFiles) close() {
	for _, file := range []*os.File{f.log, f.data, f.orders, f.childOrders, f.childReady} {
		if file != nil {
			_ = file.Close() // it has no buffered data
		}
	}
	if f.ready != nil {
		_ = f.ready.Close()
	}
}

// openLog opens the guest's log for appending. It first moves a large log away.
func openLog(d *dir) (*os.File, error) {
	if e, err := d.stat(logFile); err == nil && e.size > maxLog {
		if err := d.rename(logFile, d, logFile+oldLogExt, 0); err != nil {
			return nil, err
		}
	}
	return d.open(logFile, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, 0o600)
}

// fork starts the child in its own session. It returns the child's pid and the result of handle
// for its pidfd. The pid is also the number of the process group and the session. If handle
// fails, fork ends and reaps the child.
func (f *launchFiles) fork(inc op.Incarnation, handle func(fd int) (*proc.FD, error)) (int, *proc.FD, error) {
	var fd int
	// The path in /proc is this very program, also after an upgrade replaced its file.
	cmd := exec.Command("/proc/self/exe", childArg)
	cmd.Args[0] = "gated"
	cmd.Env = []string{markOf(inc)}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = f.log, f.log
	cmd.ExtraFiles = []*os.File{f.childOrders, f.data, f.childReady}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &fd, AmbientCaps: handed()}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	// The parent must close the only ends that are left open.
	_ = f.childOrders.Close()
	_ = f.childReady.Close()
	err := errors.New("the kernel gave no pidfd for a child (it has them from Linux 5.4)")
	var p *proc.FD
	if fd >= 0 {
		p, err = handle(fd)
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // fork killed it, so its error says nothing new
		return 0, nil, err
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Release() // the driver waits on the pidfd
	return pid, p, nil
}

// send gives the child its orders and waits until the child has executed the command. Then the
// child's end of the ready socket closes, and the child has said no error.
func (f *launchFiles) send(ctx context.Context, o orders) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	if _, err := f.orders.Write(b); err != nil {
		return err
	}
	if err := f.orders.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, launchWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = f.ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = f.ready.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	if said, _ := f.ready.heard(); err == nil && said != "" {
		return errors.New(said)
	}
	return err
}

// Command is an entry of the operator's local.commands.
type Command struct {
	Argv []string          // Argv[0] is an absolute path; gated expands nothing
	User string            // a name or a number; empty means the daemon's own user
	Env  map[string]string // the whole environment, except for GATED_GUEST
}

// account is the user that a command runs as.
type account struct {
	Switch bool   // whether the user is not the daemon's own
	UID    uint32 // without meaning if Switch is false; so is GID
	GID    uint32
}

// uid is the account's uid or the daemon's own.
func (a account) uid() uint32 {
	if a.Switch {
		return a.UID
	}
	return uint32(os.Geteuid())
}

// checkCommands refuses a command that could not run, so that the operator sees a wrong
// configuration when the daemon loads it. It returns the accounts by command name.
func checkCommands(commands map[string]Command) (map[string]account, error) {
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	sort.Strings(names)
	accounts := make(map[string]account, len(names))
	for _, name := range names {
		if op.CheckName(name) != nil {
			return nil, refusal.New(refusal.BadParams, "local.commands: %q is not a name", name)
		}
		a, err := commands[name].check()
		if err != nil {
			return nil, refusal.New(refusal.BadParams, "local.commands: %s: %v", name, err)
		}
		accounts[name] = a
	}
	return accounts, nil
}

func (c Command) check() (account, error) {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return account{}, fmt.Errorf("argv does not begin with an absolute path")
	}
	for _, s := range c.Argv {
		if strings.ContainsRune(s, 0) {
			return account{}, fmt.Errorf("argv holds a NUL")
		}
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) || k == markVar {
			return account{}, fmt.Errorf("the environment variable %q cannot be set", k)
		}
	}
	return lookupAccount(c.User)
}

// lookupAccount finds a user by name or number. Only root can change to another user.
func lookupAccount(name string) (account, error) {
	if name == "" {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return account{}, fmt.Errorf("there is no user %q", name)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %q has the uid %q", name, u.Uid)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %q has the gid %q", name, u.Gid)
	}
	if uid == 0 {
		return account{}, fmt.Errorf("root runs no guest's command")
	}
	own := os.Geteuid()
	if int(uid) == own {
		return account{}, nil
	}
	if !switches() {
		return account{}, fmt.Errorf("only root, or a daemon with root's capabilities (contrib/systemd/guests.conf), can run it as %s", name)
	}
	return account{Switch: true, UID: uint32(uid), GID: uint32(gid)}, nil
}

// environ returns the environment of a guest's process. It has the command's variables, and the
// mark that finds stray processes. It has nothing of the daemon's own environment.
func (c Command) environ(inc op.Incarnation) []string {
	env := make([]string, 0, len(c.Env)+1)
	for k, v := range c.Env {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return append(env, markOf(inc))
}
