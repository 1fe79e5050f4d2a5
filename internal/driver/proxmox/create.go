package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// dnsName is the form of a guest's name that Proxmox VE accepts.
var dnsName = pattern(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

func checkName(name string) error {
	if !dnsName().MatchString(name) {
		return refusal.New(refusal.BadParams,
			"%q is no name of a guest in Proxmox VE: letters, digits and -, in parts with dots between them", name)
	}
	return nil
}

// prepareCreate makes a guest from an entry of the operator's templates.
func (d *Driver) prepareCreate(ctx context.Context, step op.Step, _ *guest) (action, error) {
	p := step.Params
	name := p.Str("template")
	if name == "" {
		name = d.usual()
	}
	t, ok := d.cfg.Templates[name]
	if !ok {
		return action{}, refusal.New(refusal.BadParams, "the configuration has no template %q", name).
			WithHint("an operator adds it under proxmox.templates in gated.yaml")
	}
	if err := checkName(step.Target.Name); err != nil {
		return action{}, err
	}
	if step.Birth == "" {
		return action{}, refusal.New(refusal.Internal, "%s has no birth token", step.ID)
	}
	if t.Clone != 0 {
		return d.fromClone(ctx, step, t)
	}
	return d.fromNothing(ctx, step, t)
}

// usual is the template for a request that names none.
func (d *Driver) usual() string {
	if len(d.cfg.Templates) == 1 {
		for name := range d.cfg.Templates {
			return name
		}
	}
	return Default
}

// fromNothing makes a guest in one request, which also starts the guest.
func (d *Driver) fromNothing(ctx context.Context, step op.Step, t Template) (action, error) {
	v, err := settings(t.Kind, step.Params, 1)
	if err != nil {
		return action{}, err
	}
	if d.cfg.Node == "" {
		return action{}, refusal.New(refusal.BadParams, "the configuration names no node for new guests").
			WithHint("set proxmox.node in gated.yaml")
	}
	storage := t.Storage
	if storage == "" {
		storage = d.cfg.Storage
	}
	root := map[string]string{qemu: "scsi0", lxc: "rootfs"}[t.Kind]
	v[root] = fmt.Sprintf("%s:%d", storage, t.Disk)
	if t.Kind == lxc {
		v["hostname"], v["ostemplate"] = step.Target.Name, t.OSTemplate
		v["unprivileged"] = flag(t.Unprivileged)
	} else {
		v["name"], v["scsihw"] = step.Target.Name, "virtio-scsi-single"
		if t.OSType != "" {
			v["ostype"] = t.OSType
		}
	}
	if t.Network != "" {
		v["net0"] = t.Network
	}
	v["start"], v["protection"] = flag(step.Params.Str("state") == Running), "1"
	if d.cfg.Pool != "" {
		v["pool"] = d.cfg.Pool
	}
	vmid, end, err := d.vmid(ctx, d.cfg.Node, step.Target.Name)
	if err != nil {
		return action{}, err
	}
	v["vmid"] = fmt.Sprint(vmid)
	if v["description"], err = born(step, vmid, madeDisk(root, storage)+fmt.Sprintf(":%d", t.Disk*gibibyte)).in(""); err != nil {
		end()
		return action{}, err
	}
	return d.makes("create", path("nodes", d.cfg.Node, t.Kind), v, vmid, end), nil
}

// born is the mark of a guest that a step makes with some disks, each as madeDisk names it.
func born(step op.Step, vmid int64, disks ...string) marker {
	return marker{there: true, vmid: vmid, birth: step.Birth, disks: cmp.Or(strings.Join(disks, " "), noDisk),
		protected: step.Params.Bool("protected"), labels: step.Params.Labels("labels")}
}

// copied are the disks that a full copy of the guest gets, on one storage, or with "" each on its original's. Proxmox VE may make a volume
// of a device of the node, too. How large each is, Proxmox VE reads from the original volume, and not from its configuration.
func (g *guest) copied(storage string) (disks []string) {
	for _, d := range g.drives {
		on := storage
		if on == "" && d.owned() {
			on, _, _ = strings.Cut(d.volume, ":")
		}
		if one := madeDisk(d.key, on); !d.cdrom && on != "" && !slices.Contains(disks, one) {
			disks = append(disks, one)
		}
	}
	return disks
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// fromClone copies a template, then changes the settings that the request names, then starts
// the guest.
func (d *Driver) fromClone(ctx context.Context, step op.Step, t Template) (action, error) {
	src, err := d.byID(ctx, t.Clone)
	if err != nil {
		return action{}, err
	}
	if src.kind != t.Kind {
		return action{}, refusal.New(refusal.BadParams, "the guest %d is no %s", t.Clone, t.Kind)
	}
	if what := src.given(); what != "" && step.Params.Str("state") == Running {
		return action{}, refusal.New(refusal.BadParams,
			"the template has %s of its node, which every copy would have as well", what).
			WithHint("make the guest with state=stopped; its start then waits for an operator")
	}
	v, err := settings(src.kind, step.Params, src.sockets)
	if err != nil {
		return action{}, err
	}
	v["protection"] = "1"
	vmid, end, err := d.vmid(ctx, src.node, step.Target.Name)
	if err != nil {
		return action{}, err
	}
	request, err := d.cloneRequest(src, step.Target.Name, born(step, vmid, src.copied(t.Storage)...), "")
	if err != nil {
		end()
		return action{}, err
	}
	if t.Storage != "" {
		request["storage"] = t.Storage
	}
	made := row{vmid: vmid, node: src.node, kind: src.kind, name: step.Target.Name}
	return action{end: end, do: func(ctx context.Context) (driver.Result, error) {
		task, err := d.begin(ctx, src.path("clone"), request)
		if err == nil {
			err = d.wait(ctx, task)
		}
		if err != nil {
			return driver.Result{}, worked("clone the template", err)
		}
		return d.finish(ctx, step, made, v)
	}}, nil
}

// finish sets up and starts a cloned guest. If the set-up fails, finish destroys the guest,
// because nothing ever ran in it.
func (d *Driver) finish(ctx context.Context, step op.Step, made row, v values) (driver.Result, error) {
	g, err := d.details(ctx, made)
	if err == nil && g.proven() != step.Birth { // another guest may have the number by now
		return driver.Result{}, driver.Unknown(notAsMade(made))
	}
	if err == nil {
		err = d.configure(ctx, g, maps.Clone(v))
	}
	if err != nil {
		err = worked("set the new guest up", err)
		if back := d.unmake(ctx, made, step.Birth); back != nil {
			return driver.Result{}, driver.Unknown(errors.Join(err, back))
		}
		return driver.Result{}, err
	}
	if step.Params.Str("state") != Running {
		return driver.Result{}, nil
	}
	task, err := d.api.start(ctx, http.MethodPost, made.path("status", "start"), nil)
	return driver.Result{Task: task}, worked("start", err)
}

func notAsMade(made row) error {
	return refusal.New(refusal.StaleTarget, "the guest %d is not as it was made", made.vmid)
}

// unmake destroys a guest that this step made and that never started.
func (d *Driver) unmake(ctx context.Context, made row, birth string) error {
	ctx = context.WithoutCancel(ctx)
	g, err := d.details(ctx, made)
	if err == nil {
		err = d.state(ctx, g)
	}
	if err != nil {
		return err
	}
	if g.proven() != birth || g.status != Stopped {
		return notAsMade(made)
	}
	g.taken = g.volumes()
	others, err := d.usersOf(ctx, g, g.taken)
	if err != nil {
		return err
	}
	for _, u := range others {
		if !u.unread { // one that cannot be read hardly got a disk of a guest that is seconds old
			return refusal.New(refusal.StaleTarget, "another guest has a disk of the new guest %d: %s", made.vmid, u.text)
		}
	}
	g.users = others
	done, err := d.destroy(ctx, g)
	if err != nil {
		return err
	}
	err = d.wait(ctx, done.Task)
	if err != nil {
		d.guard(ctx, g)
	}
	return err
}

// prepareClone makes a full copy of a guest. The copy keeps the labels but not the protection.
func (d *Driver) prepareClone(ctx context.Context, step op.Step, _ *guest) (action, error) {
	if err := checkName(step.Target.Name); err != nil {
		return action{}, err
	}
	src, err := d.find(ctx, step.Params.Str("from"))
	if err == nil && src == nil {
		err = refusal.New(refusal.UnknownTarget, "there is no guest/%s to clone", step.Params.Str("from"))
	}
	if err == nil {
		err = d.state(ctx, src)
	}
	if err == nil {
		err = unlocked(step, src)
	}
	if err != nil {
		return action{}, err
	}
	if src.kind == lxc && src.status == Running {
		return action{}, refusal.New(refusal.Conflict,
			"guest/%s is a container that runs, and Proxmox VE copies none that does", src.name).WithHint("stop it first")
	}
	vmid, end, err := d.vmid(ctx, src.node, step.Target.Name)
	if err != nil {
		return action{}, err
	}
	m := born(step, vmid, src.copied("")...)
	m.labels = src.marker.labels
	request, err := d.cloneRequest(src, step.Target.Name, m, src.text)
	if err != nil {
		end()
		return action{}, err
	}
	return d.makes("clone", src.path("clone"), request, vmid, end), nil
}

func (d *Driver) cloneRequest(src *guest, name string, m marker, text string) (values, error) {
	v := values{"newid": fmt.Sprint(m.vmid), "full": "1"}
	v[map[string]string{qemu: "name", lxc: "hostname"}[src.kind]] = name
	if d.cfg.Pool != "" {
		v["pool"] = d.cfg.Pool
	}
	var err error
	v["description"], err = m.in(text)
	return v, err
}

// byID looks at a guest or template by its vmid.
func (d *Driver) byID(ctx context.Context, vmid int64) (*guest, error) {
	r, err := d.rowOf(ctx, vmid)
	if err == nil && r == nil {
		err = refusal.New(refusal.UnknownTarget, "there is no guest or template %d, or the token cannot see it", vmid)
	}
	if err != nil {
		return nil, err
	}
	g, err := d.details(ctx, *r)
	if err != nil {
		return nil, about(*r, err)
	}
	return g, nil
}

// makers are the types of tasks that make guests.
var makers = map[string]bool{"qmcreate": true, "vzcreate": true, "qmclone": true, "vzclone": true}

// unfinished refuses, for now, to make a guest while Proxmox VE works on a guest that an
// earlier process of this gate began. That guest may belong to this very step, and then the
// step would make it twice.
func (d *Driver) unfinished(ctx context.Context, node string) error {
	list, err := d.api.list(ctx, path("nodes", node, "tasks"), values{"source": "active", "limit": "500"})
	if err != nil {
		return unreachable(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	running := map[string]bool{}
	for _, o := range list {
		task := o["upid"]
		if o["endtime"] != "" || !makers[typeOf(task)] || !strings.HasSuffix(task, ":"+d.api.token+":") {
			continue
		}
		if !d.making[task] {
			return refusal.New(refusal.Unavailable, "a guest that was begun before the gate was started is still being made").
				WithHint("it is tried again when that has ended; Proxmox VE shows the task")
		}
		running[task] = true
	}
	for task := range d.making {
		if !running[task] && strings.Contains(task, ":"+node+":") {
			delete(d.making, task)
		}
	}
	return nil
}

// begin sends a request that makes a guest, and remembers its task.
func (d *Driver) begin(ctx context.Context, path string, v values) (string, error) {
	task, err := d.api.start(ctx, http.MethodPost, path, v)
	if err == nil && task != "" {
		d.mu.Lock()
		d.making[task] = true
		d.mu.Unlock()
	}
	return task, err
}

// makes is asTask for a task that makes a guest. The guest gets the flag when the task has
// ended.
func (d *Driver) makes(what, path string, v values, vmid int64, end func()) action {
	return action{end: end, do: func(ctx context.Context) (driver.Result, error) {
		task, err := d.begin(ctx, path, v)
		d.owe(task, owed{vmid: vmid})
		return driver.Result{Task: task}, worked(what, err)
	}}
}
