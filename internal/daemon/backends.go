package daemon

import (
	"context"
	"errors"

	"gated/internal/config"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/libvirt"
	"gated/internal/driver/local"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/several"
)

// opener opens a back end as the configuration says. What it returns beside it
// ends it, nil where there is nothing to end. A back end that is away is opened
// all the same: its error is about settings that cannot work.
type opener func(ctx context.Context, d *daemon) (driver.Backend, func() error, error)

// guestOpeners open the back ends that can have guests, by the names that
// config.GuestBackends has.
var guestOpeners = map[string]opener{
	"libvirt": openLibvirt,
	"proxmox": openProxmox,
	"local":   openLocal,
}

// otherOpeners open the back ends of other kinds, where they are configured.
var otherOpeners = []struct {
	configured func(config.Config) bool
	open       opener
}{
	{func(c config.Config) bool { return len(c.Commands) > 0 }, openCommands},
}

// backends are all the back ends of a gate.
type backends struct {
	guests *several.Driver
	others []other
	close  func() error
}

// other is a back end that alone answers for its kind.
type other struct {
	driver.Backend
	checker *several.Checker
}

// openBackends opens every back end that is configured, or none.
func (d *daemon) openBackends(ctx context.Context) (b *backends, err error) {
	b = &backends{close: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	var members []driver.Backend
	for _, name := range d.config.GuestBackends() {
		one, err := b.open(ctx, d, guestOpeners[name])
		if err != nil {
			return b, err
		}
		members = append(members, one)
	}
	if b.guests, err = several.New(ctx, several.Config{Backends: members, NewGuests: d.config.NewGuests, Now: now, Logger: d.log}); err != nil {
		return b, err
	}
	b.closeFirst(b.guests.Close)
	for _, o := range otherOpeners {
		if !o.configured(d.config) {
			continue
		}
		one, err := b.open(ctx, d, o.open)
		if err != nil {
			return b, err
		}
		b.others = append(b.others, other{one, several.NewChecker(ctx, one, now, d.log)})
	}
	return b, nil
}

// open opens one back end and has it ended with the others.
func (b *backends) open(ctx context.Context, d *daemon, open opener) (driver.Backend, error) {
	one, end, err := open(ctx, d)
	if err == nil && end != nil {
		b.closeFirst(end)
	}
	return one, err
}

// closeFirst has something ended before what was opened before it.
func (b *backends) closeFirst(end func() error) {
	others := b.close
	b.close = func() error { return errors.Join(end(), others()) }
}

// drivers returns the driver of each kind that back ends have.
func (b *backends) drivers(d *daemon) drivers {
	out := drivers{b.guests.Kind(): driver.Contain(b.guests, d.log)}
	for _, o := range b.others {
		out[o.Kind()] = driver.Contain(o, d.log)
	}
	return out
}

func openLocal(_ context.Context, d *daemon) (driver.Backend, func() error, error) {
	l, err := local.New(d.localConfig())
	if err != nil {
		return nil, nil, err
	}
	d.local = l
	return l, l.Close, nil
}

func openCommands(_ context.Context, d *daemon) (driver.Backend, func() error, error) {
	return command.New(command.Config{Entries: d.config.Commands, SingleUser: d.config.SingleUser, Now: now}), nil, nil
}

func openLibvirt(_ context.Context, d *daemon) (driver.Backend, func() error, error) {
	c := d.config.Libvirt
	templates := make(map[string]libvirt.Template, len(c.Templates))
	for name, t := range c.Templates {
		templates[name] = libvirt.Template(t)
	}
	l, err := libvirt.New(libvirt.Config{Socket: c.Socket, Pool: c.Pool, StopGrace: c.StopGrace, Timeout: c.Timeout,
		Templates: templates, Logger: d.log})
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

func openProxmox(_ context.Context, d *daemon) (driver.Backend, func() error, error) {
	c := d.config.Proxmox
	templates := make(map[string]proxmox.Template, len(c.Templates))
	for name, t := range c.Templates {
		templates[name] = proxmox.Template(t)
	}
	p, err := proxmox.New(proxmox.Config{URL: c.URL, TokenFile: c.TokenFile, Fingerprint: c.Fingerprint, CAFile: c.CAFile, Node: c.Node,
		Pool: c.Pool, Storage: c.Storage, BackupStorage: c.BackupStorage, First: c.First, Last: c.Last, StopGrace: c.StopGrace,
		Timeout: c.Timeout, Templates: templates})
	if err != nil {
		return nil, nil, err
	}
	d.proxmox = p
	return p, p.Close, nil
}
