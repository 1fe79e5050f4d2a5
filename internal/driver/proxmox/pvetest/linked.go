package pvetest

import (
	"path"
	"strings"
)

// The disks of a template become base volumes, which have other names. A linked clone's volume is based on one, and its id has both names, but on
// a thin LVM, whose copies need no base.

// toBase makes a guest a template.
func (c *Cluster) toBase(g *guest) {
	g.conf["template"] = "1"
	for _, key := range g.disks() {
		v := c.volumes[volumeID(g.conf[key])]
		if v == nil || v.VMID != g.vmid {
			continue
		}
		delete(c.volumes, v.ID)
		dir, name := path.Split(strings.TrimPrefix(v.ID, v.Storage+":"))
		v.ID = v.Storage + ":" + dir + "base" + strings.TrimPrefix(name, "vm")
		c.volumes[v.ID] = v
		g.conf[key] = replaceVolume(g.conf[key], v.ID)
	}
}

// link makes a new volume a linked clone's.
func (c *Cluster) link(v, base *Volume) {
	if c.storages[v.Storage].Type == "lvmthin" {
		return
	}
	delete(c.volumes, v.ID)
	v.ID = base.ID + "/" + strings.TrimPrefix(v.ID, v.Storage+":")
	c.volumes[v.ID] = v
}

// isBase reports whether a linked clone's volume is based on a volume.
func (c *Cluster) isBase(id string) bool {
	for other := range c.volumes {
		if strings.HasPrefix(other, id+"/") {
			return true
		}
	}
	return false
}

// unbased refuses to destroy a volume on which a linked clone is based.
func (c *Cluster) unbased(id string) *refusal {
	if c.isBase(id) {
		return die("base volume '%s' is still in use by linked clones", id)
	}
	return nil
}

// LinkedClone makes a linked clone of a guest without the API, and returns its vmid. The guest becomes a template, if it is none.
func (c *Cluster) LinkedClone(of int, name string) int {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guests[of]
	switch {
	case g == nil, g.running, len(g.snaps) > 0:
		c.t.Errorf("pvetest: LinkedClone: %d is no guest that can be a template", of)
		return 0
	case g.conf["template"] != "1":
		c.toBase(g)
	}
	vmid := 100
	for c.guests[vmid] != nil {
		vmid++
	}
	made := newGuest(g.kind, vmid, g.node)
	c.guests[vmid] = made
	r := call{v: map[string]string{"name": name, "hostname": name}}
	if refused := c.fillClone(made, c.copyOf(g, g.conf, r), c.contents(g, g.conf, ""), r, false); refused != nil {
		c.t.Errorf("pvetest: LinkedClone: %s", refused.reason)
	}
	return vmid
}
