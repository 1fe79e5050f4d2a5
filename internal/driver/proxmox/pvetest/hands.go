package pvetest

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Spec is a guest that a test makes by other hands than the API's.
type Spec struct {
	Kind    string            // "qemu", or "lxc"; "" is "qemu"
	VMID    int               // 0 is the next that is free
	Node    string            // "" is the first
	Name    string            // the hostname of a container
	Disks   map[string]string // "scsi0": "local-lvm:4" (GiB); none is one disk of 4 GiB ("scsi0" or "rootfs")
	Data    map[string][]byte // what is on the disks, by their key
	Config  map[string]string // all else: "memory": "2048"
	Running bool
	Deaf    bool // ignores a shutdown
}

// Make makes a guest, as somebody would by the web page, and returns its vmid.
// It counts as no request.
func (c *Cluster) Make(s Spec) int {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Kind == "" {
		s.Kind = "qemu"
	}
	if s.Node == "" {
		s.Node = c.nodes[0].name
	}
	for id := 100; s.VMID == 0; id++ {
		if c.guests[id] == nil {
			s.VMID = id
		}
	}
	if c.guests[s.VMID] != nil {
		c.t.Errorf("pvetest: Make: %d is there", s.VMID)
		return s.VMID
	}
	g := newGuest(s.Kind, s.VMID, s.Node)
	g.deaf = s.Deaf
	c.guests[g.vmid] = g
	if refused := c.fill(g, s.settings(), ""); refused != nil {
		c.t.Errorf("pvetest: Make: %s", refused.reason)
	}
	for key, data := range s.Data {
		c.write(g, key, data)
	}
	if s.Running {
		g.running, g.since = true, c.clock
	}
	return g.vmid
}

func (s Spec) settings() map[string]string {
	set := map[string]string{}
	disk := map[string]string{"qemu": "scsi0", "lxc": "rootfs"}[s.Kind]
	if s.Disks == nil {
		s.Disks = map[string]string{disk: "local-lvm:4"}
	}
	maps.Copy(set, s.Disks)
	maps.Copy(set, s.Config)
	if s.Name != "" {
		set[map[string]string{"qemu": "name", "lxc": "hostname"}[s.Kind]] = s.Name
	}
	if _, ok := set["net0"]; !ok {
		set["net0"] = map[string]string{"qemu": "virtio,bridge=vmbr0", "lxc": "name=eth0,bridge=vmbr0"}[s.Kind]
	}
	return set
}

// Remake destroys the guest of a vmid by other hands, protected or not, and makes
// another under the same vmid and name: new disks, new ids, another guest.
func (c *Cluster) Remake(vmid int, s Spec) {
	c.t.Helper()
	c.mu.Lock()
	g := c.guests[vmid]
	if g != nil {
		c.destroy(g, true)
		if s.Name == "" {
			s.Name = g.name()
		}
		if s.Kind == "" {
			s.Kind = g.kind
		}
		if s.Node == "" {
			s.Node = g.node
		}
	}
	c.mu.Unlock()
	s.VMID = vmid
	c.Make(s)
}

// Remove destroys a guest by other hands, protected, locked or running.
func (c *Cluster) Remove(vmid int) {
	c.with(vmid, func(g *guest) { c.destroy(g, true) })
}

// Exists reports whether there is a guest with the vmid.
func (c *Cluster) Exists(vmid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guests[vmid] != nil
}

// Set sets options of a guest's configuration by other hands; "" removes one.
// Nothing is checked, and no volume made.
func (c *Cluster) Set(vmid int, options map[string]string) {
	c.with(vmid, func(g *guest) {
		c.tick()
		for k, v := range options {
			if v == "" {
				delete(g.conf, k)
			} else {
				g.conf[k] = v
			}
		}
	})
}

// SetProtection sets or clears the protection of a guest by other hands.
func (c *Cluster) SetProtection(vmid int, on bool) {
	c.Set(vmid, map[string]string{"protection": strconv.Itoa(flagOf(on))})
}

// SetLock gives a guest a lock ("backup", "migrate"), or with "" takes it away.
func (c *Cluster) SetLock(vmid int, lock string) { c.Set(vmid, map[string]string{"lock": lock}) }

// SetRunning starts or stops a guest by other hands.
func (c *Cluster) SetRunning(vmid int, on bool) {
	c.with(vmid, func(g *guest) {
		if on == g.running {
			return
		}
		c.applyPending(g)
		g.running, g.since = on, c.clock
	})
}

// SetDeaf makes a guest ignore a shutdown, or hear it again.
func (c *Cluster) SetDeaf(vmid int, deaf bool) { c.with(vmid, func(g *guest) { g.deaf = deaf }) }

