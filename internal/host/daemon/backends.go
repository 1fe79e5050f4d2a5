package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/agents/steer"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/libvirt"
	"gated/internal/driver/local"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/several"
	"gated/internal/host/config"
	"gated/internal/host/service"
	"gated/internal/host/state"
	"gated/internal/reconcile"
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
	steers []api.SteeringRule
}

// other is a back end that alone answers for its kind.
type other struct {
	driver.Backend
	checker *several.Checker
}

// openBackends opens every back end that is configured. What it opened ends with
// the daemon, also if a later one cannot be opened.
func (d *daemon) openBackends(ctx context.Context) (*backends, error) {
	b := &backends{}
	var members []driver.Backend
	for _, name := range d.config.GuestBackends() {
		one, err := d.openBackend(ctx, guestOpeners[name])
		if err != nil {
			return nil, err
		}
		members = append(members, one)
		if s, ok := one.(steer.Steerer); ok {
			b.steers = append(b.steers, service.SteeringOf(name, s.Steering())...)
		}
	}
	var err error
	if b.guests, err = several.New(ctx, several.Config{Backends: members, NewGuests: d.config.NewGuests, Now: now, Logger: d.log}); err != nil {
		return nil, err
	}
	d.atEnd(b.guests.Close)
	for _, o := range otherOpeners {
		if !o.configured(d.config) {
			continue
		}
		one, err := d.openBackend(ctx, o.open)
		if err != nil {
			return nil, err
		}
		b.others = append(b.others, other{one, several.NewChecker(ctx, one, now, d.log)})
	}
	return b, nil
}

func (d *daemon) openBackend(ctx context.Context, open opener) (driver.Backend, error) {
	one, end, err := open(ctx, d)
	if err == nil && end != nil {
		d.atEnd(end)
	}
	return one, err
}

// drivers returns the driver of each kind that back ends have.
func (b *backends) drivers(log *slog.Logger) drivers {
	out := drivers{}
	out.add(b.guests, log)
	for _, o := range b.others {
		out.add(o, log)
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
	asks := func(uid uint32) bool { list := d.submitters(); return list == nil || slices.Contains(list, uid) }
	return command.New(command.Config{Entries: d.config.Commands, SingleUser: d.config.SingleUser, Asks: asks, Now: now}), nil, nil
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
		Timeout: c.Timeout, Templates: templates, Held: d.member.held(), Recorded: d.recorded})
	if err != nil {
		return nil, nil, err
	}
	d.proxmox = p
	return p, p.Close, nil
}

func (d *daemon) localConfig() local.Config {
	c := d.config.Local
	root := c.Root
	if root == "" {
		root = filepath.Join(d.opened.Dir.Path(), state.GuestsName)
	}
	commands := map[string]local.Command{}
	for name, cmd := range c.Commands {
		commands[name] = local.Command{Argv: cmd.Argv, User: cmd.User, Env: cmd.Env}
	}
	return local.Config{Root: root, TrashKeep: c.TrashKeep, StopGrace: c.StopGrace, Commands: commands,
		GuestUIDs: local.UIDRange(c.GuestUIDs), SingleUser: d.config.SingleUser, CgroupRoot: c.Cgroup, Now: now, Logger: d.log,
		Exited: d.wake, Wanted: d.wanted}
}

// wanted reports whether an open step is to bring a destroyed guest back.
func (d *daemon) wanted(ctx context.Context, name string, inc op.Incarnation) (bool, error) {
	return d.gate.Wanted(ctx, op.Target{Kind: op.KindGuest, Name: name}, inc)
}

// recorded returns the incarnations with a prefix that the journal knows.
func (d *daemon) recorded(ctx context.Context, prefix string) ([]op.Incarnation, error) {
	return d.gate.Incarnations(ctx, prefix)
}

// countGuests says how many guests there are. Where others than local have some,
// it is as many as were there when reconcile looked last: a status asks nothing
// of a hypervisor.
func (d *daemon) countGuests(ctx context.Context, s *api.Status) {
	states := d.backends.guests.States()
	if len(states) == 1 && d.local != nil {
		all, err := d.local.List(ctx)
		if err != nil {
			s.Health = append(s.Health, api.Health{Name: "guests", Detail: refusal.As(err).Detail})
			return
		}
		s.Guests = len(all)
		return
	}
	for _, b := range states {
		s.Guests += b.Targets
	}
}

// backendsHealth says of each back end for guests whether it is there. A single
// one that is needs no words.
func (d *daemon) backendsHealth() []api.Health {
	states := d.backends.guests.States()
	var out []api.Health
	for _, b := range states {
		switch {
		case b.Away != "":
			out = append(out, api.Health{Name: "back end " + b.Name, Detail: fmt.Sprintf("away since %s: %s; its guests are unknown, nothing is planned for them, and requests stay",
				b.Since.UTC().Format(time.RFC3339), b.Away)})
		case len(states) > 1:
			out = append(out, api.Health{Name: "back end " + b.Name, OK: true, Detail: fmt.Sprintf("%d guests", b.Targets)})
		}
	}
	return out
}

// Backends checks each back end, side by side.
func (b *backends) Backends(ctx context.Context) ([]api.Backend, error) {
	states := b.guests.States()
	out := make([]api.Backend, len(states)+len(b.others))
	var wg sync.WaitGroup
	for i, s := range states {
		since := s.Since.UTC()
		out[i] = api.Backend{Name: s.Name, Kind: s.Kind, State: api.BackendOK, Detail: s.Away, Since: &since, Guests: s.Targets, NewGuests: s.NewGuests}
		if s.Away != "" {
			out[i].State = api.BackendAway
		}
		wg.Go(func() {
			checkInto(&out[i], func() ([]driver.Finding, time.Time) { return b.guests.Check(ctx, s.Name) })
		})
	}
	for i, o := range b.others {
		at := &out[len(states)+i]
		*at = api.Backend{Name: o.Name(), Kind: o.Kind(), State: api.BackendOK}
		wg.Go(func() { checkInto(at, func() ([]driver.Finding, time.Time) { return o.checker.Check(ctx) }) })
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b api.Backend) int { return strings.Compare(a.Name, b.Name) })
	return out, ctx.Err()
}

// checkInto puts what a check found on the wire.
func checkInto(out *api.Backend, check func() ([]driver.Finding, time.Time)) {
	found, at := check()
	out.CheckedAt, out.Findings = at.UTC(), make([]api.Finding, 0, len(found))
	for _, f := range found {
		out.Findings = append(out.Findings, api.Finding{What: f.What, State: string(f.State), Detail: f.Detail, Hint: f.Hint})
		if f.What == versionFinding && f.State != driver.Bad {
			out.Version = f.Detail
		}
	}
}

// versionFinding is the finding whose detail is the version of a back end.
const versionFinding = "version"

// unknowns lists targets that cannot be looked at, at most maxTroubles. Those that
// one reason keeps from it, as a back end that is away, are one line.
func unknowns(list []reconcile.Trouble) (out []api.Health) {
	count, first := map[string]int{}, map[string]op.Target{}
	for _, u := range list {
		if count[u.Why]++; count[u.Why] == 1 {
			first[u.Why] = u.Target
		}
	}
	for _, u := range list {
		if u.Target != first[u.Why] || len(out) == maxTroubles {
			continue
		}
		name := u.Target.String()
		if more := count[u.Why] - 1; more > 0 {
			name = fmt.Sprintf("%s and %d more", name, more)
		}
		out = append(out, api.Health{Name: name, Detail: "cannot be looked at: " + u.Why})
	}
	return out
}
