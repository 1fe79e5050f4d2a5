package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The values of Observed.Running. Only List returns Unknown.
const (
	Running = "running"
	Stopped = "stopped"
	Absent  = "absent"
	Unknown = "unknown"
)

// errMoved says that a guest changed during the look.
var errMoved = refusal.New(refusal.Unavailable, "the guest changed while it was looked at")

// errGone says that a guest in the list does not exist any more.
var errGone = errors.New("gone")

// rows asks for the list of all guests that the token can see.
func (d *Driver) rows(ctx context.Context) ([]row, error) {
	list, err := d.api.list(ctx, "/cluster/resources", values{"type": "vm"})
	if err != nil {
		return nil, unreachable(err)
	}
	rows, err := rowsOf(list)
	for _, r := range rows {
		d.known.keep(r.vmid, r.name)
	}
	return rows, unreachable(err)
}

func (r row) path(parts ...string) string {
	return path(append([]string{"nodes", r.node, r.kind, fmt.Sprint(r.vmid)}, parts...)...)
}

// details looks at one guest. The error is errGone if the guest is not at its row's place.
func (d *Driver) details(ctx context.Context, r row) (*guest, error) {
	return d.read(ctx, r, normalise)
}

// outlineOf is details as far as outline goes.
func (d *Driver) outlineOf(ctx context.Context, r row) (*guest, error) {
	return d.read(ctx, r, outline)
}

// reading makes a guest of what Proxmox VE answers about it.
type reading func(r row, wished, current object, snapshots []object) (*guest, error)

func (d *Driver) read(ctx context.Context, r row, as reading) (*guest, error) {
	for try := 0; ; try++ {
		g, err := d.readOnce(ctx, r, as)
		if missing(err) {
			return nil, errGone
		}
		if !errors.Is(err, errMoved) || try > 0 {
			if err == nil {
				d.known.keep(g.vmid, g.name)
			}
			return g, unreachable(err)
		}
	}
}

func (d *Driver) readOnce(ctx context.Context, r row, as reading) (*guest, error) {
	wished, err := d.api.get(ctx, r.path("config"), nil)
	if err != nil {
		return nil, err
	}
	snapshots, err := d.api.list(ctx, r.path("snapshot"), nil)
	if err != nil {
		return nil, err
	}
	// This is the last of the three requests: its digest proves that nothing changed since the
	// first.
	current, err := d.api.get(ctx, r.path("config"), values{"current": "1"})
	if err != nil {
		return nil, err
	}
	return as(r, wished, current, snapshots)
}

// state asks if a guest runs, because the list is some seconds late.
func (d *Driver) state(ctx context.Context, g *guest) error {
	o, err := d.api.get(ctx, g.path("status", "current"), nil)
	if missing(err) {
		return errGone
	}
	if err != nil {
		return unreachable(err)
	}
	g.status, g.ha, g.used = o["status"], isTrue(o["ha.managed"]), 0
	if g.kind == lxc && g.status == Running { // a machine has a new limit from its next start on, or gives memory back itself
		bytes, err := o.integer("mem")
		if err != nil {
			return unreachable(err)
		}
		g.used = (bytes + mebibyte - 1) / mebibyte
	}
	if g.status != Running && g.status != Stopped {
		return refusal.New(refusal.Unavailable, "Proxmox VE says that the guest is %q", op.Shown(g.status))
	}
	return nil
}

