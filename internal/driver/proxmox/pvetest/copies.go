package pvetest

import (
	"bytes"
	"slices"
	"strings"
)

// Copies are the disks' contents in snapshots and backups of a guest, all disks one after the
// other. The keys are "snapshot NAME" and "backup VOLUME". The backups of a removed guest count
// by its vmid. The caller gets copies of the bytes.
func (c *Cluster) Copies(vmid int) map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]byte{}
	join := func(data map[string][]byte) []byte {
		var all [][]byte
		for _, key := range sortedKeys(data) {
			all = append(all, data[key])
		}
		return slices.Concat(all...)
	}
	if g := c.guests[vmid]; g != nil {
		for _, s := range g.snaps {
			out["snapshot "+s.name] = join(s.data)
		}
	}
	for id, v := range c.volumes {
		if v.VMID == vmid && v.archive != nil {
			_, file, _ := strings.Cut(id, "/")
			out["backup "+file] = join(v.archive.data)
		}
	}
	return out
}

// Add appends to the content of a guest's disk, as a running guest does. It reports whether the
// guest runs and has that disk.
func (c *Cluster) Add(vmid int, key string, data []byte) bool {
	return c.change(vmid, key, func(old []byte) []byte { return append(bytes.Clone(old), data...) })
}

// Cut removes data from a guest's disk, as a running guest does. It reports whether the guest
// runs and has that data.
func (c *Cluster) Cut(vmid int, key string, data []byte) bool {
	cut := false
	c.change(vmid, key, func(old []byte) []byte {
		cut = bytes.Contains(old, data)
		return bytes.Replace(old, data, nil, 1)
	})
	return cut
}

func (c *Cluster) change(vmid int, key string, fn func([]byte) []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guests[vmid]
	if g == nil || !g.running {
		return false
	}
	v := c.volumes[volumeID(g.conf[key])]
	if v != nil {
		v.Data = fn(v.Data)
	}
	return v != nil
}
