package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Proxmox VE's protection flag prevents that a user destroys a guest or takes a disk off it.
// The flag is on for every guest with the gate's mark. A step that needs it off sends the
// digest of the configuration that the driver saw, so that the request fails if the
// configuration changed. Then the step looks again, does its work, and sets the flag again.

// unguard takes the flag off and returns the guest as it is then. If it fails, it tries to
// leave the flag as it was. A guest with the flag but without the gate's mark gets the mark in
// the same request. So Mend can set the flag again if this process ends first.
func (d *Driver) unguard(ctx context.Context, g *guest) (*guest, error) {
	v := values{"protection": "0"}
	if g.protection && !g.marker.there {
		text, err := marker{there: true, vmid: g.vmid, protected: true}.in(g.text)
		if err != nil {
			return nil, err
		}
		v["description"] = text
	}
	if err := d.configure(ctx, g, v); err != nil {
		if !untouched(err) {
			d.guard(ctx, g)
		}
		return nil, worked("take the protection off", err)
	}
	err := d.alone(ctx, g)
	var now *guest
	if err == nil {
		now, err = d.again(ctx, g) // last, because the others take their time
	}
	if err != nil {
		d.guard(ctx, g)
		return nil, err
	}
	return now, nil
}

// again looks at the guest a second time. It refuses with StaleTarget if anything changed that
// a signature covers, except Proxmox VE's flag.
func (d *Driver) again(ctx context.Context, g *guest) (*guest, error) {
	now, err := d.details(ctx, g.row)
	if errors.Is(err, errGone) {
		return nil, refusal.New(refusal.StaleTarget, "the guest %d is gone, or on another node", g.vmid)
	}
	if err == nil {
		err = d.state(ctx, now)
	}
	if err != nil {
		return nil, err
	}
	now.taken, now.users, now.shares = g.taken, g.users, g.shares
	flag := now.protection
	now.protection = g.protection
	same := now.name == g.name && now.incarnation() == g.incarnation() && now.fingerprint("") == g.fingerprint("")
	now.protection = flag
	if !same {
		return nil, refusal.New(refusal.StaleTarget, "the guest %d changed while the step was under way", g.vmid)
	}
	if now.lock != "" {
		return nil, refusal.New(refusal.Conflict, "the guest %d is locked in Proxmox VE: %s", g.vmid, op.Shown(now.lock))
	}
	return now, nil
}

// configure changes the configuration, but only if it is still the one that g was read from.
func (d *Driver) configure(ctx context.Context, g *guest, v values) error {
	v["digest"] = g.digest
	_, err := d.api.send(ctx, http.MethodPut, g.path("config"), v)
	return err
}

// guard sets the flag again if it was on, or if the guest needs it. It continues after the end
// of the step's own time.
func (d *Driver) guard(ctx context.Context, g *guest) {
	if !g.protection && !g.marker.there {
		return
	}
	if d.mend(context.WithoutCancel(ctx), g.row, g, true) != nil {
		d.unmended() // Mend tries again
	}
}

// without does the work of some short requests while the flag is off.
func (d *Driver) without(g *guest, work func(context.Context, *guest) (driver.Result, error)) action {
	return does(func(ctx context.Context) (driver.Result, error) {
		now, err := d.unguard(ctx, g)
		if err != nil {
			return driver.Result{}, err
		}
		done, err := work(ctx, now)
		d.guardAfter(ctx, now)
		return done, err
	})
}

// guardAfter is guard for a guest whose incarnation changed because the work changed its disks.
// It identifies the guest by vmid and name.
func (d *Driver) guardAfter(ctx context.Context, g *guest) {
	if !g.protection && !g.marker.there {
		return
	}
	ctx = context.WithoutCancel(ctx)
	now, err := d.details(ctx, g.row)
	if err == nil && now.name == g.name && now.text == g.text {
		err = d.configure(ctx, now, values{"protection": "1"})
	}
	if err != nil {
		d.unmended()
	}
}

func (d *Driver) prepareDestroy(_ context.Context, step op.Step, g *guest) (action, error) {
	if g.ha { // it would be stopped, and then Proxmox VE would refuse
		sid := map[string]string{qemu: "vm", lxc: "ct"}[g.kind]
		return action{}, refusal.New(refusal.Conflict, "%s is under high availability, and Proxmox VE destroys no such guest", step.Target).
			WithHint("take it out on a node first: ha-manager remove %s:%d", sid, g.vmid)
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if g.status == Running {
			stopped, err := d.halt(ctx, g)
			if err != nil {
				return driver.Result{}, err
			}
			done, err := d.destroy(ctx, stopped)
			if err != nil {
				err = fmt.Errorf("it was stopped; then: %w", err)
			}
			return done, err
		}
		return d.destroy(ctx, g)
	}), nil
}

