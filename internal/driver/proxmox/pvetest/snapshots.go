package pvetest

import (
	"bytes"
	"maps"
	"slices"
)

func (g *guest) snap(name string) *snap {
	for _, s := range g.snaps {
		if s.name == name {
			return s
		}
	}
	return nil
}

// notInSnapshot are options that a snapshot does not keep and a rollback does not restore.
func notInSnapshot(key string) bool {
	return key == "lock" || key == "description" || key == "vmstate" || unusedKey.MatchString(key)
}

func snapshotList(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	rows := []any{}
	for _, s := range g.snaps {
		row := map[string]any{"name": s.name, "snaptime": s.time, "description": s.conf["description"]}
		if p := s.conf["parent"]; p != "" {
			row["parent"] = p
		}
		if g.kind == "qemu" {
			row["vmstate"] = flagOf(s.conf["vmstate"] != "")
		}
		rows = append(rows, row)
	}
	now := map[string]any{"name": "current", "description": "You are here!", "digest": g.digest(),
		"running": flagOf(g.running)}
	if p := g.conf["parent"]; p != "" {
		now["parent"] = p
	}
	return append(rows, now), nil
}

func snapshotMake(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	name := r.v["snapname"]
	if name == "current" {
		return nil, die("unable to use snapshot name 'current' (reserved name)")
	}
	var held *refusal
	prepare := func() *refusal {
		if g.conf["template"] == "1" {
			return die("you can't take a snapshot if it's a template")
		}
		if refused := g.checkLock(); refused != nil {
			return refused
		}
		if g.snap(name) != nil {
			return die("snapshot name '%s' already used", name)
		}
		g.conf["lock"] = "snapshot"
		return nil
	}
	held = prepare()
	return c.fork(g.node, g.work("snapshot"), r.v["vmid"], func() *refusal {
		if held != nil {
			return held
		}
		return c.take(g, name, r.v["description"], r.flag("vmstate"))
	}, func() {
		if held == nil {
			delete(g.conf, "lock")
		}
	}), nil
}

// take makes the snapshot of the configuration and of the disks' content.
func (c *Cluster) take(g *guest, name, description string, memory bool) *refusal {
	s := &snap{name: name, time: c.tick(), conf: map[string]string{}, data: map[string][]byte{}}
	for k, v := range g.conf {
		if !notInSnapshot(k) {
			s.conf[k] = v
		}
	}
	if description != "" {
		s.conf["description"] = description
	}
	for _, key := range g.disks() {
		if v := c.volumes[volumeID(g.conf[key])]; v != nil {
			s.data[v.ID] = bytes.Clone(v.Data)
		}
	}
	if memory && g.running {
		v, refused := c.allocate("local-lvm", g, g.memory()<<20, "")
		if refused != nil {
			return refused
		}
		s.conf["vmstate"] = v.ID
	}
	g.snaps = append(g.snaps, s)
	g.conf["parent"] = name
	return nil
}

func snapshotConfig(c *Cluster, r call) (any, *refusal) {
	g, s, refused := c.snapOf(r)
	if refused != nil {
		return nil, refused
	}
	out := typed(g.kind, s.conf)
	out["snaptime"] = s.time
	return out, nil
}

func (c *Cluster) snapOf(r call) (*guest, *snap, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, nil, refused
	}
	s := g.snap(r.v["snapname"])
	if s == nil {
		return nil, nil, die("snapshot '%s' does not exist", r.v["snapname"])
	}
	return g, s, nil
}

// lockFor locks the guest for the time of a task, unless it has a lock. It returns the task's
// error if the guest had one, and the function that removes the lock.
func (g *guest) lockFor(lock string) (*refusal, func()) {
	if refused := g.checkLock(); refused != nil {
		return refused, nil
	}
	g.conf["lock"] = lock
	return nil, func() {
		if g.conf["lock"] == lock {
			delete(g.conf, "lock")
		}
	}
}

func snapshotDelete(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	busy, unlock := g.lockFor("snapshot-delete")
	return c.fork(g.node, g.work("delsnapshot"), r.v["vmid"], func() *refusal {
		if busy != nil {
			return busy
		}
		s := g.snap(r.v["snapname"])
		if s == nil {
			return die("snapshot '%s' does not exist", r.v["snapname"])
		}
		c.forget(g, s)
		return nil
	}, unlock), nil
}

// forget removes a snapshot. Snapshots based on it are then based on its parent.
func (c *Cluster) forget(g *guest, s *snap) {
	delete(c.volumes, s.conf["vmstate"])
	confs := []map[string]string{g.conf}
	for _, other := range g.snaps {
		confs = append(confs, other.conf)
	}
	for _, conf := range confs {
		if conf["parent"] != s.name {
			continue
		}
		delete(conf, "parent")
		if p := s.conf["parent"]; p != "" {
			conf["parent"] = p
		}
	}
	g.snaps = slices.DeleteFunc(g.snaps, func(x *snap) bool { return x == s })
}

func snapshotRollback(c *Cluster, r call) (any, *refusal) {
	g, s, refused := c.snapOf(r)
	if refused != nil {
		return nil, refused
	}
	busy, unlock := g.lockFor("rollback")
	if busy == nil {
		g.running = false
	}
	return c.fork(g.node, g.work("rollback"), r.v["vmid"], func() *refusal {
		if busy != nil {
			return busy
		}
		c.rollback(g, s)
		delete(g.conf, "lock")
		if r.flag("start") || s.conf["vmstate"] != "" {
			return c.start(g)
		}
		return nil
	}, unlock), nil
}

// rollback gives the guest the snapshot's configuration and disk content, also its protection.
// Younger disks become unused, and a virtual machine gets a new generation.
func (c *Cluster) rollback(g *guest, s *snap) {
	conf := map[string]string{}
	for k, v := range g.conf {
		if k == "description" || unusedKey.MatchString(k) {
			conf[k] = v
		}
	}
	lost := g.disks()
	for k, v := range s.conf {
		if !notInSnapshot(k) {
			conf[k] = v
		}
	}
	before := maps.Clone(g.conf)
	g.conf = conf
	for _, key := range lost {
		if id := volumeID(before[key]); !g.inSnapshotOf(s, id) {
			g.setUnused(id)
		}
	}
	g.conf["parent"] = s.name
	g.conf["lock"] = before["lock"]
	clear(g.pending)
	clear(g.drop)
	if g.conf["vmgenid"] != "" {
		g.conf["vmgenid"] = c.uuid()
	}
	for id, data := range s.data {
		if v := c.volumes[id]; v != nil {
			v.Data = bytes.Clone(data)
			if c.storages[v.Storage].Type == "lvmthin" { // the rollback makes it again
				v.CTime = c.tick()
			}
		}
	}
}

func (g *guest) inSnapshotOf(s *snap, id string) bool {
	for k, v := range s.conf {
		if (driveKey.MatchString(k) || mountKey.MatchString(k)) && volumeID(v) == id {
			return true
		}
	}
	return false
}
