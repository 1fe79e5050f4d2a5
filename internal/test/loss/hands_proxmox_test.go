package loss

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gated/internal/driver/proxmox/pvetest"
)

// tidy unlocks guests, and makes guests of templates, which the gate leaves alone. Linked clones go, because they keep their bases.
func (b *proxmoxBed) tidy() {
	for _, vmid := range b.linked {
		b.Remove(vmid)
	}
	b.linked = nil
	for vmid := int(b.cfg.First); vmid <= int(b.cfg.Last); vmid++ {
		config := b.Guest(vmid).Config
		if config["lock"] == byHand {
			b.SetLock(vmid, "")
		}
		if config["template"] != "" {
			b.Set(vmid, map[string]string{"template": ""})
		}
	}
}

// extraDisk is where a hand puts a disk of another guest, by the kind of guest.
var extraDisk = map[string]string{"qemu": "scsi5", "lxc": "mp5"}

// meddle of Proxmox VE is an administrator at the web page, or with qm and pct.
func (b *proxmoxBed) meddle(name, other string, how uint8, nth int64) deed {
	const kinds, before, after = 17, 7, 13
	how %= kinds
	vmid := b.VMID(name)
	switch {
	case how == toNumber && vmid == 0:
		return b.takeNumber(b.last[name], nth)
	case how == toNumber || vmid == 0:
		return deed{}
	case how == toLink:
		return b.link(vmid, nth)
	case how >= after:
		return b.exchange(vmid, how, nth)
	case how >= before:
		return b.administer(vmid, int(how-before))
	}
	g := b.Guest(vmid)
	switch how {
	case 0:
		b.Set(vmid, map[string]string{"memory": strconv.FormatInt(oddMemory(nth), 10)})
		return deed{says: fmt.Sprintf("memory of %d is %d", vmid, oddMemory(nth)), field: "memory"}
	case 1:
		line, to := g.Config[b.root], b.Guest(b.VMID(other))
		extra := extraDisk[to.Kind]
		if other == "" || line == "" || to.Config[extra] != "" {
			return deed{}
		}
		if to.Kind == "lxc" {
			line += ",mp=/srv"
		}
		b.Set(b.VMID(other), map[string]string{extra: line})
		return deed{says: fmt.Sprintf("%s (%d) has %s of %d, too", other, b.VMID(other), line, vmid), shares: b.holderOf(vmid), with: b.holder(other)}
	case 2:
		extra := extraDisk[g.Kind]
		id, _, _ := strings.Cut(g.Config[extra], ",")
		owner := b.Volumes(0)[id].VMID
		if id == "" || owner == vmid {
			return deed{}
		}
		b.Set(vmid, map[string]string{extra: ""})
		return deed{says: fmt.Sprintf("%d has %s no more", vmid, id), parts: b.holderOf(owner)}
	case 3:
		if g.Config["protection"] == "1" {
			return deed{}
		}
		b.SetProtection(vmid, true)
		return deed{says: fmt.Sprintf("%d is protected", vmid), guards: true}
	case 4:
		b.SetRunning(vmid, !g.Running)
		return deed{says: fmt.Sprintf("%d runs: %v", vmid, !g.Running), field: "running"}
	case 5:
		b.BackUp(vmid, "local")
		return deed{says: fmt.Sprintf("a backup of %d, and the oldest of three is pruned", vmid)}
	}
	m := mark(fmt.Sprintf("hand-%d", nth))
	was := b.holder(name)
	b.Remake(vmid, pvetest.Spec{Config: map[string]string{"description": "made by " + string(m)}, Data: map[string][]byte{firstDisk[g.Kind]: line(m)}})
	return deed{says: fmt.Sprintf("%d is another guest of the name, with %s", vmid, m), gave: was}
}

// byHand is the lock of a guest that a hand locked. A task of the gate never has it.
const byHand = "migrate"

