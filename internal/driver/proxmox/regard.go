package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// aboutBackup are the steps that need the list of backups.
var aboutBackup = map[string]bool{"guest.backup": true, "guest.backup-restore": true, "guest.backup-delete": true}

// regarding adds to a look the objects that its step names, the backups, and the facts for
// people.
func (d *Driver) regarding(ctx context.Context, l op.Look, g *guest, o *op.Observed) error {
	var all []backup
	if d.cfg.BackupStorage != "" {
		var err error
		all, err = d.backups(ctx, g)
		if err != nil && aboutBackup[l.Op] {
			return err
		}
		if err != nil {
			o.Facts = append(o.Facts, op.Fact{Name: "backups", Text: "cannot be listed: " + refusal.As(err).Detail})
		} else {
			o.Backups = namesOf(all)
		}
	}
	o.Facts = append(facts(g, all), o.Facts...)
	switch l.Op {
	case "guest.start", "guest.restart":
		var err error
		if o.Shares, err = d.shared(ctx, g); err != nil {
			return err
		}
		if len(o.Shares) > 0 {
			o.Fingerprint = g.fingerprint("shares " + strings.Join(o.Shares, "; "))
		}
		for _, s := range o.Shares {
			o.Facts = append(o.Facts, op.Fact{Name: "would write", Text: op.Shown(s)})
		}
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
		if d.cfg.BackupStorage == "" {
			break // the operation does not exist
		}
		b, ok := backupOf(all, l.Params.Str("backup"))
		if !ok {
			o.Missing = fmt.Sprintf("%s has no backup %s on %s", l.Target, l.Params.Str("backup"), d.cfg.BackupStorage)
			break
		}
		o.Fingerprint = g.fingerprint(b.ident())
		g.aboutBackup(l.Op, b, o)
	}
	return nil
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
func facts(g *guest, all []backup) []op.Fact {
	var out []op.Fact
	add := func(name, text string) { out = append(out, op.Fact{Name: name, Text: op.Shown(text)}) }
	kind := map[string]string{qemu: "a machine (QEMU)", lxc: "a container (LXC)"}[g.kind]
	add("guest", fmt.Sprintf("%s, vmid %d on %s, %s", kind, g.vmid, g.node, g.status))
	var disks, stays []string
	var total int64
	for _, d := range slices.Concat(g.drives, g.unused) {
		switch {
		case d.owned():
			total += d.size
			disks = append(disks, fmt.Sprintf("%s %s (%s)", d.key, amount(d.size), d.volume))
		case !d.cdrom && strings.HasPrefix(d.volume, "/"):
			stays = append(stays, d.key+" "+d.volume)
		}
	}
	add("disks", fmt.Sprintf("%d, %s: %s", len(disks), amount(total), strings.Join(disks, ", ")))
	if len(stays) > 0 {
		add("remains", strings.Join(stays, ", ")+" of the node: it is used and not destroyed")
	}
	if len(g.snapshots) > 0 {
		var names []string
		for _, s := range g.snapshots {
			names = append(names, s.name)
		}
		add("snapshots", fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", ")))
	}
	if len(all) > 0 {
		add("backups", fmt.Sprintf("%d, the newest %s of %s; a destroy leaves them", len(all), all[0].name, all[0].when()))
	}
	if g.lock != "" {
		add("locked", "Proxmox VE has it locked: "+g.lock)
	}
	if g.marker.there && !g.protection {
		add("protection", "Proxmox VE's own protection is off; the next change of its settings puts it back")
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
