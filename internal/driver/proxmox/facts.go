package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// aboutBackup are the steps that need the list of backups: true. A destroy and a look for no step show it if there is one.
var aboutBackup = map[string]bool{"guest.backup": true, "guest.backup-restore": true, "guest.backup-delete": true,
	"guest.destroy": false, "": false}

// regarding adds to a look the objects that its step names, the backups, and the facts for
// people.
func (d *Driver) regarding(ctx context.Context, l op.Look, g *guest, o *op.Observed) error {
	own, others, err := d.regardBackups(ctx, l, g, o)
	if err != nil {
		return err
	}
	if err := d.aboutUsers(ctx, l, g, o); err != nil {
		return err
	}
	o.Facts = append(facts(l.Op, g, own, others), o.Facts...)
	if with := g.withTaken(""); with != "" {
		o.Fingerprint = g.fingerprint(with)
	}
	switch l.Op {
	case "guest.start", "guest.restart":
		return d.aboutShares(ctx, g, o)
	case "guest.restore", "guest.snapshot-delete":
		if name := l.Params.Str("snapshot"); !slices.Contains(o.Snapshots, name) {
			o.Missing = fmt.Sprintf("%s has no snapshot %s", l.Target, name)
		} else {
			g.aboutSnapshot(l.Op, name, o)
		}
	case "guest.disk-resize", "guest.disk-detach", "guest.disk-delete":
		if name := l.Params.Str("disk"); name != "" {
			if _, ok := g.drive(name); !ok {
				o.Missing = fmt.Sprintf("%s has no disk %s", l.Target, name)
			}
		}
	case "guest.backup-restore", "guest.backup-delete":
		if d.cfg.BackupStorage != "" { // else the operation does not exist
			d.aboutNamedBackup(l, g, o)
		}
	}
	return nil
}

// aboutShares adds to the look of a step that starts the guest what the guest would write that another one has, too.
func (d *Driver) aboutShares(ctx context.Context, g *guest, o *op.Observed) (err error) {
	if o.Shares, err = d.shared(ctx, g); err != nil || len(o.Shares) == 0 {
		return err
	}
	g.shares = o.Shares
	o.Fingerprint = g.fingerprint("shares " + strings.Join(o.Shares, "; "))
	for _, s := range o.Shares {
		o.Facts = append(o.Facts, op.Fact{Name: "would write", Text: op.Shown(s)})
	}
	return nil
}

// aboutNamedBackup adds to a look the backup that its step restores or deletes, or that it is missing.
func (d *Driver) aboutNamedBackup(l op.Look, g *guest, o *op.Observed) {
	name := l.Params.Str("backup")
	if b, ok := backupOf(g.own, name); ok {
		o.Fingerprint = g.fingerprint(g.withTaken(b.ident()))
		g.aboutBackup(l.Op, b, o)
		return
	}
	o.Missing = fmt.Sprintf("%s has no backup %s on %s", l.Target, name, d.cfg.BackupStorage)
	if b, is := backupOf(g.others, name); is {
		o.Missing += ": it " + g.whose(b)
	}
}

// regardBackups adds the names of the guest's own backups to a look, and returns all under its number. It refuses a step that needs
// the list, if there is none, and one that would have a backup of another guest pruned.
func (d *Driver) regardBackups(ctx context.Context, l op.Look, g *guest, o *op.Observed) (own, others []backup, err error) {
	needed, shown := aboutBackup[l.Op]
	if d.cfg.BackupStorage == "" || !shown {
		return nil, nil, nil
	}
	own, others, err = d.backups(ctx, g)
	switch {
	case err != nil && needed:
		return nil, nil, err
	case err != nil:
		o.Facts = append(o.Facts, op.Fact{Name: "backups", Text: "cannot be listed: " + refusal.As(err).Detail})
		return nil, nil, nil
	case l.Op == "guest.backup" && l.Params.Bool("rotate"):
		err = g.prunable(others)
	}
	o.Backups, o.Listed = namesOf(own), namesOf(slices.Concat(own, others))
	return own, others, err
}

// namesOf never returns nil, because nil would mean that the backups are not known.
func namesOf(all []backup) []string {
	names := make([]string, 0, len(all))
	for _, b := range all {
		names = append(names, b.name)
	}
	slices.Sort(names)
	return names
}

