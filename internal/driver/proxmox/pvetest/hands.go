package pvetest

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Spec is a guest that a test makes without the API.
type Spec struct {
	Kind    string            // "qemu", or "lxc"; "" is "qemu"
	VMID    int               // 0 means the next free one
	Node    string            // "" is the first
	Name    string            // the hostname of a container
	Disks   map[string]string // "scsi0": "local-lvm:4" (GiB); none is one disk of 4 GiB ("scsi0" or "rootfs")
	Data    map[string][]byte // the content of the disks, by their key
	Config  map[string]string // all else: "memory": "2048"
	Running bool
	Deaf    bool // ignores a shutdown
}

// Make makes a guest, as a user of the web page would, and returns its vmid. It counts as no
// request.
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

// Remake destroys the guest of a vmid without the API, even if it is protected. It makes
// another one under the same vmid and name, with new disks and new ids.
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

// Remove destroys a guest without the API, even if it is protected, locked or running.
func (c *Cluster) Remove(vmid int) {
	c.with(vmid, func(g *guest) { c.destroy(g, true) })
}

// Exists reports whether a guest has the vmid.
func (c *Cluster) Exists(vmid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guests[vmid] != nil
}

// Set sets options of a guest's configuration without the API; "" removes one. It checks
// nothing and makes no volume. What was pending for an option goes, because an administrator
// who sets the option replaces that, too.
func (c *Cluster) Set(vmid int, options map[string]string) {
	c.with(vmid, func(g *guest) {
		c.tick()
		for k, v := range options {
			delete(g.pending, k)
			delete(g.drop, k)
			if v == "" {
				delete(g.conf, k)
			} else {
				g.conf[k] = v
			}
		}
	})
}

// SetProtection sets or clears the protection of a guest without the API.
func (c *Cluster) SetProtection(vmid int, on bool) {
	c.Set(vmid, map[string]string{"protection": strconv.Itoa(flagOf(on))})
}

// SetLock gives a guest a lock ("backup", "migrate"), or removes it with "".
func (c *Cluster) SetLock(vmid int, lock string) { c.Set(vmid, map[string]string{"lock": lock}) }

// SetRunning starts or stops a guest without the API.
func (c *Cluster) SetRunning(vmid int, on bool) {
	c.with(vmid, func(g *guest) {
		if on == g.running {
			return
		}
		c.applyPending(g)
		g.running, g.since = on, c.clock
	})
}

// SetUsed sets how much memory a guest holds while it runs, in MiB.
func (c *Cluster) SetUsed(vmid int, mib int64) { c.with(vmid, func(g *guest) { g.holds = mib }) }

// SetDeaf makes a guest ignore a shutdown, or react again.
func (c *Cluster) SetDeaf(vmid int, deaf bool) { c.with(vmid, func(g *guest) { g.deaf = deaf }) }

// Hide hides a guest from the token, as if it left the token's pool, or shows it again.
func (c *Cluster) Hide(vmid int, hidden bool) { c.with(vmid, func(g *guest) { g.hidden = hidden }) }

// SetHA puts a guest under the HA manager, or takes it out.
func (c *Cluster) SetHA(vmid int, ha bool) { c.with(vmid, func(g *guest) { g.ha = ha }) }

// SetNode moves a guest to another node, as a migration does.
func (c *Cluster) SetNode(vmid int, node string) { c.with(vmid, func(g *guest) { g.node = node }) }

// SetOffline takes a node away or brings it back. Requests for it get 595. Its guests are in
// /cluster/resources with the status "unknown" and no name.
func (c *Cluster) SetOffline(name string, offline bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.name == name {
			n.offline, n.said = offline, ""
		}
	}
}

// SetSilent takes a node away as SetOffline does, but the cluster says something else of it: "online" or "unknown".
func (c *Cluster) SetSilent(name, said string) {
	c.SetOffline(name, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.name == name {
			n.said = said
		}
	}
}

// RemoveNode removes a node from the cluster, with its guests.
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

// Freeze keeps the current rows of /cluster/resources until Thaw, because the real list is up
// to ten seconds old. A guest made meanwhile is in it with the status "unknown" and no name. A
// destroyed guest is not in it.
// is destroyed is not.
func (c *Cluster) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = map[*guest]map[string]any{}
	for _, g := range c.guests {
		c.told[g] = c.liveRow(g)
	}
}

// Thaw makes /cluster/resources current again.
func (c *Cluster) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = nil
}

// MoveDisk moves a guest's disk to a new volume of another storage without the API, with its
// content. The old volume is gone.
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

// Write replaces the content of a guest's disk.
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
	if c.storages[v.Storage].Type == "dir" { // where it is the time of the last change
		v.CTime = c.tick()
	}
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

// Guest is the state of a guest for a test.
type Guest struct {
	Kind    string
	VMID    int
	Node    string
	Name    string
	Running bool
	Config  map[string]string // the current configuration, without pending changes
	Pending map[string]string
	Snaps   []string
	Digest  string
}

// Guest returns a guest, or the zero value if there is none.
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

// VMID finds a guest by its name; 0 if there is none.
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

// Volumes are the volumes of a guest with their content, disks and backups. For vmid 0 they are
// all volumes. They are copies.
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

// Data is the content of a volume, and whether the volume exists.
func (c *Cluster) Data(id string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volumes[id]
	if v == nil {
		return nil, false
	}
	return bytes.Clone(v.Data), true
}

// AddVolume adds a volume to a storage without the API: a stray disk, an iso.
func (c *Cluster) AddVolume(v Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Storage, _, _ = strings.Cut(v.ID, ":")
	if v.CTime == 0 {
		v.CTime = c.tick()
	}
	c.volumes[v.ID] = &v
}

// RemoveVolume removes a volume from its storage without the API.
func (c *Cluster) RemoveVolume(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.volumes, id)
}

// AddStorage adds or replaces a storage.
func (c *Cluster) AddStorage(s Storage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storages[s.Name] = &s
}

// SetVersion sets the version that the cluster reports, at first "9.1.3".
func (c *Cluster) SetVersion(v string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = v
}
