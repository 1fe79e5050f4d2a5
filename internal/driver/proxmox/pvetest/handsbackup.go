package pvetest

import (
	"slices"
	"strings"
)

// BackUp backs a guest up and then prunes by the storage's retention, as a backup job of the
// cluster does.
func (c *Cluster) BackUp(vmid int, storage string) {
	c.with(vmid, func(g *guest) {
		s := c.storages[storage]
		if s == nil {
			c.t.Errorf("pvetest: BackUp: there is no storage %s", storage)
			return
		}
		c.backUp(g, s, call{})
		c.prune(g, s, s.KeepLast)
	})
}

// prune deletes the guest's oldest backups above keep; 0 keeps all.
func (c *Cluster) prune(g *guest, s *Storage, keep int) {
	all := c.prunable(g, s)
	if keep == 0 || len(all) <= keep {
		return
	}
	for _, v := range all[keep:] {
		delete(c.volumes, v.ID)
	}
}

// Backups are the backups of a guest, by id.
func (c *Cluster) Backups(vmid int) []Volume {
	var out []Volume
	for _, v := range c.Volumes(vmid) {
		if v.Content == "backup" {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// DropBackup deletes a backup without the API, as a user deletes its file.
func (c *Cluster) DropBackup(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.volumes, id)
}

// TakeSnapshot makes a snapshot of a guest without the API.
func (c *Cluster) TakeSnapshot(vmid int, name string) {
	c.with(vmid, func(g *guest) {
		if refused := c.take(g, name, "", false); refused != nil {
			c.t.Errorf("pvetest: TakeSnapshot: %s", refused.reason)
		}
	})
}

// RollBack rolls a guest back to a snapshot without the API.
func (c *Cluster) RollBack(vmid int, name string) {
	c.with(vmid, func(g *guest) { c.rollback(g, g.snap(name)) })
}

// DropSnapshot deletes a snapshot of a guest without the API.
func (c *Cluster) DropSnapshot(vmid int, name string) {
	c.with(vmid, func(g *guest) {
		if s := g.snap(name); s != nil {
			c.forget(g, s)
		}
	})
}

// Protect protects a backup and writes notes, without the API.
func (c *Cluster) Protect(id, notes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volumes[id]
	if v == nil {
		c.t.Errorf("pvetest: Protect: there is no volume %s", id)
		return
	}
	v.Protected, v.Notes = true, notes
}

// CopyBackup copies a backup to another id, unprotected, as a user does with its file.
func (c *Cluster) CopyBackup(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volumes[from]
	if v == nil {
		c.t.Errorf("pvetest: CopyBackup: there is no volume %s", from)
		return
	}
	made := *v
	made.ID, made.Protected = to, false
	c.volumes[to] = &made
}
