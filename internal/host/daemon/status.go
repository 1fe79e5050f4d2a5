package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/base/version"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/local"
	"gated/internal/gate"
)

// remedies says what to do where the daemon and its callers share a uid.
var remedies = []string{
	"run the daemon under a uid of its own (contrib/systemd) and set single_user: false",
	"use operator keys that need a touch: any process of a user can use that user's ssh-agent",
}

// remediesFor adds what to do about commands of the catalogue that run as the
// daemon's own user, which can change the gate.
func remediesFor(entries map[string]catalogue.Entry) []string {
	out := slices.Clone(remedies)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if entries[name].User == "" {
			out = append(out, "name a user for command/"+name+": it runs as gated's own, and can change the gate itself")
		}
	}
	return out
}

// Status says how the daemon is.
func (d *daemon) Status(ctx context.Context) (api.Status, error) {
	s := api.Status{Host: d.gate.Host(), Gate: d.gate.ID(), Version: version.String(), UID: uint32(os.Geteuid()),
		StartedAt: d.started.UTC(), Isolation: "uid", Remedies: []string{}, Health: d.health(), Sources: d.sources(),
		Epoch: d.gate.Epoch(), Policy: d.gate.Policy().Digest(), Canary: d.canaryStatus(), Hub: d.hubStatus(), Member: d.member.status(ctx, d)}
	if d.config.SingleUser {
		s.Isolation, s.Remedies = "none", remediesFor(d.config.Commands)
	}
	d.canarySoon()
	if err := d.watched(ctx, &s); err != nil {
		return s, err
	}
	counts, err := d.gate.Counts(ctx)
	if err != nil {
		return s, err
	}
	s.Waiting, s.Running = counts[op.StatePending], counts[op.StateDispatched]
	head, err := d.gate.AuditHead(ctx)
	if err != nil {
		return s, err
	}
	s.AuditHead = api.Head{Seq: head.Seq, Hash: head.Hash}
	s.Agents = d.agents.Count()
	if s.Reserved, err = d.agents.Book.Count(ctx); err != nil {
		return s, err
	}
	s.Limits, s.Layers = map[string]bool{}, []api.Layer{}
	if d.local != nil {
		l := d.local.Status()
		s.Limits = map[string]bool{"cgroup": l.Memory == "cgroup", "landlock": l.Stands(local.LayerLandlock), "rlimit": true}
		for _, layer := range l.Layers {
			s.Layers = append(s.Layers, api.Layer{Name: layer.Name, Stands: layer.Stands, Detail: layer.Detail})
		}
	}
	d.countGuests(ctx, &s)
	return s, nil
}

// health lists what the daemon watches of itself.
func (d *daemon) health() []api.Health {
	moment := d.gate.Moment()
	clock := api.Health{Name: "clock", OK: moment.Trusted, Detail: "believed"}
	if !clock.OK {
		clock.Detail = "signed work waits: " + moment.Why + "; the gate goes by " + moment.Now.UTC().Format(time.RFC3339) + " meanwhile; " + gate.ClockRemedy
	}
	settings := api.Health{Name: "settings", OK: true, Detail: fmt.Sprintf("as on disk when last read, policy %.12s in force", d.gate.Policy().Digest())}
	if waits := d.waits.Load(); waits != nil && *waits != "" {
		settings.Detail = *waits + " changed on disk and take effect at the next start"
	}
	if r := d.reloadErr.Load(); r != nil {
		settings = api.Health{Name: "settings", Detail: r.Sentence()}
	}
	return slices.Concat([]api.Health{clock, d.stateHealth(), d.journalHealth(), d.diskHealth(), d.whole.health(), settings, d.signersHealth(), d.revokedHealth(), d.agents.Health()}, d.backendsHealth(), d.canaryHealth(), d.hubHealth(), d.memberHealth(context.Background()), d.unmeetable(), d.troubles())
}