// halt stops a guest that the step will destroy at once, and looks at it again.
func (d *Driver) halt(ctx context.Context, g *guest) (*guest, error) {
	task, err := d.api.start(ctx, http.MethodPost, g.path("status", "stop"), nil)
	if err == nil {
		err = d.wait(ctx, task)
	}
	if err != nil {
		return nil, worked("stop", err)
	}
	now, err := d.again(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("it was stopped; then: %w", err)
	}
	return now, nil
}

// destroy deletes a stopped guest. DELETE takes no digest, but the change of the flag just
// before it does, so the guest is still the one that the driver saw. After a crash in between,
// the guest exists, at most without the flag.
func (d *Driver) destroy(ctx context.Context, g *guest) (driver.Result, error) {
	now, err := d.unguard(ctx, g)
	if err != nil {
		return driver.Result{}, err
	}
	if now.status != Stopped {
		d.guard(ctx, g)
		return driver.Result{}, refusal.New(refusal.Conflict, "the guest %d was started while the step was under way", g.vmid)
	}
	// Volumes that are not in the configuration stay, and so do jobs that name the guest.
	task, err := d.api.start(ctx, http.MethodDelete, now.path(), values{"destroy-unreferenced-disks": "0", "purge": "0"})
	if err != nil {
		d.guard(ctx, g)
		return driver.Result{}, worked("destroy", err)
	}
	d.owe(task, owed{vmid: g.vmid, before: g})
	return driver.Result{Task: task}, nil
}

// aboutBackup are the steps that need the list of backups: true. A destroy and a look for no step show it if there is one.
var aboutBackup = map[string]bool{"guest.backup": true, "guest.backup-restore": true, "guest.backup-delete": true,
	"guest.destroy": false, "": false}

// regarding adds to a look the objects that its step names, the backups, and the facts for
// people.
func (d *Driver) regarding(ctx context.Context, l op.Look, g *guest, o *op.Observed) error {
	own, others, err := d.regardBackups(ctx, l, g, o)
	if err != nil {
		return err
	}
	if err := d.aboutUsers(ctx, l, g, o); err != nil {
		return err
	}
	o.Facts = append(facts(l.Op, g, own, others), o.Facts...)
	if len(g.users) > 0 {
		o.Fingerprint = g.fingerprint(g.withUsers(""))
	}
	switch l.Op {
	case "guest.start", "guest.restart":
		var err error
		if o.Shares, err = d.shared(ctx, g); err != nil {
			return err
		}
		if g.shares = o.Shares; len(o.Shares) > 0 {
			o.Fingerprint = g.fingerprint("shares " + strings.Join(o.Shares, "; "))
		}
		for _, s := range o.Shares {
			o.Facts = append(o.Facts, op.Fact{Name: "would write", Text: op.Shown(s)})
		}
	case "guest.restore", "guest.snapshot-delete":
		if name := l.Params.Str("snapshot"); !slices.Contains(o.Snapshots, name) {
			o.Missing = fmt.Sprintf("%s has no snapshot %s", l.Target, name)
		} else {
			g.aboutSnapshot(l.Op, name, o)
		}
	case "guest.disk-resize", "guest.disk-detach", "guest.disk-delete":
		if name := l.Params.Str("disk"); name != "" {
			if _, ok := g.drive(name); !ok {
				o.Missing = fmt.Sprintf("%s has no disk %s", l.Target, name)
			}
		}
	case "guest.backup-restore", "guest.backup-delete":
		if d.cfg.BackupStorage == "" {
			break // the operation does not exist
		}
		b, ok := backupOf(own, l.Params.Str("backup"))
		if !ok {
			o.Missing = fmt.Sprintf("%s has no backup %s on %s", l.Target, l.Params.Str("backup"), d.cfg.BackupStorage)
			if b, is := backupOf(others, l.Params.Str("backup")); is {
				o.Missing += ": it " + g.whose(b)
			}
			break
		}
		o.Fingerprint = g.fingerprint(g.withUsers(b.ident()))
		g.aboutBackup(l.Op, b, o)
	}
	return nil
}

