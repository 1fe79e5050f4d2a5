package daemon

import (
	"context"
	"os"
	"reflect"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/host/life"
	"gated/internal/host/signers"
)

// reloads reads the settings again for each signal, and the revocation file
// whenever it changed, until ctx ends.
func (d *daemon) reloads(ctx context.Context, hup <-chan os.Signal) {
	look := time.NewTicker(signers.RevokedInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if ctx.Err() == nil {
				d.reload(ctx)
			}
		case <-look.C:
			if d.revoked.Due() && ctx.Err() == nil {
				d.takeRevoked(ctx)
			}
		}
	}
}

// reload reads gated.yaml and the revocation file again. Both are taken over
// together, or neither: what is broken is said in the log and in status, and
// what was in force stays. A revocation file that cannot be read is taken over
// as one that refuses every signature. Settings that are fixed at start wait for
// the next one; reload says which changed. The signers change by rotation alone:
// an edit of their file is kept aside.
func (d *daemon) reload(ctx context.Context) {
	c, err := life.Settings(d.opened.Dir.Path())
	if err == nil && c.Host != d.config.Host {
		err = refusal.New(refusal.TargetMismatch, "the host's name cannot change from %q to %q", d.config.Host, c.Host)
	}
	if err == nil {
		err = life.CheckDeciding(c)
	}
	if err == nil {
		err = life.CheckUnit(d.unit)
	}
	d.checkSigners(ctx)
	if err == nil {
		err = d.take(ctx, c)
	}
	switch {
	case err != nil && ctx.Err() != nil: // it stops
	case err != nil:
		r := refusal.As(err)
		d.reloadErr.Store(r)
		d.log.Error("reload refused; what was in force stays", "code", string(r.Code), "detail", r.Detail)
	default:
		d.reloadErr.Store(nil)
		waits := fixedNames(d.config, c)
		d.waits.Store(&waits)
		d.log.Info("reloaded policy and revoked keys", "at_next_start", waits)
		d.tickSoon()
	}
}

// take replaces the policy and the revoked keys by those that a configuration
// names.
func (d *daemon) take(ctx context.Context, c config.Config) error {
	p := c.Policy
	p.Commands, p.Benign = d.config.Policy.Commands, d.config.Policy.Benign // the drivers know these
	p.CommandGuests = d.config.Policy.CommandGuests
	r := d.revoked
	if path, required := life.RevocationPath(c, d.opened.Dir.Path()); !r.Is(path, required) {
		r = r.At(path, required)
	}
	list, _ := r.Read()
	if err := d.gate.Reload(ctx, list, p); err != nil {
		r.Again()
		return err
	}
	d.revoked = r
	d.sayRevoked(list)
	return nil
}

// takeRevoked takes the revocation file over with the policy in force, if it says
// anything else than before. If that fails, the file is due again.
func (d *daemon) takeRevoked(ctx context.Context) {
	list, differs := d.revoked.Read()
	if !differs {
		return
	}
	if err := d.gate.Reload(ctx, list, d.gate.Policy()); err != nil {
		if ctx.Err() == nil {
			d.log.Error("the revoked keys cannot be taken over", "error", err)
		}
		d.revoked.Again()
		return
	}
	d.sayRevoked(list)
	d.tickSoon()
}

// sayRevoked logs what is in force of a list that was just read, and keeps it for
// status.
func (d *daemon) sayRevoked(list *authz.Revoked) {
	says := d.revoked.Says(list)
	d.revokedSays.Store(&says)
	if list.Blocked() != nil {
		d.log.Error("every signature is refused", "why", says)
		return
	}
	d.log.Info("revoked keys are in force", "what", says)
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
		{"local", []any{a.HasLocal, a.Local}, []any{b.HasLocal, b.Local}},
		{"libvirt", a.Libvirt, b.Libvirt},
		{"proxmox", a.Proxmox, b.Proxmox},
		{"new_guests", a.NewGuests, b.NewGuests},
		{"commands", a.Commands, b.Commands},
		{"desired", a.Desired, b.Desired},
		{"hub", a.Hub, b.Hub},
		{"reservations", a.Unseen, b.Unseen},
		{"limits", []any{a.Workers, a.Limits}, []any{b.Workers, b.Limits}},
		{"canary", a.Canary, b.Canary},
	} {
		if !reflect.DeepEqual(s.a, s.b) {
			out = append(out, s.name)
		}
	}
	return strings.Join(out, ", ")
}
