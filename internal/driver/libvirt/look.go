package libvirt

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// guest is everything that one look finds out about a domain.
type guest struct {
	*domain
	mark      mark
	disks     []disk
	strange   []string // disks that run and are not configured, or are configured in another way
	snapshots []snapshotXML
	users     map[string][]*domain // other guests that use a disk, by its target
	used      *uses
	shares    []string // op.Observed.Shares
}

// The values of Observed.Running.
const (
	running = "running"
	stopped = "stopped"
	absent  = "absent"
	unknown = "unknown" // in List alone: the domain cannot be read
)

// Observe looks at one guest and adds facts for people. Its refusals are Unavailable if
// libvirtd does not answer, and Conflict for a domain that cannot be read.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	var o op.Observed
	err := d.with(ctx, func(s *session) error {
		g, seen, err := d.look(ctx, s, l)
		if err != nil {
			return err
		}
		if g != nil {
			seen.Facts, seen.Missing = g.facts(), g.missing(l)
			g.aboutCopy(l, &seen)
		}
		o = seen
		return d.foresee(ctx, s, l, g, &o)
	})
	return o, err
}

// foresee asks the step's preparer, which changes nothing, if it would refuse. So no operator is asked for a step that
// cannot be done.
func (d *Driver) foresee(ctx context.Context, s *session, l op.Look, g *guest, o *op.Observed) error {
	w := &work{Driver: d, session: s, guest: g, step: op.Step{Op: l.Op, Target: l.Target, Params: l.Params, Incarnation: l.Incarnation}}
	prepare, ok := preparers[l.Op]
	if o.Unfit(suits(w.step)) || !ok || driver.Fits(w.step, *o) != nil {
		return nil // the gate refuses it itself
	}
	_, err := prepare(w, ctx)
	if s.broken {
		return err
	}
	o.Foresee(err)
	return nil
}

// with calls fn with a connection.
func (d *Driver) with(ctx context.Context, fn func(*session) error) error {
	s, err := d.session(ctx)
	if err == nil {
		defer d.release(s)
		err = fn(s)
	}
	return d.unavailable(err)
}

// look is Observe without facts. The guest is nil if the name is free.
func (d *Driver) look(ctx context.Context, s *session, l op.Look) (*guest, op.Observed, error) {
	t := l.Target
	if t.Kind != d.Kind() {
		return nil, op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", t)
	}
	if err := op.CheckName(t.Name); err != nil {
		return nil, op.Observed{}, err
	}
	all, err := inventory(ctx, s)
	if err != nil {
		return nil, op.Observed{}, err
	}
	used, err := usesOf(ctx, s, all)
	if err != nil {
		return nil, op.Observed{}, err
	}
	for _, dom := range all {
		if dom.Name != t.Name {
			continue
		}
		g, err := d.guest(ctx, s, dom, used)
		if err != nil {
			return nil, op.Observed{}, err
		}
		o := d.observed(g)
		o.Lingers = lingers(all, l.Incarnation, o.Incarnation)
		return g, o, nil
	}
	return nil, op.Observed{Target: t, Running: absent, Ops: d.ops, Backend: d.Name(), Lingers: lingers(all, l.Incarnation, ""),
		Fingerprint: op.FingerprintOf(op.Params{"name": t.Name, "incarnation": ""}.Canonical())}, nil
}

// List looks at every domain whose name a target can have, without facts. A domain that cannot
// be read is listed as unknown, with the reason as its only fact. So it hides no other.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	var out []op.Observed
	err := d.with(ctx, func(s *session) error {
		all, err := inventory(ctx, s)
		if err != nil {
			return err
		}
		used, err := usesOf(ctx, s, all)
		if err != nil {
			return err
		}
		for _, dom := range all {
			if op.CheckName(dom.Name) != nil {
				continue
			}
			g, err := d.guest(ctx, s, dom, used)
			if s.broken {
				return err
			}
			if said(err, golibvirt.ErrNoDomain) {
				continue // it was removed during the look
			}
			if err != nil {
				out = append(out, d.unreadable(dom, err))
				continue
			}
			out = append(out, d.observed(g))
		}
		return nil
	})
	return out, err
}

func (d *Driver) unreadable(dom *domain, err error) op.Observed {
	return op.Observed{Target: op.Target{Kind: d.Kind(), Name: dom.Name}, Present: true, Running: unknown, Backend: d.Name(),
		Facts: []op.Fact{{Name: unknown, Text: op.Shown(err.Error())}}}
}