// regardBackups adds the names of the guest's own backups to a look, and returns all under its number. It refuses a step that needs
// the list, if there is none, and one that would have a backup of another guest pruned.
func (d *Driver) regardBackups(ctx context.Context, l op.Look, g *guest, o *op.Observed) (own, others []backup, err error) {
	needed, shown := aboutBackup[l.Op]
	if d.cfg.BackupStorage == "" || !shown {
		return nil, nil, nil
	}
	own, others, err = d.backups(ctx, g)
	switch {
	case err != nil && needed:
		return nil, nil, err
	case err != nil:
		o.Facts = append(o.Facts, op.Fact{Name: "backups", Text: "cannot be listed: " + refusal.As(err).Detail})
		return nil, nil, nil
	case l.Op == "guest.backup" && l.Params.Bool("rotate"):
		err = g.prunable(others)
	}
	o.Backups, o.Listed = namesOf(own), namesOf(slices.Concat(own, others))
	return own, others, err
}

// namesOf never returns nil, because nil would mean that the backups are not known.
func namesOf(all []backup) []string {
	names := make([]string, 0, len(all))
	for _, b := range all {
		names = append(names, b.name)
	}
	slices.Sort(names)
	return names
}

func backupOf(all []backup, name string) (backup, bool) {
	for _, b := range all {
		if b.name == name {
			return b, true
		}
	}
	return backup{}, false
}

// facts are what operators should see before they sign: what the step takes, and what stays.
func facts(verb string, g *guest, own, others []backup) []op.Fact {
	var out []op.Fact
	add := func(name, text string) { out = append(out, op.Fact{Name: name, Text: op.Shown(text)}) }
	kind := map[string]string{qemu: "a machine (QEMU)", lxc: "a container (LXC)"}[g.kind]
	add("guest", fmt.Sprintf("%s, vmid %d on %s, %s", kind, g.vmid, g.node, g.status))
	var disks, made, stays, remains, bases []string
	var total int64
	whole := verb == "guest.destroy" || verb == "guest.backup-restore"
	for _, d := range slices.Concat(g.drives, g.unused) {
		switch {
		case (d.owned() || d.generated()) && g.foreign(d.volume) && whole:
			remains = append(remains, d.key+" "+d.volume)
		case d.owned() && whole && slices.ContainsFunc(g.users, func(u user) bool { return u.base == d.volume }):
			bases = append(bases, d.key+" "+d.volume)
		case d.generated():
			made = append(made, d.key+" "+d.volume)
		case d.owned():
			total += d.size
			disks = append(disks, fmt.Sprintf("%s %s (%s)", d.key, amount(d.size), d.volume))
		case !d.cdrom && strings.HasPrefix(d.volume, "/"):
			stays = append(stays, d.key+" "+d.volume)
		}
	}
	add("disks", fmt.Sprintf("%d, %s: %s", len(disks), amount(total), strings.Join(disks, ", ")))
	if len(made) > 0 {
		add("cloud-init", strings.Join(made, ", ")+": Proxmox VE makes it from the settings; a destroy and a restored backup take it")
	}
	if len(remains) > 0 {
		remains = []string{strings.Join(remains, ", ") + " of other guests, by the number in its name"}
	}
	if len(bases) > 0 {
		remains = append(remains, strings.Join(bases, ", ")+", on which a linked clone is based, as long as the clone has its disk")
	}
	if len(stays) > 0 {
		remains = append(remains, strings.Join(stays, ", ")+" of the node")
	}
	if len(remains) > 0 {
		add("remains", strings.Join(remains, "; ")+": it is used and not destroyed")
	}
	if len(g.snapshots) > 0 {
		var names []string
		for _, s := range g.snapshots {
			names = append(names, s.name)
		}
		add("snapshots", fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", ")))
	}
	if len(own) > 0 {
		add("backups", fmt.Sprintf("%d, the newest %s of %s; a destroy leaves them", len(own), own[0].name, own[0].when()))
	}
	if len(others) > 0 {
		add("other backups", g.othersText(others))
	}
	if g.lock != "" {
		add("locked", "Proxmox VE has it locked: "+g.lock)
	}
	if g.marker.there && !g.protection {
		add("protection", "Proxmox VE's own protection is off; the next change of its settings puts it back")
	}
	return out
}

func amount(bytes int64) string {
	switch {
	case bytes == 0:
		return "of unknown size"
	case bytes%gibibyte == 0:
		return fmt.Sprintf("%d GiB", bytes/gibibyte)
	case bytes%mebibyte == 0:
		return fmt.Sprintf("%d MiB", bytes/mebibyte)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
