package pvetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// creation is the version in the meta of a new virtual machine.
const creation = "10.1.2"

func newGuest(kind string, vmid int, nodeName string) *guest {
	return &guest{kind: kind, vmid: vmid, node: nodeName, conf: map[string]string{}, pending: map[string]string{},
		drop: map[string]bool{}, holds: 12}
}

// title is a guest's name in messages: "VM 100", "CT 101".
func title(kind string, vmid int) string {
	if kind == "lxc" {
		return "CT " + strconv.Itoa(vmid)
	}
	return "VM " + strconv.Itoa(vmid)
}

// unusedID refuses an id that a guest of any kind has.
func (c *Cluster) unusedID(vmid int) *refusal {
	if g := c.guests[vmid]; g != nil {
		return die("%s already exists on node '%s'", title(g.kind, vmid), g.node)
	}
	return nil
}

func guestCreate(c *Cluster, r call) (any, *refusal) {
	if r.has("archive") || r.flag("restore") {
		return guestRestore(c, r)
	}
	kind := r.kind()
	if refused := c.unusedID(r.vmid()); refused != nil {
		return nil, die("unable to create %s - %s", title(kind, r.vmid()), refused.reason)
	}
	if kind == "lxc" {
		if refused := c.rootStorage(r); refused != nil {
			return nil, refused
		}
		if t := c.volumes[r.v["ostemplate"]]; t == nil || t.Content != "vztmpl" {
			return nil, die("unable to create %s - volume '%s' does not exist", title(kind, r.vmid()), r.v["ostemplate"])
		}
	}
	g := newGuest(kind, r.vmid(), r.v["node"])
	g.conf["lock"] = "create"
	c.guests[g.vmid] = g
	set := settings(r.endpoint, r.v)
	return c.fork(g.node, g.work("create"), r.v["vmid"], func() *refusal {
		if refused := c.gone(g); refused != nil {
			return refused
		}
		if refused := c.fill(g, set, r.v["storage"]); refused != nil {
			c.erase(g)
			return die("unable to create %s - %s", title(kind, g.vmid), refused.reason)
		}
		delete(g.conf, "lock")
		if r.flag("start") {
			return c.start(g)
		}
		return nil
	}, func() {
		if g.conf["lock"] == "create" && c.guests[g.vmid] == g {
			c.erase(g)
		}
	}), nil
}

// rootStorage refuses a container whose disks would go to a storage without container disks.
// That is "local", unless the request names another.
func (c *Cluster) rootStorage(r call) *refusal {
	name := orElse(r.v["storage"], "local")
	if s := c.storages[name]; !r.has("rootfs") && (s == nil || !strings.Contains(s.Content, "rootdir")) {
		return invalid("storage", "storage '"+name+"' does not support container directories")
	}
	return nil
}

// fill gives a new guest its configuration and disks.
func (c *Cluster) fill(g *guest, set map[string]string, storage string) *refusal {
	if g.kind == "lxc" {
		defaults := map[string]string{"arch": "amd64", "ostype": "debian", "memory": "512", "swap": "512",
			"hostname": "CT" + strconv.Itoa(g.vmid), "rootfs": orElse(storage, "local") + ":4"}
		for k, v := range defaults {
			g.conf[k] = v
		}
		if _, ok := set["rootfs"]; !ok {
			set["rootfs"] = defaults["rootfs"]
		}
		delete(g.conf, "rootfs")
	} else {
		g.conf["smbios1"], g.conf["vmgenid"] = "uuid="+c.uuid(), c.uuid()
		g.conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", creation, c.tick())
		g.conf["boot"] = ""
	}
	for _, k := range sortedKeys(set) {
		if refused := c.assign(g, k, set[k]); refused != nil {
			return refused
		}
	}
	if g.kind == "qemu" && g.conf["boot"] == "" {
		g.conf["boot"] = "order="
		if d := g.disks(); len(d) > 0 {
			g.conf["boot"] += d[0]
		}
	}
	return nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// erase destroys a guest with the volumes that it owns and its configuration names.
func (c *Cluster) erase(g *guest) {
	for id := range g.volumes() {
		if v := c.volumes[id]; v != nil && v.VMID == g.vmid && !c.isBase(id) { // the end of a task with warnings
			delete(c.volumes, id)
		}
	}
	delete(c.guests, g.vmid)
}

// volumes are the ids of all disks in the configuration: attached, unused, pending and of
// snapshots.
func (g *guest) volumes() map[string]bool {
	out := map[string]bool{}
	sections := []map[string]string{g.conf, g.pending}
	for _, s := range g.snaps {
		sections = append(sections, s.conf)
	}
	for _, conf := range sections {
		for k, v := range conf {
			if driveKey.MatchString(k) || mountKey.MatchString(k) || unusedKey.MatchString(k) || k == "vmstate" {
				out[volumeID(v)] = true
			}
		}
	}
	return out
}

// destroyable refuses to destroy a guest that is protected or runs.
func (c *Cluster) destroyable(g *guest, force bool) *refusal {
	if refused := g.checkProtection("can't remove " + title(g.kind, g.vmid)); refused != nil {
		return refused
	}
	if g.kind == "lxc" {
		// For a virtual machine, the task finds the lock.
		if refused := g.checkLock(); refused != nil {
			return refused
		}
	}
	if g.conf["template"] == "1" {
		for id := range g.volumes() {
			if c.isBase(id) {
				return die("base volume '%s' is still in use by linked cloned", id)
			}
		}
	}
	switch {
	case !g.running || force:
		return nil
	case g.kind == "lxc":
		return die("unable to destroy CT %d - container is running", g.vmid)
	}
	return die("VM %d is running - destroy failed", g.vmid)
}

func guestDelete(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	force := g.kind == "lxc" && r.flag("force")
	if refused := c.destroyable(g, force); refused != nil {
		return nil, refused
	}
	if refused := c.unnamed(g, r.flag("purge")); refused != nil {
		return nil, refused
	}
	return c.forkOn(g, g.work("destroy"), func(g *guest) *refusal {
		if refused := c.destroyable(g, force); refused != nil {
			return refused
		}
		if refused := c.unnamed(g, r.flag("purge")); refused != nil {
			return refused
		}
		if refused := g.checkLock(); refused != nil {
			return refused
		}
		c.destroy(g, r.flag("destroy-unreferenced-disks"))
		if r.flag("purge") {
			c.jobs = slices.DeleteFunc(c.jobs, func(j replicationJob) bool { return j.vmid == g.vmid })
		}
		return nil
	}), nil
}

// destroy removes a guest. A disk of its vmid that no configuration names goes only if the
// request asks for it.
func (c *Cluster) destroy(g *guest, unreferenced bool) {
	c.erase(g)
	for id, v := range c.volumes {
		if unreferenced && !c.isBase(id) && v.VMID == g.vmid && (v.Content == "images" || v.Content == "rootdir") {
			delete(c.volumes, id)
		}
	}
}