// Hide takes a guest out of the token's sight, as when it leaves the pool that the
// token is for, or shows it again.
func (c *Cluster) Hide(vmid int, hidden bool) { c.with(vmid, func(g *guest) { g.hidden = hidden }) }

// SetNode moves a guest to another node, as a migration does.
func (c *Cluster) SetNode(vmid int, node string) { c.with(vmid, func(g *guest) { g.node = node }) }

// SetOffline takes a node away, or brings it back: what is for it is answered 595,
// and its guests are in /cluster/resources with the status "unknown" and no name.
func (c *Cluster) SetOffline(name string, offline bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.name == name {
			n.offline = offline
		}
	}
}

// RemoveNode takes a node out of the cluster, with its guests.
func (c *Cluster) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return n.name == name })
	for vmid, g := range c.guests {
		if g.node == name {
			delete(c.guests, vmid)
		}
	}
}

// Freeze makes /cluster/resources say of every guest what it says now, until Thaw:
// the real list is as old as what the nodes last told, some ten seconds. A guest
// that is made meanwhile is in it with the status "unknown" and no name; one that
// is destroyed is not.
func (c *Cluster) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = map[*guest]map[string]any{}
	for _, g := range c.guests {
		c.told[g] = c.liveRow(g)
	}
}

// Thaw makes /cluster/resources tell how guests are at this moment.
func (c *Cluster) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = nil
}

// MoveDisk moves a disk of a guest to a new volume of another storage by other
// hands, with its content. The old volume is gone.
func (c *Cluster) MoveDisk(vmid int, key, storage string) {
	c.with(vmid, func(g *guest) {
		old := c.volumes[volumeID(g.conf[key])]
		if old == nil {
			c.t.Errorf("pvetest: MoveDisk: %d has no disk %s", vmid, key)
			return
		}
		v, refused := c.allocate(storage, g, old.Size, "")
		if refused != nil {
			c.t.Errorf("pvetest: MoveDisk: %s", refused.reason)
			return
		}
		v.Data = old.Data
		g.conf[key] = replaceVolume(g.conf[key], v.ID)
		delete(c.volumes, old.ID)
	})
}

// Write puts content on a disk of a guest.
func (c *Cluster) Write(vmid int, key string, data []byte) {
	c.with(vmid, func(g *guest) { c.write(g, key, data) })
}

func (c *Cluster) write(g *guest, key string, data []byte) {
	v := c.volumes[volumeID(g.conf[key])]
	if v == nil {
		c.t.Errorf("pvetest: %d has no disk %s", g.vmid, key)
		return
	}
	v.Data = bytes.Clone(data)
}

func (c *Cluster) with(vmid int, do func(*guest)) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guests[vmid]
	if g == nil {
		c.t.Errorf("pvetest: there is no guest %d", vmid)
		return
	}
	do(g)
}

// Guest is what there is of a guest, for a test to look at.
type Guest struct {
	Kind    string
	VMID    int
	Node    string
	Name    string
	Running bool
	Config  map[string]string // the current one; what is pending is not in it
	Pending map[string]string
	Snaps   []string
	Digest  string
}

// Guest returns a guest; the zero value where there is none.
func (c *Cluster) Guest(vmid int) Guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guests[vmid]
	if g == nil {
		return Guest{}
	}
	out := Guest{Kind: g.kind, VMID: vmid, Node: g.node, Name: g.name(), Running: g.running, Config: maps.Clone(g.conf),
		Pending: maps.Clone(g.pending), Digest: g.digest()}
	for _, s := range g.snaps {
		out.Snaps = append(out.Snaps, s.name)
	}
	return out
}

// VMID finds a guest by its name; 0 where there is none.
func (c *Cluster) VMID(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.sorted() {
		if g.name() == name {
			return g.vmid
		}
	}
	return 0
}

// Volumes are the volumes of a guest with their content, disks and backups; of
// vmid 0 all that there are. They are copies.
func (c *Cluster) Volumes(vmid int) map[string]Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]Volume{}
	for id, v := range c.volumes {
		if vmid == 0 || v.VMID == vmid {
			copied := *v
			copied.Data, copied.archive = bytes.Clone(v.Data), nil
			out[id] = copied
		}
	}
	return out
}

// Data is what is on a volume, and whether there is one.
func (c *Cluster) Data(id string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volumes[id]
	if v == nil {
		return nil, false
	}
	return bytes.Clone(v.Data), true
}

// AddVolume puts a volume on a storage by other hands: a stray disk, an iso.
func (c *Cluster) AddVolume(v Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Storage, _, _ = strings.Cut(v.ID, ":")
	c.volumes[v.ID] = &v
}

// AddStorage adds a storage, or puts one in the place of another.
func (c *Cluster) AddStorage(s Storage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storages[s.Name] = &s
}

// SetVersion sets what the cluster says its version is; "9.1.3" at first.
func (c *Cluster) SetVersion(v string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = v
}