// guest looks at every part of a domain.
func (d *Driver) guest(ctx context.Context, s *session, dom *domain, used *uses) (*guest, error) {
	refuse := func(err error) error { return refusal.New(refusal.Conflict, "guest/%s: %v", dom.Name, err) }
	if dom.broken != nil {
		return nil, refuse(dom.broken)
	}
	g := &guest{domain: dom, users: map[string][]*domain{}, used: used}
	var err error
	if g.mark, err = dom.xml.mark(); err != nil {
		return nil, refuse(err)
	}
	for _, x := range dom.xml.Disks {
		if x.Source == (diskXML{}).Source {
			continue // a drive without a medium
		}
		k, err := d.disk(ctx, s, x)
		if err != nil {
			return nil, err
		}
		g.disks = append(g.disks, k)
		if others, _ := used.of(dom, k); len(others) > 0 && !k.medium {
			g.users[k.target] = others
		}
	}
	g.strange = strangers(dom)
	if dom.snapshots {
		g.snapshots, err = snapshotsOf(ctx, s, dom.Domain)
	}
	g.shares = g.sharing()
	return g, err
}

// strangers lists the running disks that are not configured, or that are other disks than
// configured.
func strangers(dom *domain) []string {
	var out []string
	for _, x := range dom.live.Disks {
		same := slices.ContainsFunc(dom.xml.Disks, func(y diskXML) bool {
			return y.Target == x.Target && (y.Source == x.Source || y.Source.Volume != "" && y.Source.Volume == x.Source.Volume)
		})
		if !same && x.Source != (diskXML{}).Source {
			out = append(out, fmt.Sprintf("%s %s%s%s%s", x.Target.Dev, x.Source.File, x.Source.Dev, x.Source.Name, x.Source.Volume))
		}
	}
	return out
}

func snapshotsOf(ctx context.Context, s *session, dom golibvirt.Domain) ([]snapshotXML, error) {
	found, err := call(ctx, s, func(lv *golibvirt.Libvirt) ([]golibvirt.DomainSnapshot, error) {
		found, _, err := lv.DomainListAllSnapshots(dom, 1, 0)
		return found, err
	})
	if err != nil {
		return nil, err
	}
	var out []snapshotXML
	for _, f := range found {
		text, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) { return lv.DomainSnapshotGetXMLDesc(f, 0) })
		if said(err, golibvirt.ErrNoDomainSnapshot) {
			continue
		}
		if err != nil {
			return nil, err
		}
		x, err := parseXML[snapshotXML](text)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b snapshotXML) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out, nil
}

func (d *Driver) observed(g *guest) op.Observed {
	o := op.Observed{Target: op.Target{Kind: d.Kind(), Name: g.Name}, Present: true, Incarnation: g.incarnation(), Birth: g.birth(), Marked: g.mark.birth,
		Running: stopped, Spec: g.params(), Protected: g.mark.protected, Labels: g.mark.labels, Volatile: g.volatile(),
		Storage: g.storage(), Ops: d.ops, Backend: d.Name(), Fingerprint: g.fingerprint(), Dependent: g.dependents(), Shares: g.shares}
	if g.active && !g.starting {
		o.Running = running
	}
	if !g.active {
		o.Content = g.content()
	}
	for _, x := range g.snapshots {
		o.Snapshots = append(o.Snapshots, x.Name)
	}
	for _, k := range g.disks {
		if !k.medium {
			o.Disks = append(o.Disks, op.Disk{Name: k.target, Size: k.capacity, ID: k.id})
		}
	}
	return o
}

// content is a token of the disks' content: the time of each disk's last write. The allocated
// size is no sign, because a file system allocates later, when it writes back. The token is
// empty if a disk has no such time. It is also empty if there are snapshots, because these hold
// data too.
func (g *guest) content() string {
	if len(g.snapshots) > 0 || len(g.strange) > 0 {
		return ""
	}
	token := "disks"
	for _, k := range g.disks {
		switch {
		case k.medium:
		case k.weak || k.volume == nil || k.modified == "":
			return ""
		default:
			token += fmt.Sprintf(" %s@%s", k.id, k.modified)
		}
	}
	return token
}

// volatile reports if a stop loses data that cannot be saved first. If a guest was undefined
// while it ran, the stop removes it. A disk that was added only to the running guest goes, and
// a transient disk, or a drive of QEMU's with snapshot=on, loses its changes. A guest without a writable disk has all its data in
// memory. A paused guest does not react to a shutdown, so its stop is a power off.
func (g *guest) volatile() bool {
	forgets := slices.ContainsFunc(g.disks, func(k disk) bool { return k.transient }) || slices.ContainsFunc(g.heldLive, func(h held) bool { return h.loses })
	keeps := slices.ContainsFunc(g.disks, func(k disk) bool { return !k.medium && !k.readonly })
	return g.active && (!g.persistent || len(g.strange) > 0 || forgets || !keeps || g.paused && !g.starting)
}

// params is the spec in the catalogue's units. Memory that is no whole number of MiB is rounded
// up, so that a wish for the rounded-down size shows as a change.
func (g *guest) params() op.Params {
	labels := make(map[string]any, len(g.mark.labels))
	for k, v := range g.mark.labels {
		labels[k] = v
	}
	p := op.Params{"command": "", "labels": labels, "protected": g.mark.protected}
	if most, _, err := g.xml.memory(); err == nil {
		p["memory"] = (most + 1023) >> 10
	}
	if most, _, err := g.xml.cpus(); err == nil {
		p["cpus"] = most
	}
	return p
}

