package pvetest

import (
	"bytes"
	"strconv"
	"strings"
)

func guestClone(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if refused := g.checkLock(); refused != nil {
		return nil, refused
	}
	from := g.conf
	if name, ok := r.v["snapname"]; ok {
		s := g.snap(name)
		if s == nil {
			return nil, die("snapshot '%s' does not exist", name)
		}
		from = s.conf
	}
	full := r.flag("full") || !r.has("full") && g.conf["template"] != "1"
	if !full && g.conf["template"] != "1" {
		return nil, die("Linked clone feature is not supported for drive '%s'", strings.Join(g.disks(), " "))
	}
	if !full && (r.has("storage") || r.has("format")) {
		return nil, die("parameter 'storage' not allowed for linked clones")
	}
	newID, _ := strconv.Atoi(r.v["newid"])
	made, unlock, refused := c.cloneOf(g, newID)
	if refused != nil {
		return nil, refused
	}
	conf, data := c.copyOf(g, from, r), c.contents(g, from, r.v["snapname"])
	return c.fork(g.node, g.work("clone"), r.v["vmid"], func() *refusal {
		if refused := c.gone(made); refused != nil {
			return refused
		}
		if refused := c.fillClone(made, conf, data, r, full); refused != nil {
			c.erase(made)
			return die("clone failed: %s", refused.reason)
		}
		if node, ok := r.v["target"]; ok {
			made.node = node
		}
		return nil
	}, func() {
		unlock()
		if made.conf["lock"] != "" && c.guests[newID] == made {
			c.erase(made)
		}
	}), nil
}

// cloneOf makes the empty guest that a clone begins as. Meanwhile a cloned container is locked,
// but a virtual machine is not.
func (c *Cluster) cloneOf(g *guest, newID int) (*guest, func(), *refusal) {
	made := newGuest(g.kind, newID, g.node)
	made.conf["lock"] = "clone"
	unlock := func() {}
	if g.kind == "qemu" {
		if c.guests[newID] != nil {
			return nil, nil, die("unable to create %s: config file already exists", title(g.kind, newID))
		}
	} else {
		if refused := c.unusedID(newID); refused != nil {
			return nil, nil, refused
		}
		made.conf["lock"] = "create"
		_, unlock = g.lockFor("disk")
	}
	c.guests[newID] = made
	return made, unlock, nil
}

// copyOf is the configuration of a clone without its disks. It copies everything but snapshots,
// also the description, protection, and meta with its ctime. The addresses, the UUID and the
// generation are new.
func (c *Cluster) copyOf(g *guest, from map[string]string, r call) map[string]string {
	out := map[string]string{}
	for k, v := range from {
		switch {
		case k == "parent", k == "vmstate", k == "lock", k == "template", unusedKey.MatchString(k):
		case strings.HasPrefix(k, "net"):
			out[k] = c.newAddress(g.kind, v)
		default:
			out[k] = v
		}
	}
	if g.kind == "lxc" {
		out["hostname"] = orElse(r.v["hostname"], "Copy-of-CT-"+orElse(from["hostname"], r.v["vmid"]))
	} else {
		out["smbios1"] = "uuid=" + c.uuid()
		if out["vmgenid"] != "" {
			out["vmgenid"] = c.uuid()
		}
		out["name"] = orElse(r.v["name"], "Copy-of-VM-"+orElse(from["name"], r.v["vmid"]))
	}
	if d := r.v["description"]; d != "" {
		out["description"] = d
	}
	return out
}

// newAddress gives a network a new address.
func (c *Cluster) newAddress(kind, value string) string {
	if kind == "lxc" {
		return strings.Replace(value, property(value, "hwaddr"), c.mac(), 1)
	}
	model, rest, _ := strings.Cut(value, ",")
	model, _, _ = strings.Cut(model, "=")
	return c.network(kind, model+","+rest)
}

// contents is the content of the disks, by their keys, now or at a snapshot.
func (c *Cluster) contents(g *guest, conf map[string]string, snapname string) map[string][]byte {
	out := map[string][]byte{}
	for k, v := range conf {
		if !driveKey.MatchString(k) && !mountKey.MatchString(k) {
			continue
		}
		if s := g.snap(snapname); s != nil {
			out[k] = bytes.Clone(s.data[volumeID(v)])
		} else if vol := c.volumes[volumeID(v)]; vol != nil {
			out[k] = bytes.Clone(vol.Data)
		}
	}
	return out
}

// fillClone makes the disks of a clone, in order, and then its configuration.
func (c *Cluster) fillClone(made *guest, conf map[string]string, data map[string][]byte, r call, full bool) *refusal {
	lock := made.conf["lock"]
	made.conf = map[string]string{"lock": lock}
	for _, k := range sortedKeys(conf) {
		if _, isDisk := data[k]; !isDisk {
			made.conf[k] = conf[k]
			continue
		}
		old := c.volumes[volumeID(conf[k])]
		if old == nil {
			return die("volume '%s' does not exist", volumeID(conf[k]))
		}
		v, refused := c.allocate(orElse(r.v["storage"], old.Storage), made, old.Size, orElse(r.v["format"], old.Format))
		if refused != nil {
			return refused
		}
		v.Data = data[k]
		if !full {
			c.link(v, old)
		}
		made.conf[k] = replaceVolume(conf[k], v.ID)
	}
	delete(made.conf, "lock")
	return nil
}

func guestTemplate(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if refused := g.checkLock(); refused != nil {
		return nil, refused
	}
	switch {
	case len(g.snaps) > 0:
		return nil, die("unable to create template, because VM contains snapshots")
	case g.conf["template"] == "1":
		return nil, die("you can't convert a template to a template")
	case g.running:
		return nil, die("you can't convert a VM to template if VM is running")
	}
	turn := func() *refusal { c.toBase(g); return nil }
	if g.kind == "lxc" {
		return nil, turn()
	}
	return c.fork(g.node, "qmtemplate", r.v["vmid"], turn, nil), nil
}
