package proxmox

import (
	"context"
	"net/http"
	"strings"

	"gated/internal/base/refusal"
	"gated/internal/driver"
)

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
