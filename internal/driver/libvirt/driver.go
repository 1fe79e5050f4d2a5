package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Driver is the libvirt driver. It is safe for concurrent use.
type Driver struct {
	cfg  Config
	ops  []string // the operations that have a preparer
	idle chan *session
}

var _ driver.Backend = (*Driver)(nil)

// New returns a driver. It needs no libvirtd yet: while libvirtd is away its guests are
// unknown, and each look asks again. It refuses templates that could not be used, with
// BadParams.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, ops: operations(), idle: make(chan *session, maxIdle)}, nil
}

// Close ends the idle connections. Guests go on.
func (d *Driver) Close() error {
	for {
		select {
		case s := <-d.idle:
			s.close()
		default:
			return nil
		}
	}
}

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Name returns "libvirt".
func (d *Driver) Name() string { return "libvirt" }

// Task reports that there is no such task, because all work of this driver is done when an
// action returns.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "the libvirt driver has no task %q", task)
}

// oldest is the oldest libvirt that this driver was tried with. libvirt counts 1,000,000 for
// each major version and 1,000 for each minor one.
const oldest = 9_000_000

// Check looks if libvirtd answers and has everything that templates name.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	var out findings
	err := d.with(ctx, func(s *session) error {
		out.add("reachable", driver.OK, "libvirtd answers at "+d.cfg.Socket, "")
		for _, look := range []func(context.Context, *session, *findings) error{d.checkVersion, d.checkRights, d.checkPools, d.checkTemplates} {
			if err := look(ctx, s, &out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		out.add("reachable", driver.Bad, fmt.Sprintf("libvirtd at %s: %v", d.cfg.Socket, err), d.reachHint())
	}
	return out
}

type findings []driver.Finding

func (f *findings) add(what string, state driver.State, detail, hint string) {
	*f = append(*f, driver.Finding{What: what, State: state, Detail: detail, Hint: hint})
}

// reachHint says why this daemon cannot use the socket.
func (d *Driver) reachHint() string {
	_, err := os.Stat(d.cfg.Socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket: start libvirtd (systemctl start libvirtd.socket), or name its socket under libvirt.socket"
	case errors.Is(err, fs.ErrPermission):
		return "the daemon's user may not reach it: add it to the group libvirt"
	}
	return "is libvirtd hung, the daemon's user not in the group libvirt, or does something else listen there?"
}

func (d *Driver) checkVersion(ctx context.Context, s *session, out *findings) error {
	lib, err := call(ctx, s, func(lv *golibvirt.Libvirt) (uint64, error) { return lv.ConnectGetLibVersion() })
	if err != nil {
		return err
	}
	state, hint := driver.OK, ""
	if lib < oldest {
		state, hint = driver.Note, "this driver was tried with 9.0.0 and later"
	}
	out.add("version", state, fmt.Sprintf("libvirt %d.%d.%d", lib/1e6, lib/1e3%1e3, lib%1e3), hint)
	return nil
}

// checkRights makes calls that libvirtd refuses on a read-only connection.
func (d *Driver) checkRights(ctx context.Context, s *session, out *findings) error {
	_, err := call(ctx, s, func(lv *golibvirt.Libvirt) ([]golibvirt.Domain, error) {
		found, _, err := lv.ConnectListAllDomains(1, 0)
		if err != nil || len(found) == 0 {
			return found, err
		}
		_, err = lv.DomainGetXMLDesc(found[0], golibvirt.DomainXMLSecure|golibvirt.DomainXMLInactive)
		return found, err
	})
	if errors.Is(err, errAway) {
		return err
	}
	if said(err, golibvirt.ErrOperationDenied) || strings.HasSuffix(d.cfg.Socket, "-sock-ro") {
		out.add("permissions", driver.Bad, d.cfg.Socket+" is the read-only socket: no guest can be changed through it",
			"name the read-write one under libvirt.socket: "+DefaultSocket)
		return nil
	}
	if err != nil && !said(err, golibvirt.ErrNoDomain) {
		out.add("permissions", driver.Bad, "libvirtd refuses to show a domain: "+err.Error(), "use the read-write socket, "+DefaultSocket)
		return nil
	}
	out.add("permissions", driver.OK, "domains can be read as they are kept", "")
	return nil
}

func (d *Driver) checkPools(ctx context.Context, s *session, out *findings) error {
	pools := map[string]bool{d.cfg.Pool: true}
	for _, t := range d.cfg.Templates {
		pools[t.Pool] = true
	}
	w := &work{Driver: d, session: s}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		pool, err := w.pool(ctx, name)
		if errors.Is(err, errAway) {
			return err
		}
		if err != nil {
			out.add("pool "+name, driver.Bad, err.Error(), poolHint(name, err))
			continue
		}
		free, err := call(ctx, s, func(lv *golibvirt.Libvirt) (uint64, error) {
			_, _, _, free, err := lv.StoragePoolGetInfo(pool)
			return free, err
		})
		if err != nil {
			return err
		}
		dir, err := poolPath(ctx, s, pool)
		if err != nil {
			return err
		}
		if weakPlace(dir) {
			out.add("pool "+name, driver.Note, dir+" keeps no birth times of files that this daemon can read: a disk cannot be told from a later one, and no guest is made there",
				"another file system (ext4 with inodes of 256 bytes, XFS, Btrfs), or let the daemon search that directory")
			continue
		}
		out.add("pool "+name, driver.OK, driver.Size(int64(min(free, 1<<62)))+" free", "")
	}
	return nil
}

// poolHint says how to start a pool, or how to define and start it. A pool that is only
// inactive is defined already.
func poolHint(name string, err error) string {
	start := "virsh pool-start " + name + "; virsh pool-autostart " + name
	if errors.Is(err, refusal.Unavailable) {
		return start
	}
	return "virsh pool-define-as " + name + " dir --target DIRECTORY; " + start
}

// checkTemplates looks if the machine can run guests made from the templates.
func (d *Driver) checkTemplates(ctx context.Context, s *session, out *findings) error {
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Templates)) {
		t := d.cfg.Templates[name]
		_, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) {
			return lv.ConnectGetDomainCapabilities(nil, nil, optional(t.Machine), golibvirt.OptString{t.Type}, 0)
		})
		if errors.Is(err, errAway) {
			return err
		}
		if err != nil {
			out.add("template "+name, driver.Bad, "libvirtd has no emulator for it: "+strings.TrimSpace(err.Error()),
				"install qemu-system, load the module kvm, or set its type to qemu, which emulates")
			continue
		}
		if t.Network != "" {
			if err := checkNetwork(ctx, s, t.Network); errors.Is(err, errAway) {
				return err
			} else if err != nil {
				out.add("template "+name, driver.Bad, fmt.Sprintf("the network %s: %v", t.Network, err), "virsh net-start "+t.Network)
				continue
			}
		}
		out.add("template "+name, driver.OK, "can be run", "")
	}
	return nil
}

