package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/refusal"
)

// Bounds on waiting for events that should come at once.
const (
	killWait  = 10 * time.Second // for a warden that kills everything
	drainWait = 2 * time.Second  // for the end of the output, when no process is left that writes
	maxReport = 64 << 10         // bytes
)

// job is one run of a program.
type job struct {
	program *program
	argv    []string // as the entry has them; the first is the program's path
	env     map[string]string
	dir     string
	as      account
	timeout time.Duration
	limit   int // bytes of output
}

// ending is the end of a run. At most one of err, cut and signal is set.
type ending struct {
	err     error          // nothing ran
	cut     string         // nobody knows how far it came, and why: "took longer than 10s and was ended"
	signal  syscall.Signal // the signal that ended it, if gated did not send it
	status  int            // its exit status
	printed *capture
}

// run runs a program until its end, or ends it.
func (d *Driver) run(ctx context.Context, j job) ending {
	printed := &capture{limit: j.limit}
	if err := ctx.Err(); err != nil {
		return ending{err: err, printed: printed}
	}
	p, err := openPipes()
	if err != nil {
		return ending{err: err, printed: printed}
	}
	defer p.close()
	warden, err := p.start(j)
	if err != nil {
		return ending{err: err, printed: printed}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(printed, p.output) // the report says how it ended
	}()
	reported := make(chan report, 1)
	go func() { reported <- readReport(p.report) }()
	err = p.send(ordersOf(j, d.cfg.Grace))
	e := d.await(ctx, j, p, reported)
	go func() { _ = warden.Wait() }() // it has reported all that it had to say, or it goes on killing what is left
	defer time.AfterFunc(drainWait, func() { _ = p.output.SetReadDeadline(time.Unix(1, 0)) }).Stop()
	<-drained
	if e.printed = printed; err != nil && e.err == nil {
		e.cut = "was not given its orders: " + err.Error()
	}
	return e
}

// await waits for the warden's report. If the program takes too long, the warden must end it.
func (d *Driver) await(ctx context.Context, j job, p *pipes, reported <-chan report) ending {
	timer := time.NewTimer(j.timeout)
	defer timer.Stop()
	cut := ""
	select {
	case r := <-reported:
		return r.ending()
	case <-timer.C:
		cut = fmt.Sprintf("took longer than %s and was ended", j.timeout)
	case <-ctx.Done():
		cut = "was ended: the daemon waits no longer"
	}
	_, _ = p.orders.Write([]byte{stopOrder}) // a warden that is gone needs no order
	last := time.NewTimer(d.cfg.Grace + killWait)
	defer last.Stop()
	select {
	case r := <-reported:
		if e := r.ending(); e.err != nil {
			return e
		}
	case <-last.C:
		cut += ", and it is not known to be gone" // only the warden could tell, so it stays
	}
	return ending{cut: cut}
}

// pipes are the ends of the daemon and of the warden.
type pipes struct {
	orders, report, output                   *os.File
	wardenOrders, wardenReport, wardenOutput *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	var err error
	if p.wardenOrders, p.orders, err = os.Pipe(); err == nil {
		if p.report, p.wardenReport, err = os.Pipe(); err == nil {
			p.output, p.wardenOutput, err = os.Pipe()
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.orders, p.report, p.output, p.wardenOrders, p.wardenReport, p.wardenOutput} {
		if f != nil {
			_ = f.Close() // it has no buffered data
		}
	}
}

// start starts the warden, with the sealed copies and its ends of the pipes.
func (p *pipes) start(j job) (*exec.Cmd, error) {
	// The path in /proc is this very program, also after an upgrade replaced its file.
	cmd := exec.Command("/proc/self/exe", wardenArg)
	cmd.Args[0] = "gated"
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = p.wardenOutput, p.wardenOutput
	cmd.ExtraFiles = []*os.File{p.wardenOrders, p.wardenReport, j.program.image}
	if r := j.program.reader; r != nil {
		cmd.ExtraFiles = []*os.File{p.wardenOrders, p.wardenReport, r.image, j.program.image}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !j.as.Own { // so that it can open /dev/stderr, which is this pipe
		if err := p.wardenOutput.Chown(int(j.as.UID), int(j.as.GID)); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range []**os.File{&p.wardenOrders, &p.wardenReport, &p.wardenOutput} { // the daemon keeps only its own ends
		_ = (*f).Close()
		*f = nil
	}
	return cmd, nil
}

func (p *pipes) send(o orders) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = p.orders.Write(append(b, '\n'))
	return err
}

// readReport returns the warden's last report. If the warden sent none, the report is lost.
func readReport(f *os.File) report {
	b, err := io.ReadAll(io.LimitReader(f, maxReport))
	var r report
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(b), &r, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return report{Lost: true}
	}
	return r
}

func (r report) ending() ending {
	switch {
	case r.Lost:
		return ending{cut: "was lost sight of: what watched it was ended itself"}
	case r.Error != "":
		return ending{err: errors.New(r.Error)}
	default:
		return ending{status: r.Status, signal: syscall.Signal(r.Signal)}
	}
}

// account is the user that a command runs as.
type account struct {
	Name   string // as the entry names it; empty is the daemon's own
	Own    bool   // it is the daemon's own user, so nothing is switched
	UID    uint32
	GID    uint32
	Groups []uint32 // sorted
}

// accountOf looks up an entry's user again for each call. Only root can change to another user.
// The daemon's own user is refused, because a command that runs as that user could sign for
// itself.
func (d *Driver) accountOf(name string) (account, error) {
	own := os.Geteuid()
	if name == "" {
		name = strconv.Itoa(own)
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return account{}, refusal.New(refusal.Unavailable, "there is no user %q", name).
				WithHint("add the user, or name another in gated.yaml")
		}
	}
	a := account{Name: u.Username}
	if a.UID, err = number(u.Uid); err == nil {
		a.GID, err = number(u.Gid)
	}
	if err != nil {
		return account{}, refusal.New(refusal.Unavailable, "the user %q has no numbers for uid and gid", name)
	}
	switch {
	case int(a.UID) == own && !d.cfg.SingleUser:
		return account{}, refusal.New(refusal.NotAllowed,
			"it would run as gated's own user, %s, and could change the gate itself", u.Username).
			WithHint("give it a user of its own in gated.yaml")
	case int(a.UID) == own:
		a.Own = true
		return a, nil
	case own != 0:
		return account{}, refusal.New(refusal.Unavailable, "only root can run it as %s", name).WithHint("run gated as root")
	}
	return a, a.join(u)
}

// join adds the groups that the user has after a login.
func (a *account) join(u *user.User) error {
	ids, err := u.GroupIds()
	if err != nil {
		return refusal.New(refusal.Unavailable, "the groups of %s are not known: %v", u.Username, err)
	}
	for _, id := range ids {
		n, err := number(id)
		if err != nil {
			return refusal.New(refusal.Unavailable, "a group of %s is %q", u.Username, id)
		}
		a.Groups = append(a.Groups, n)
	}
	slices.Sort(a.Groups)
	a.Groups = slices.Compact(a.Groups)
	return nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
