package daemon

import (
	"context"
	"os"
	"reflect"
	"strings"

	"gated/internal/config"
	"gated/internal/op"
)

// reloads reads the settings again for each signal, until ctx ends.
func (d *daemon) reloads(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if ctx.Err() == nil {
				d.reload(ctx)
			}
		}
	}
}

// reload reads gated.yaml and allowed_signers again. Both are taken over
// together, or neither: what is broken is said in the log and in status, and
// what was in force stays. Settings that are fixed at start wait for the next
// one; reload says which changed.
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
	switch {
	case err != nil && ctx.Err() != nil: // it stops
	case err != nil:
		r := op.AsRefusal(err)
		d.reloadErr.Store(r)
		d.log.Error("reload refused; what was in force stays", "code", string(r.Code), "detail", r.Detail)
	default:
		d.reloadErr.Store(nil)
		waits := fixedNames(d.config, c)
		d.waits.Store(&waits)
		d.log.Info("reloaded policy and allowed signers", "at_next_start", waits)
		// What waits and lives for longer than the policy now allows is issued anew.
		if err := d.gate.Tick(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("tick", "error", err)
		}
	}
}

// fixedNames names what differs between two configurations and is not reloaded,
// "" for nothing.
func fixedNames(a, b config.Config) string {
	var out []string
	for _, s := range []struct {
		name string
		a, b any
	}{
		{"single_user", a.SingleUser, b.SingleUser},
		{"socket", a.Socket, b.Socket},
		{"socket_group", a.SocketGroup, b.SocketGroup},
		{"submitters", []any{a.AnySubmitter, a.Submitters}, []any{b.AnySubmitter, b.Submitters}},
		{"operators", a.Operators, b.Operators},
		{"local", a.Local, b.Local},
		{"desired", a.Desired, b.Desired},
		{"limits", a.Workers, b.Workers},
	} {
		if !reflect.DeepEqual(s.a, s.b) {
			out = append(out, s.name)
		}
	}
	return strings.Join(out, ", ")
}