func optional(s string) golibvirt.OptString {
	if s == "" {
		return nil
	}
	return golibvirt.OptString{s}
}

func checkNetwork(ctx context.Context, s *session, name string) error {
	active, err := call(ctx, s, func(lv *golibvirt.Libvirt) (int32, error) {
		n, err := lv.NetworkLookupByName(name)
		if err != nil {
			return 0, err
		}
		return lv.NetworkIsActive(n)
	})
	if err == nil && active == 0 {
		err = errors.New("it is not active")
	}
	return err
}

// Prepare refuses a step that cannot work. Its action runs to its end and never leaves a task.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, do, err := d.prepare(ctx, step, cleanup)
	return now, driver.Does(do), err
}

func (d *Driver) prepare(ctx context.Context, step op.Step, cleanup func(func())) (
	now op.Observed, do driver.Work, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, nil, refusal.New(refusal.UnknownOp, "the libvirt driver does not know %q", step.Op)
	}
	s, err := d.session(ctx)
	if err != nil {
		return now, nil, d.unavailable(err)
	}
	cleanup(func() { d.release(s) })
	w := &work{Driver: d, session: s, step: step}
	act, now, err := w.prepare(ctx, prepare)
	if err != nil {
		return now, nil, d.unavailable(err)
	}
	return now, func(ctx context.Context) (driver.Result, error) {
		err := act(ctx)
		return driver.Result{Detail: w.detail}, w.worded(err)
	}, nil
}