// storage is everything that a destroy would take.
func (g *guest) storage() []op.StorageID {
	ids := []op.StorageID{}
	for _, k := range g.disks {
		if k.deletable() && !slices.Contains(ids, k.id) {
			ids = append(ids, k.id)
		}
	}
	for _, x := range g.snapshots {
		ids = append(ids, op.StorageID("libvirt:snapshot:"+g.xml.UUID+":"+x.Name+"@"+x.Created))
	}
	if g.saved {
		ids = append(ids, op.StorageID("libvirt:saved:"+g.xml.UUID))
	}
	if g.takesNVRAM() {
		ids = append(ids, op.StorageID("libvirt:nvram:"+g.xml.OS.NVRAM.path()))
	}
	if g.keepsTPM() {
		ids = append(ids, op.StorageID("libvirt:tpm:"+g.xml.UUID))
	}
	if g.used.doubtful(g.domain) {
		ids = append(ids, op.StorageID("libvirt:unclear:"+g.xml.UUID)) // no record of the gate covers that, so a destroy is signed
	}
	return ids
}

// keepsTPM reports if the guest has an emulated TPM. Its secrets go with the definition.
func (g *guest) keepsTPM() bool { return slices.Contains(g.xml.TPMs, tpmXML{emulator}) }

// takesNVRAM reports if a destroy takes the file of the firmware settings. A definition can
// name any file there, so a destroy takes the file only if no other guest uses it, and all files of this one are known.
func (g *guest) takesNVRAM() bool {
	path := g.xml.OS.NVRAM.path()
	return path != "" && !g.used.doubtful(g.domain) && g.used.alone(g.domain, disk{target: "nvram", path: path}, nil) == nil
}

// fingerprint digests everything that an operator's signature should depend on. It never covers
// the running state, the limits, the time of the last write, or the amount of data.
func (g *guest) fingerprint() op.Fingerprint {
	list := func(in []string) []any {
		out := make([]any, len(in))
		for i, v := range in {
			out[i] = v
		}
		return out
	}
	var disks, snapshots, others []string
	for _, k := range g.disks {
		disks = append(disks, fmt.Sprintf("%s %s %d %s deletable=%t medium=%t", k.target, k.id, k.capacity, k.format, k.deletable(), k.medium))
	}
	for _, x := range g.snapshots {
		snapshots = append(snapshots, x.Name+"@"+x.Created)
	}
	for _, t := range g.dependents() {
		others = append(others, t.Name)
	}
	p := op.Guarded(g.params())
	p["name"], p["incarnation"] = g.Name, string(g.incarnation())
	p["disks"], p["snapshots"], p["dependents"], p["live"] = list(disks), list(snapshots), list(others), list(g.strange)
	if len(g.shares) > 0 {
		p["shares"] = list(g.shares)
	}
	if stay := g.staying(); len(stay) > 0 {
		p["stays"] = list(stay)
	}
	if hidden := g.hidden(); len(hidden) > 0 {
		p["hidden"] = list(hidden)
	}
	p["saved"], p["persistent"], p["nvram"], p["tpm"] = g.saved, g.persistent, g.xml.OS.NVRAM.path(), g.keepsTPM()
	return op.FingerprintOf(p.Canonical())
}

// staying names what the guest has, as configured or as it runs, that every step leaves.
func (g *guest) staying() []string { return staying(slices.Concat(g.held, g.heldLive)) }

// hidden are the arguments of QEMU that cannot be read.
func (g *guest) hidden() []string {
	var out []string
	for _, h := range slices.Concat(g.held, g.heldLive) {
		if h.hides != "" {
			out = append(out, h.slot+" "+h.by["value"])
		}
	}
	return out
}

// missing names the object of the step that does not exist.
func (g *guest) missing(l op.Look) string {
	if name := l.Params.Str("snapshot"); (l.Op == "guest.restore" || l.Op == "guest.snapshot-delete") && !g.hasSnapshot(name) {
		return "guest/" + g.Name + " has no snapshot " + strconv.Quote(name)
	}
	if l.Op == "guest.disk-create" || !l.Params.Has("disk") {
		return ""
	}
	if _, ok := g.diskNamed(l.Params.Str("disk")); !ok {
		return "guest/" + g.Name + " has no disk " + strconv.Quote(l.Params.Str("disk"))
	}
	return ""
}

func (g *guest) hasSnapshot(name string) bool {
	return slices.ContainsFunc(g.snapshots, func(x snapshotXML) bool { return x.Name == name })
}

func (g *guest) diskNamed(name string) (disk, bool) {
	for _, k := range g.disks {
		if k.target == name && !k.medium {
			return k, true
		}
	}
	return disk{}, false
}
