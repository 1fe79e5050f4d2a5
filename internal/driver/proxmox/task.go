package proxmox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// nodeOf returns the node of a task's id, "UPID:node:pid:pstart:start:type:id:user:".
func nodeOf(task string) (string, error) {
	parts := strings.Split(task, ":")
	if len(parts) != 9 || parts[0] != "UPID" || op.CheckName(parts[1]) != nil {
		return "", fmt.Errorf("%q is no task's id", op.Shown(task))
	}
	return parts[1], nil
}

// typeOf returns the type of a task's id: "qmdestroy".
func typeOf(task string) string {
	if parts := strings.Split(task, ":"); len(parts) == 9 {
		return parts[5]
	}
	return ""
}

// numberOf returns the vmid in a task's id, or 0. For a clone it is the vmid of the source.
func numberOf(task string) int64 {
	parts := strings.Split(task, ":")
	if len(parts) != 9 {
		return 0
	}
	vmid, err := strconv.ParseInt(parts[6], 10, 64)
	if err != nil {
		return 0
	}
	return vmid
}

// Task asks once for the state of a task. If Proxmox VE has no such task, it refuses with
// UnknownTarget. Before it reports the end, it gives the guest the flag and the mark that it
// lacks.
func (d *Driver) Task(ctx context.Context, task string) (driver.Progress, error) {
	p, err := d.progress(ctx, task)
	if err != nil || !p.Done {
		return p, err
	}
	if left := d.settle(ctx, task, p.Err != nil); left != nil {
		d.unmended() // Mend tries again
		if p.Err != nil {
			p.Err = fmt.Errorf("%w; Proxmox VE's own protection of the guest may be off", p.Err)
		}
	}
	return p, nil
}

func (d *Driver) progress(ctx context.Context, task string) (driver.Progress, error) {
	node, err := nodeOf(task)
	if err != nil {
		return driver.Progress{}, refusal.New(refusal.UnknownTarget, "%s", err)
	}
	o, err := d.api.get(ctx, path("nodes", node, "tasks", task, "status"), nil)
	switch {
	case missing(err), isAnswered(err, 400):
		return driver.Progress{}, refusal.New(refusal.UnknownTarget, "Proxmox VE has no task %s", op.Shown(task))
	case err != nil && d.stateOf(ctx, node) == noNode: // one that is only away is still in the cluster
		return driver.Progress{}, refusal.New(refusal.UnknownTarget,
			"the node %s of the task is not in the cluster any more", node)
	case err != nil:
		return driver.Progress{}, unreachable(err)
	case o["status"] == "running":
		return driver.Progress{}, nil
	case o["status"] != "stopped":
		return driver.Progress{}, refusal.New(refusal.Unavailable, "Proxmox VE says %q of a task", op.Shown(o["status"]))
	}
	return driver.Progress{Done: true, Err: ended(o["exitstatus"])}, nil
}

// The words of stateOf for a node that the cluster does not have, and for one of which it says nothing.
const (
	noNode  = "none"
	unclear = ""
)

// stateOf is what the cluster says of a node: "online", "offline", "unknown", noNode or unclear.
func (d *Driver) stateOf(ctx context.Context, node string) string {
	list, err := d.api.list(ctx, path("nodes"), nil)
	if err != nil || len(list) == 0 {
		return unclear
	}
	for _, o := range list {
		if o["node"] == node {
			return o["status"]
		}
	}
	return noNode
}

func isAnswered(err error, status int) bool {
	var e *answered
	return errors.As(err, &e) && e.status == status
}

// ended turns a task's exit status into an error. A task with warnings did its work. If there
// is no status, the task's worker was killed.
func ended(status string) error {
	switch {
	case status == "OK", strings.HasPrefix(status, "WARNINGS: "):
		return nil
	case status == "", status == "unexpected status":
		return driver.Unknown(errors.New("the task ended without saying how"))
	}
	return fmt.Errorf("the task of Proxmox VE ended with %s", op.Shown(status))
}

// The pace at which an action asks for the state of a task that is not the step's last.
const (
	firstPoll = 50 * time.Millisecond
	lastPoll  = 2 * time.Second
)

// wait waits for a task to end, and returns its error. If a request fails, wait tries again
// until the context ends, because the task goes on.
func (d *Driver) wait(ctx context.Context, task string) error {
	if task == "" {
		return nil
	}
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		p, err := d.progress(ctx, task)
		switch {
		case errors.Is(err, refusal.UnknownTarget):
			return driver.Unknown(err)
		case err == nil && p.Done:
			return p.Err
		}
		passed := make(chan struct{})
		timer := time.AfterFunc(pause, func() { close(passed) })
		select {
		case <-ctx.Done():
			timer.Stop()
			return driver.Unknown(ctx.Err())
		case <-passed:
		}
	}
}
