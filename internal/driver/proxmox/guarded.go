package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

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
	now, err := d.stillItself(ctx, g)
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
	if g.times != nil {
		d.readTimes(ctx, now)
	}
	now.taken, now.users, now.jobs, now.shares = g.taken, g.users, g.jobs, g.shares
	flag := now.protection
	now.protection = g.protection
	same := now.name == g.name && maps.Equal(now.times, g.times) && now.incarnation() == g.incarnation() && now.fingerprint("") == g.fingerprint("")
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
	if len(g.jobs) > 0 {
		j := g.jobs[0]
		no := refusal.New(refusal.Conflict, "%s has the replication job %s, and Proxmox VE destroys no such guest", step.Target, j.id)
		if j.removal != "" { // another delete would mark it again
			return action{}, no.WithHint("the job is marked for removal, and its next run removes it: ask again in a few minutes. "+
				"If it is still there, because %s does not answer: pvesr delete %s --force 1 on a node, and the copy on %s stays", j.node, j.id, j.node)
		}
		return action{}, no.WithHint("delete the job on a node first, and the copy on %s goes with it: pvesr delete %s; with --keep 1 the copy stays", j.node, j.id)
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
		return driver.Result{}, since(false, "the guest %d was started", g.vmid)
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
