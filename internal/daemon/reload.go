package daemon

import (
	"context"

	"gated/internal/op"
)

// reload reads gated.yaml and allowed_signers again. Both are taken over
// together, or neither: what is broken is said in the log and in status, and
// what was in force stays. Settings that are fixed at start (host, paths, the
// socket, commands) wait for a restart; reload says so.
func (d *daemon) reload(ctx context.Context) {
	c, trust, err := settings(d.opened.dir.Path())
	if err == nil && c.Host != d.config.Host {
		err = op.Refuse(op.TargetMismatch, "the host's name cannot change from %q to %q", d.config.Host, c.Host)
	}
	if err == nil {
		p := c.Policy
		p.Commands = d.config.Policy.Commands // the driver knows these
		err = d.gate.Reload(ctx, trust, p)
	}
	if err != nil {
		r := op.AsRefusal(err)
		d.reloadErr.Store(r)
		d.log.Error("reload refused; what was in force stays", "code", string(r.Code), "detail", r.Detail)
		return
	}
	d.reloadErr.Store(nil)
	d.log.Info("reloaded policy and allowed signers; other settings take effect at the next start")
}