// journalHealth says whether the last decision could be written. A disk that is
// full, or read-only, shows here.
func (d *daemon) journalHealth() api.Health {
	if err := d.opened.Store.WriteError(); err != nil {
		if room, unread := d.opened.Room.State(); store.DiskFull(err) && unread == nil && room.Reserve > 0 {
			return api.Health{Name: "journal", Detail: "cannot be written, so only signed work goes on, with the reserve (see disk): " + err.Error()}
		}
		return api.Health{Name: "journal", Detail: "cannot be written, so nothing is decided: " + err.Error()}
	}
	if !d.stateHealth().OK {
		return api.Health{Name: "journal", Detail: "what is decided now is lost: see state"}
	}
	return api.Health{Name: "journal", OK: true, Detail: "writable when last written"}
}

// diskHealth says whether the disk has room for more than signed work.
func (d *daemon) diskHealth() api.Health {
	s, err := d.opened.Room.State()
	switch {
	case err != nil:
		return api.Health{Name: "disk", Detail: "its free space cannot be read: " + err.Error()}
	case s.Low():
		return api.Health{Name: "disk", Detail: fmt.Sprintf("%d MiB are free in %s: below %d MiB only signed work goes on (limits.keep_free); %d of %d MiB of the reserve for it are left. Make room: df %s; Disk full in gated docs runbook says which files may go",
			s.Free>>20, d.opened.Dir.Path(), s.Keep>>20, s.Reserve>>20, s.Whole>>20, op.ShellWords(d.opened.Dir.Path()))}
	case s.Reserve < s.Whole:
		return api.Health{Name: "disk", OK: true, Detail: fmt.Sprintf("there is room; the reserve for signed work has %d of %d MiB", s.Reserve>>20, s.Whole>>20)}
	}
	return api.Health{Name: "disk", OK: true, Detail: fmt.Sprintf("there is room, and %d MiB are reserved for signed work", s.Reserve>>20)}
}

// maxTroubles bounds what status lists of one sort.
const maxTroubles = 20

// troubles lists what reconcile cannot do, at most maxTroubles of each sort.
func (d *daemon) troubles() []api.Health {
	var out []api.Health
	r := d.reconciler().Status()
	for _, dr := range r.Drivers {
		if dr.Kind == d.backends.guests.Kind() {
			continue // each of its back ends says so itself
		}
		out = append(out, api.Health{Name: "driver of " + dr.Kind, OK: dr.OK, Detail: dr.Error})
	}
	out = append(out, unknowns(r.Unknown)...)
	for _, c := range r.Conflicts[:min(len(r.Conflicts), maxTroubles)] {
		out = append(out, api.Health{Name: c.Target.String(),
			Detail: "stands in several sets, so none of their wishes counts: " + strings.Join(c.Sets, ", ")})
	}
	for _, s := range r.Stopped[:min(len(r.Stopped), maxTroubles)] {
		what := " is not tried again: "
		if s.Waits {
			what = " waits for what is in its way to go: "
		}
		out = append(out, api.Health{Name: s.Target.String(), Detail: s.Op + what + string(s.Code) + ": " + s.Detail})
	}
	for _, set := range r.Full[:min(len(r.Full), maxTroubles)] {
		out = append(out, api.Health{Name: "set " + set, Detail: "has as many requests open as it may"})
	}
	return out
}

// sources says how the last reads of desired state went.
func (d *daemon) sources() []api.SourceStatus {
	out := []api.SourceStatus{}
	for _, s := range d.reconciler().Status().Sources {
		st := api.SourceStatus{Name: s.Name, Sets: s.Sets}
		if !s.ReadAt.IsZero() {
			at := s.ReadAt.UTC()
			st.ReadAt = &at
		}
		if s.Error != "" {
			st.Error = &api.Error{Code: s.Code, Detail: s.Error}
			if d.hub != nil { // it is the only source
				link := d.hub.Status()
				st.Error.Detail = hubFault(s.Error, link.ErrSince, link.NextAt, now())
			}
		}
		out = append(out, st)
	}
	return out
}
