package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/mint"
	"gated/internal/wire/convert"
)

// Under each flood of one uid, a signed step of another uid succeeds within
// floodStart milliseconds, and the daemon has at most floodRSS MiB resident.
const (
	floodStart = 2000
	floodRSS   = 300
)

// stranger is the uid that floods, if this program may become it.
const stranger = 65534

// flooded is the real daemon under one flood.
type flooded struct {
	*process
	dir    string // the state directory
	c      *conn
	flood  *exec.Cmd
	closed func() error // ends the flood
}

// floods measures how long a signed step waits while a uid floods the daemon, and
// how much memory the daemon has meanwhile.
func (b *bench) floods() error {
	for _, kind := range floodKinds {
		took, rss, err := b.under(kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		b.addf("signed step under "+kind.what, took, milliseconds, floodStart,
			"approved to succeeded; of uid %d", floodUID())
		b.addf("  resident memory, at the most", rss, mebibytes, floodRSS, "")
	}
	return nil
}

// floodUID is the uid that floods: another than the operator's, if this is root.
func floodUID() int {
	if os.Geteuid() == 0 {
		return stranger
	}
	return os.Geteuid()
}

// under approves the end of a guest during a flood. It returns how many milliseconds
// passed until the job had succeeded, and the most memory that was resident, in MiB.
func (b *bench) under(kind floodKind) (took, rss float64, err error) {
	f, err := b.flooding(kind.name)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err = errors.Join(err, f.end()); err == nil {
			err = b.consistent(f.dir)
		}
	}()
	approve, job, err := b.toApprove(f)
	if err != nil {
		return 0, 0, err
	}
	if err := f.begin(b, kind); err != nil {
		return 0, 0, err
	}
	began := now()
	if _, err := f.c.do(approve); err != nil {
		return 0, 0, err
	}
	err = until(b.ctx, 5*time.Millisecond, func() (bool, error) {
		answer, err := f.c.do(get("/v1/jobs/" + job))
		return bytes.Contains(answer, []byte(succeeded)), err
	})
	if err != nil {
		return 0, 0, err
	}
	took = inMillis(now().Sub(began))
	// The flood goes on until it has as much of the daemon's memory as it can get.
	if err := idle(b.ctx, b.size.idleTime); err != nil {
		return 0, 0, err
	}
	rss, err = f.resident("VmHWM")
	return took, rss, err
}

// flooding starts a daemon with one guest and a catalogue of commands.
func (b *bench) flooding(kind string) (*flooded, error) {
	dir, err := b.state("floods-" + kind)
	if err != nil {
		return nil, err
	}
	if err := configureFloods(dir); err != nil {
		return nil, err
	}
	at, err := os.MkdirTemp("", "gated-flood-") // because the stranger may enter it
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at, 0o711); err != nil {
		return nil, err
	}
	p, _, err := b.daemon(dir, socketIn(at))
	if err != nil {
		return nil, err
	}
	f := &flooded{process: p, dir: dir, closed: func() error { return nil }}
	if f.c, err = dial(p.socket); err != nil {
		return nil, errors.Join(err, f.end())
	}
	return f, nil
}

// configureFloods adds slow commands and one with a slow probe, and lets the stranger
// connect.
func configureFloods(dir string) error {
	path := filepath.Join(dir, "gated.yaml")
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = fmt.Sprintf(", user: %q", strconv.Itoa(stranger))
		have = bytes.Replace(have, []byte("\nsingle_user: true\n"), []byte("\nsingle_user: false\n"), 1)
		have = append(have, "\nsocket_group: nogroup\n"...)
	}
	have = append(have, "\ncommands:\n"...)
	for i := range floodTargets {
		have = fmt.Appendf(have, "  slow%d: {argv: [/bin/sleep, \"10\"], benign: true%s}\n", i, user)
	}
	have = fmt.Appendf(have, "  probed: {argv: [/bin/echo, \"{n}\"], probe: [/bin/sleep, \"1\"], "+
		"params: {n: {type: integer, min: 0, max: 100000}}%s}\n", user)
	return os.WriteFile(path, have, 0o600)
}

// toApprove makes a guest and asks for its end. It returns the call that approves the
// end, and the job.
func (b *bench) toApprove(f *flooded) (approve []byte, job string, err error) {
	submit := func(name string) (string, error) {
		request, err := post("/v1/jobs", convert.SubmitOf("", op.Ask{Op: name, Target: op.Target{Kind: "guest", Name: "victim"}}))
		if err != nil {
			return "", err
		}
		answer, err := f.c.do(request)
		return between(answer, `"id":"`), err
	}
	made, err := submit("guest.create")
	if err == nil {
		err = until(b.ctx, 5*time.Millisecond, func() (bool, error) {
			answer, err := f.c.do(get("/v1/jobs/" + made))
			return bytes.Contains(answer, []byte(succeeded)), err
		})
	}
	if err == nil {
		job, err = submit("guest.destroy")
	}
	if err != nil {
		return nil, "", err
	}
	payload, err := f.c.do(get("/v1/requests/" + job + ".1/payload"))
	if err != nil {
		return nil, "", err
	}
	payload = bytes.Clone(payload)
	k := b.keys.plain
	armor := mint.Unsigned(k.names, op.Operational.Namespace()).By(must{}, k.Key, payload).Armored()
	approve, err = post("/v1/requests/"+job+".1/approve", api.EnvelopeOf(payload, armor))
	return approve, job, err
}

// begin starts the flood, and waits until the flood reports that it is on.
func (f *flooded) begin(b *bench, kind floodKind) error {
	// Not by its path, because go run puts this program into a directory of mode 0700.
	f.flood = exec.CommandContext(b.ctx, "/proc/self/exe", FloodArg, f.socket, kind.name)
	f.flood.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Geteuid() == 0 {
		f.flood.SysProcAttr.Credential = &syscall.Credential{Uid: stranger, Gid: stranger, NoSetGroups: true}
	}
	f.flood.Dir, f.flood.Stderr = "/", os.Stderr
	in, err := f.flood.StdinPipe()
	if err != nil {
		return err
	}
	out, err := f.flood.StdoutPipe()
	if err != nil {
		return err
	}
	if err := f.flood.Start(); err != nil {
		return err
	}
	f.closed = func() error {
		err := in.Close()
		_ = f.flood.Wait() // it ends with its input, with whatever status
		return err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the flood did not begin: %w", err)
	}
	if kind.path != "" {
		err := until(b.ctx, 20*time.Millisecond, func() (bool, error) {
			answer, err := f.c.do(get(kind.path))
			return bytes.Contains(answer, []byte(kind.says)), err
		})
		if err != nil {
			return err
		}
	}
	return clearPeak(f.pid())
}

func (f *flooded) end() error {
	err := f.closed()
	if f.c != nil {
		err = errors.Join(err, f.c.Close())
	}
	return errors.Join(err, f.stop(), os.RemoveAll(filepath.Dir(f.socket)))
}

// clearPeak has the kernel begin VmHWM anew (proc(5)).
func clearPeak(pid string) error { return os.WriteFile("/proc/"+pid+"/clear_refs", []byte("5"), 0) }