// work is one step that the driver carries out.
type work struct {
	*Driver
	session *session
	step    op.Step
	guest   *guest // nil for a step that makes one
	begun   bool   // the step changed something
	detail  string
}

// action does a step's work after its permit was used.
type action func(context.Context) error

// preparers check what a step needs and change nothing. They return the function that does the
// step.
var preparers = map[string]func(*work, context.Context) (action, error){
	"guest.create":          (*work).create,
	"guest.start":           (*work).start,
	"guest.stop":            (*work).stop,
	"guest.restart":         (*work).restart,
	"guest.set-config":      (*work).setConfig,
	"guest.snapshot":        (*work).snapshot,
	"guest.snapshot-delete": (*work).snapshotDelete,
	"guest.restore":         (*work).restore,
	"guest.wipe":            (*work).wipe,
	"guest.disk-create":     (*work).diskCreate,
	"guest.disk-resize":     (*work).diskResize,
	"guest.disk-wipe":       (*work).diskWipe,
	"guest.disk-detach":     (*work).diskDetach,
	"guest.disk-delete":     (*work).diskDelete,
	"guest.destroy":         (*work).destroy,
}

// suits refuses parameters that are wrong whatever the guest's state is.
func suits(step op.Step) error {
	if c := step.Params.Str("command"); c != "" {
		return refusal.New(refusal.BadParams, "a guest of libvirt runs no command of gated.yaml (%s)", op.Shown(c))
	}
	if name := step.Params.Str("disk"); step.Op == "guest.disk-create" && !newDiskName().MatchString(name) {
		return refusal.New(refusal.BadParams, "%q is not the name of a new disk (vda to vdzz)", name)
	}
	return nil
}

func operations() []string { return slices.Sorted(maps.Keys(preparers)) }

// prepare looks at the target. It refuses what Permit.Use would refuse, because its own words
// say more.
func (w *work) prepare(ctx context.Context, prepare func(*work, context.Context) (action, error)) (action, op.Observed, error) {
	g, now, err := w.look(ctx, w.session, w.step.Look())
	if err != nil {
		return nil, now, err
	}
	if w.guest = g; g != nil {
		now.Facts, now.Missing = g.facts(), g.missing(w.step.Look())
	}
	if err := cmp.Or(driver.Fits(w.step, now), suits(w.step)); err != nil {
		return nil, now, err
	}
	act, err := prepare(w, ctx)
	return act, now, err
}

// do makes a call that changes something. long is for a call that may take a long time.
func (w *work) do(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(do(ctx, w.session, fn))
}

func (w *work) long(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(long(ctx, w.session, fn))
}

// mark remembers that the step changed something. If libvirtd refused the call, nothing
// changed. If libvirtd did not answer, the driver does not know, and counts it as a change.
func (w *work) mark(err error) error {
	if err == nil || errors.Is(err, errAway) {
		w.begun = true
	}
	return err
}

// worded says how the work ended. If the step fails after its first change, the target is
// neither as it was nor as it should be.
func (w *work) worded(err error) error {
	switch {
	case err == nil:
		return nil
	case w.begun || errors.Is(err, errAway):
		return driver.Unknown(fmt.Errorf("libvirt: %w", err))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		said(err, golibvirt.ErrOperationTimeout, golibvirt.ErrOperationAborted):
		return driver.Transient(fmt.Errorf("libvirt: %w", err))
	}
	return fmt.Errorf("libvirt: %w", err)
}