// find returns the guest of a name, or nil if the name is free. The guest's configuration
// decides, because the list may still have an earlier name. So find looks at rows of that name,
// at rows without a name, and at guests that this process made recently.
func (d *Driver) find(ctx context.Context, name string) (*guest, error) {
	rows, err := d.rows(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	recent := d.recent[name]
	d.mu.Unlock()
	var found *guest
	var nameless error // a guest without a name in the list whose look failed
	var template int64 // the template that has the name, because a person may have made it from the guest
	for _, r := range rows {
		if r.name != name && r.name != "" && r.vmid != recent {
			continue
		}
		g, err := d.details(ctx, r)
		switch {
		case errors.Is(err, errGone):
			if err := d.stillThere(ctx, r); err != nil {
				return nil, err
			}
			continue
		case err != nil && r.name == "":
			nameless = about(r, err)
			continue
		case err != nil:
			return nil, about(r, err)
		case g.name != name:
			continue
		case g.template:
			template = g.vmid
			continue
		case found != nil:
			return nil, twins(name, found.vmid, g.vmid)
		}
		found = g
	}
	switch {
	case found != nil:
		return found, nil
	case nameless != nil:
		return nil, nameless
	case template != 0:
		return nil, isTemplate(name, template)
	}
	vmid, err := d.hidden(ctx, rows, name)
	if err == nil && vmid != 0 { // it looks free because the token cannot see its guest
		err = unseen(vmid)
	}
	return nil, err
}

// stillThere finds out if a guest was destroyed, or moved to another node between the list and
// the look.
func (d *Driver) stillThere(ctx context.Context, r row) error {
	now, err := d.rowOf(ctx, r.vmid)
	if err == nil && now != nil {
		err = refusal.New(refusal.Unavailable,
			"the guest %d is listed and cannot be found; it may be on its way to another node", r.vmid)
	}
	return err
}

func about(r row, err error) error {
	refused := refusal.As(err)
	return refusal.New(refused.Code, "guest %d on %s: %s", r.vmid, r.node, refused.Detail).WithHint("%s", refused.Hint)
}

func isTemplate(name string, vmid int64) error {
	return refusal.New(refusal.Conflict, "%s is the name of the template %d", name, vmid).
		WithHint("give the template another name in Proxmox VE")
}

func twins(name string, a, b int64) error {
	return refusal.New(refusal.Conflict, "the guests %d and %d both have the name %s", a, b, name).
		WithHint("give one of them another name in Proxmox VE")
}

// look is Observe that also returns the guest. The guest is nil if the name is free.
func (d *Driver) look(ctx context.Context, l op.Look) (*guest, op.Observed, error) {
	t := l.Target
	if t.Kind != d.Kind() {
		return nil, op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", t)
	}
	if err := op.CheckName(t.Name); err != nil {
		return nil, op.Observed{}, err
	}
	g, err := d.find(ctx, t.Name)
	if err == nil && g != nil {
		if err = d.state(ctx, g); errors.Is(err, errGone) {
			err = errMoved
		}
	}
	if err != nil {
		return nil, op.Observed{}, err
	}
	if _, some := takes[l.Op]; g != nil && (some || g.birth() != "") {
		d.readTimes(ctx, g)
	}
	still, err := d.lingers(ctx, l, g)
	if err != nil {
		return nil, op.Observed{}, err
	}
	if g == nil {
		return nil, op.Observed{Target: t, Running: Absent, Fingerprint: fingerprintOfNothing(t.Name), Lingers: still, Ops: d.ops, Backend: Name}, nil
	}
	o := d.observed(g)
	o.Lingers = still
	err = d.regarding(ctx, l, g, &o)
	return g, o, err
}

// observed is the result of a look at a guest, without backups and facts.
func (d *Driver) observed(g *guest) op.Observed {
	o := op.Observed{
		Target:      op.Target{Kind: d.Kind(), Name: g.name},
		Present:     true,
		Incarnation: g.incarnation(),
		Fingerprint: g.fingerprint(""),
		Birth:       g.proven(),
		Marked:      g.birth(),
		Self:        g.self().texts(),
		Running:     g.status,
		Spec:        g.spec(),
		Protected:   g.protected(),
		Labels:      g.labels(),
		Volatile:    g.volatile(),
		MemoryUsed:  g.used,
		Storage:     g.storage(),
		Doubted:     g.birth() != "" && g.doubted(),
		Ops:         d.ops,
		Backend:     Name,
	}
	for _, s := range g.snapshots {
		o.Snapshots = append(o.Snapshots, s.name)
	}
	for _, x := range slices.Concat(g.drives, g.unused) {
		if x.owned() && !slices.ContainsFunc(o.Disks, func(have op.Disk) bool { return have.Name == x.key }) {
			o.Disks = append(o.Disks, op.Disk{Name: x.key, Size: x.size, ID: g.storageID(x),
				Off: unusedDisk().MatchString(x.key)})
		}
	}
	return o
}
