package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/config"
	"gated/internal/op"
)

// revokedInterval is how often the revocation file is looked at where inotify
// says nothing of it: behind a symbolic link, on a network file system.
const revokedInterval = time.Second

// reloads reads the settings again for each signal, and the revocation file
// whenever it changed, until ctx ends.
func (d *daemon) reloads(ctx context.Context, hup <-chan os.Signal) {
	look := time.NewTicker(revokedInterval)
	defer look.Stop()
	for {
		passed := false
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if ctx.Err() == nil {
				d.reload(ctx)
			}
			continue
		case <-d.revoked.changed():
		case <-look.C:
			passed = true
		}
		if v := d.revoked.due(passed); v != leave && ctx.Err() == nil {
			d.takeRevoked(ctx, v)
		}
	}
}

// reload reads gated.yaml and the revocation file again. Both are taken over
// together, or neither: what is broken is said in the log and in status, and
// what was in force stays. A revocation file that cannot be read is taken over
// as one that refuses every signature. Settings that are fixed at start wait for
// the next one; reload says which changed. The signers change by rotation alone:
// of their file it is only said that it was edited.
func (d *daemon) reload(ctx context.Context) {
	c, err := settings(d.opened.dir.Path())
	if err == nil && c.Host != d.config.Host {
		err = op.Refuse(op.TargetMismatch, "the host's name cannot change from %q to %q", d.config.Host, c.Host)
	}
	if err == nil {
		err = checkDeciding(c)
	}
	if err == nil {
		err = checkUnit(d.unit)
	}
	d.checkSigners(ctx)
	if err == nil {
		err = d.take(ctx, c)
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
	if path, required := revocationPath(c, d.opened.dir.Path()); path != r.path || required != r.required {
		r = newRevocations(path, required)
		r.needed = d.revoked.needed
	}
	list, at, _ := r.load(insist) // a signal says that it is to be read
	if err := d.gate.Reload(ctx, list, p); err != nil {
		if r != d.revoked {
			err = errors.Join(err, r.close())
		}
		return err
	}
	if r != d.revoked {
		_ = d.revoked.close() // it only watched
		d.revoked = r
	}
	d.tookRevoked(list, at, insist)
	d.sayRevoked()
	return nil
}

// takeRevoked takes the revocation file over with the policy in force. One that
// could not be taken is due again.
func (d *daemon) takeRevoked(ctx context.Context, v verdict) {
	list, at, ok := d.revoked.load(v)
	if !ok {
		return
	}
	if err := d.gate.Reload(ctx, list, d.gate.Policy()); err != nil {
		if ctx.Err() == nil {
			d.log.Error("the revoked keys cannot be taken over", "error", err)
		}
		d.revoked.taken = unknown
		return
	}
	d.tookRevoked(list, at, v)
	d.sayRevoked()
	d.tickSoon()
}

// tookRevoked remembers what was taken over, for the next look and for status.
func (d *daemon) tookRevoked(list *authz.Revoked, at stamp, v verdict) {
	d.revoked.took(list, at, v)
	says := fmt.Sprintf("%d in %s", list.Count(), d.revoked.path)
	if list == nil {
		says = saysNone + "there is no " + d.revoked.path
	}
	if err := d.gate.Trust().Blocked(); err != nil {
		says = op.AsRefusal(err).Detail
	}
	d.revokedSays.Store(&says)
}

// sayRevoked logs what is in force.
func (d *daemon) sayRevoked() {
	if err := d.gate.Trust().Blocked(); err != nil {
		d.log.Error("every signature is refused", "why", *d.revokedSays.Load())
		return
	}
	d.log.Info("revoked keys are in force", "what", *d.revokedSays.Load())
}

// revocationPath returns which file lists the revoked keys, and whether it has
// to be there.
func revocationPath(c config.Config, dir string) (path string, required bool) {
	if c.RevocationFile != "" {
		return c.RevocationFile, true
	}
	return filepath.Join(dir, revokedName), false
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