// administer is what an administrator of Proxmox VE does with copies, locks and places.
func (b *proxmoxBed) administer(vmid, how int) deed {
	g, backups := b.Guest(vmid), b.Backups(vmid)
	switch {
	case how == 0 && !slices.Contains(g.Snaps, "hand"):
		b.TakeSnapshot(vmid, "hand")
		return deed{says: fmt.Sprintf("a snapshot of %d", vmid)}
	case how == 1 && len(g.Snaps) > 0:
		b.DropSnapshot(vmid, g.Snaps[0])
		return deed{says: fmt.Sprintf("the snapshot %s of %d is deleted", g.Snaps[0], vmid)}
	case how == 2 && len(backups) > 0:
		b.DropBackup(backups[0].ID)
		return deed{says: fmt.Sprintf("the backup %s is deleted", backups[0].ID)}
	case how == 3:
		lock := map[string]string{"": byHand}[g.Config["lock"]]
		b.SetLock(vmid, lock)
		return deed{says: fmt.Sprintf("the lock of %d is %q", vmid, lock)}
	case how == 4 && !g.Running && len(g.Snaps) == 0:
		b.Set(vmid, map[string]string{"template": "1"})
		return deed{says: fmt.Sprintf("%d is a template", vmid)}
	case how == 5 && len(g.Snaps) == 0 && g.Config[b.root] != "" && !b.shares(vmid):
		b.MoveDisk(vmid, b.root, "dir")
		return deed{says: fmt.Sprintf("%s of %d is on another storage", b.root, vmid)}
	}
	return deed{}
}

// exchange makes a guest's first disk again, under its key and name and of its size, on a storage that lists when a volume was made.
// In a directory nobody could tell. Or it has a container's programs hold all memory that they may.
func (b *proxmoxBed) exchange(vmid int, how uint8, nth int64) deed {
	g, m := b.Guest(vmid), mark(fmt.Sprintf("hand-%d", nth))
	id, _, _ := strings.Cut(g.Config[b.root], ",")
	v := b.Volumes(vmid)[id]
	mib, _ := strconv.Atoi(g.Config["memory"])
	switch {
	case how == toHold && g.Kind == "lxc" && g.Running && mib > 0:
		b.SetUsed(vmid, int64(mib))
		b.used[vmid] = inUse{b.holderOf(vmid), m, mib}
		return deed{says: fmt.Sprintf("the programs of %d hold %d MiB, with %s", vmid, mib, m)}
	case how == toAgain && v.Storage == b.cfg.Storage && len(g.Snaps) == 0 && !b.shares(vmid):
		b.RemoveVolume(id)
		b.AddVolume(pvetest.Volume{ID: id, VMID: vmid, Size: v.Size, Format: v.Format, Content: v.Content, Data: line(m)})
		return deed{says: fmt.Sprintf("%s of %d was deleted and made again as %s, with %s", b.root, vmid, id, m), again: b.holderOf(vmid)}
	}
	return deed{}
}

// link switches a guest off, and makes a linked clone of it, which is based on the guest's disk, and the template a guest again. On a thin LVM a clone needs no base.
func (b *proxmoxBed) link(vmid int, nth int64) deed {
	g := b.Guest(vmid)
	if len(g.Snaps) > 0 || g.Config[b.root] == "" || g.Config["template"] != "" || b.shares(vmid) {
		return deed{}
	}
	b.SetRunning(vmid, false)
	b.MoveDisk(vmid, b.root, "dir")
	b.linked = append(b.linked, b.LinkedClone(vmid, fmt.Sprintf("linked-%d", nth)))
	b.Set(vmid, map[string]string{"template": ""})
	return deed{says: fmt.Sprintf("linked-%d is a linked clone of %d", nth, vmid), field: "running"}
}

// takeNumber makes another guest with the number of one that is gone.
func (b *proxmoxBed) takeNumber(was numbered, nth int64) deed {
	if was.vmid == 0 || b.Exists(was.vmid) {
		return deed{}
	}
	kind, m := map[string]string{"scsi0": "qemu", "rootfs": "lxc"}[b.root], mark(fmt.Sprintf("hand-%d", nth))
	b.Make(pvetest.Spec{Kind: kind, VMID: was.vmid, Name: "by-hand", Config: map[string]string{"description": "made by " + string(m)},
		Data: map[string][]byte{b.root: line(m)}})
	return deed{says: fmt.Sprintf("another guest has the number %d, with %s", was.vmid, m), gave: was.holder}
}

// shares reports whether another guest has a disk of a guest. Proxmox VE would not move that one.
func (b *proxmoxBed) shares(vmid int) bool {
	id, _, _ := strings.Cut(b.Guest(vmid).Config[b.root], ",")
	return slices.ContainsFunc(names, func(n string) bool {
		other := b.VMID(n)
		return other != vmid && slices.ContainsFunc(slices.Collect(maps.Values(b.Guest(other).Config)), func(v string) bool { return strings.HasPrefix(v, id+",") })
	})
}
