package proxmox

import (
	"context"
	"fmt"
	"net/http"

	"gated/internal/base/op"
)

func (d *Driver) prepareStart(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Running {
		return already("it runs already"), nil
	}
	return d.asTask("start", http.MethodPost, g.path("status", "start"), nil), nil
}

// prepareStop asks the guest to shut down. At the end of its grace, the same task stops the
// guest by force.
func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return already("it is stopped already"), nil
	}
	return d.asTask("shut down", http.MethodPost, g.path("status", "shutdown"),
		values{"timeout": d.grace(), "forceStop": "1"}), nil
}

func (d *Driver) grace() string { return fmt.Sprint(int64(d.cfg.StopGrace.Seconds())) }

// prepareRestart reboots the guest, so that pending changes take effect. If the guest does not
// react within its grace, the task fails and the guest goes on running.
func (d *Driver) prepareRestart(ctx context.Context, step op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return d.prepareStart(ctx, step, g)
	}
	return d.asTask("reboot", http.MethodPost, g.path("status", "reboot"), values{"timeout": d.grace()}), nil
}