func backupOf(all []backup, name string) (backup, bool) {
	for _, b := range all {
		if b.name == name {
			return b, true
		}
	}
	return backup{}, false
}

// facts are what operators should see before they sign: what the step takes, and what stays.
func facts(verb string, g *guest, own, others []backup) []op.Fact {
	kind := map[string]string{qemu: "a machine (QEMU)", lxc: "a container (LXC)"}[g.kind]
	out := []op.Fact{{Name: "guest", Text: op.Shown(fmt.Sprintf("%s, vmid %d on %s, %s", kind, g.vmid, g.node, g.status))}}
	destroy := verb == "guest.destroy"
	out = append(out, g.diskFacts(destroy || verb == "guest.backup-restore")...)
	add := func(there bool, name, text string) {
		if there {
			out = append(out, op.Fact{Name: name, Text: op.Shown(text)})
		}
	}
	var names []string
	for _, s := range g.snapshots {
		names = append(names, s.name)
	}
	add(len(names) > 0, "snapshots", fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", ")))
	if len(own) > 0 {
		stay := map[bool]string{true: "; a destroy leaves them"}[destroy]
		add(true, "backups", fmt.Sprintf("%d, the newest %s of %s%s", len(own), own[0].name, own[0].when(), stay))
	}
	add(len(others) > 0, "other backups", g.othersText(others))
	add(g.lock != "", "locked", "Proxmox VE has it locked: "+g.lock)
	add(g.marker.there && !g.protection, "protection", "Proxmox VE's own protection is off; the next change of its settings puts it back")
	return out
}

// diskFacts says which disks the guest has. With whole, the step takes the guest's disks, and the facts say which of them remain.
func (g *guest) diskFacts(whole bool) []op.Fact {
	var disks, made, stays, remains, bases, unsure []string
	var total int64
	for _, d := range slices.Concat(g.drives, g.unused) {
		named := d.key + " " + d.volume
		switch {
		case (d.owned() || d.generated()) && g.foreign(d.volume) && whole:
			remains = append(remains, named)
		case d.owned() && whole && g.baseOf(d.volume) != nil:
			bases = append(bases, named)
		case d.generated():
			made = append(made, named)
		case d.owned():
			total += d.size
			disks = append(disks, fmt.Sprintf("%s %s (%s)", d.key, amount(d.size), d.volume))
			if whole && numberOfVolume(d.volume) == 0 {
				unsure = append(unsure, named)
			}
		case !d.cdrom && strings.HasPrefix(d.volume, "/"):
			stays = append(stays, named)
		}
	}
	out := []op.Fact{{Name: "disks", Text: op.Shown(fmt.Sprintf("%d, %s: %s", len(disks), amount(total), strings.Join(disks, ", ")))}}
	if len(made) > 0 {
		goes := map[bool]string{true: "; a destroy and a restored backup take it"}[whole]
		out = append(out, op.Fact{Name: "cloud-init", Text: op.Shown(strings.Join(made, ", ") + ": Proxmox VE makes it from the settings" + goes)})
	}
	if len(unsure) > 0 {
		out = append(out, op.Fact{Name: "unsure", Text: op.Shown(strings.Join(unsure, ", ") + ": no number in the name says whose it is, and its storage decides if it goes; count it as lost")})
	}
	var parts []string
	for _, part := range []struct {
		what []string
		why  string
	}{{remains, " of other guests, by the number in its name"}, {bases, ", on which a linked clone is based, as long as the clone has its disk"}, {stays, " of the node"}} {
		if len(part.what) > 0 {
			parts = append(parts, strings.Join(part.what, ", ")+part.why)
		}
	}
	if len(parts) > 0 {
		out = append(out, op.Fact{Name: "remains", Text: op.Shown(strings.Join(parts, "; ") + ": it is used and not destroyed")})
	}
	return out
}

func amount(bytes int64) string {
	switch {
	case bytes == 0:
		return "of unknown size"
	case bytes%gibibyte == 0:
		return fmt.Sprintf("%d GiB", bytes/gibibyte)
	case bytes%mebibyte == 0:
		return fmt.Sprintf("%d MiB", bytes/mebibyte)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
