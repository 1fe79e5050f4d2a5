package proxmox

import (
	"context"
	"fmt"
	"net/http"

	"gated/internal/op"
)

func (d *Driver) prepareStart(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Running {
		return already("it runs already"), nil
	}
	return d.asTask("start", http.MethodPost, g.path("status", "start"), nil), nil
}

// prepareStop asks the guest to shut down; what has not by the end of its grace is
// stopped, in the same task.
func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return already("it is stopped already"), nil
	}
	return d.asTask("shut down", http.MethodPost, g.path("status", "shutdown"),
		values{"timeout": d.grace(), "forceStop": "1"}), nil
}

func (d *Driver) grace() string { return fmt.Sprint(int64(d.cfg.StopGrace.Seconds())) }

// prepareRestart reboots: changes that wait for a start take effect. A guest that
// does not answer within its grace makes the task fail, and goes on running.
func (d *Driver) prepareRestart(ctx context.Context, step op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return d.prepareStart(ctx, step, g)
	}
	return d.asTask("reboot", http.MethodPost, g.path("status", "reboot"), values{"timeout": d.grace()}), nil
}
