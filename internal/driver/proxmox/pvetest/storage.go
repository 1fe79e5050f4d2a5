package pvetest

import (
	"strconv"
	"strings"
)

func (c *Cluster) storageRows() []any {
	rows := []any{}
	if !c.privileges["Datastore.Audit"] {
		return rows
	}
	for _, n := range c.nodes {
		status := map[bool]string{true: "unknown", false: "available"}[n.offline]
		for _, name := range sortedKeys(c.storages) {
			s := c.storages[name]
			rows = append(rows, map[string]any{"id": "storage/" + n.name + "/" + name, "type": "storage",
				"storage": name, "node": n.name, "status": status, "plugintype": s.Type,
				"content": s.Content, "shared": flagOf(s.Shared), "disk": 1 << 30, "maxdisk": 100 << 30})
		}
	}
	return rows
}

func flagOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func storageList(c *Cluster, r call) (any, *refusal) {
	rows := []any{}
	for _, name := range sortedKeys(c.storages) {
		s := c.storages[name]
		if r.has("content") && !strings.Contains(s.Content, r.v["content"]) || r.has("storage") && r.v["storage"] != name {
			continue
		}
		rows = append(rows, s.row())
	}
	return rows, nil
}

func (s *Storage) row() map[string]any {
	return map[string]any{"storage": s.Name, "type": s.Type, "content": s.Content, "active": 1, "enabled": 1,
		"shared": flagOf(s.Shared), "total": 100 << 30, "used": 1 << 30, "avail": 99 << 30}
}

func (c *Cluster) storageOf(r call) (*Storage, *refusal) {
	if s := c.storages[r.v["storage"]]; s != nil {
		return s, nil
	}
	return nil, die("storage '%s' does not exist", r.v["storage"])
}

func storageStatus(c *Cluster, r call) (any, *refusal) {
	s, refused := c.storageOf(r)
	if refused != nil {
		return nil, refused
	}
	row := s.row()
	delete(row, "storage")
	return row, nil
}

func contentList(c *Cluster, r call) (any, *refusal) {
	s, refused := c.storageOf(r)
	if refused != nil {
		return nil, refused
	}
	rows := []any{}
	for _, id := range sortedKeys(c.volumes) {
		v := c.volumes[id]
		if v.Storage != s.Name || r.has("content") && v.Content != r.v["content"] || r.has("vmid") && v.VMID != r.vmid() {
			continue
		}
		if v.Unread {
			return nil, die("could not parse qemu-img info command output for '%s'", v.path())
		}
		row := v.row()
		if t := s.Type; v.Content != "backup" && t != "dir" && t != "lvm" && t != "lvmthin" {
			delete(row, "ctime")
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (v *Volume) row() map[string]any {
	row := map[string]any{"volid": v.ID, "content": v.Content, "format": v.Format, "size": v.Size, "ctime": v.CTime}
	if v.VMID != 0 {
		row["vmid"] = v.VMID
	}
	if v.Content == "backup" {
		row["subtype"] = map[bool]string{true: "lxc", false: "qemu"}[strings.Contains(v.ID, "-lxc-")]
		if v.Notes != "" {
			row["notes"] = v.Notes
		}
		if v.Protected {
			row["protected"] = 1
		}
	}
	return row
}

func (v *Volume) path() string { return "/var/lib/vz/" + strings.ReplaceAll(v.ID, ":", "/") }

// volumeOf finds the volume of a path. The path may leave out the storage's name.
func (c *Cluster) volumeOf(r call) (*Volume, *refusal) {
	id := r.v["volume"]
	if !strings.Contains(id, ":") {
		id = r.v["storage"] + ":" + id
	}
	v := c.volumes[id]
	if v == nil {
		return nil, die("volume '%s' does not exist", id)
	}
	if v.Storage != r.v["storage"] {
		return nil, invalid("storage", "storage does not match volume")
	}
	return v, nil
}

func volumeGet(c *Cluster, r call) (any, *refusal) {
	v, refused := c.volumeOf(r)
	if refused != nil {
		return nil, refused
	}
	row := v.row()
	row["path"], row["used"] = v.path(), len(v.Data)
	for _, k := range []string{"volid", "content", "ctime", "vmid", "subtype"} {
		delete(row, k)
	}
	return row, nil
}

func volumeSet(c *Cluster, r call) (any, *refusal) {
	v, refused := c.volumeOf(r)
	if refused != nil {
		return nil, refused
	}
	if r.has("notes") {
		v.Notes = r.v["notes"]
	}
	if r.has("protected") {
		v.Protected = r.flag("protected")
	}
	return nil, nil
}

// volumeDelete destroys a volume. It refuses a disk whose number an existing guest has, and a
// protected backup.
func volumeDelete(c *Cluster, r call) (any, *refusal) {
	v, refused := c.volumeOf(r)
	if refused != nil {
		return nil, refused
	}
	if g := c.guests[v.VMID]; g != nil && v.Content != "backup" && g.volumes()[v.ID] {
		return nil, die("Cannot remove image, a guest with VMID '%d' exists!\nYou can delete the image from the guest's "+
			"hardware pane", v.VMID)
	}
	id := v.Storage
	if v.VMID != 0 {
		id = strconv.Itoa(v.VMID) + "@" + id
	}
	upid := c.fork(r.v["node"], "imgdel", id, func() *refusal {
		if refused := c.unbased(v.ID); refused != nil {
			return refused
		}
		if v.Protected {
			return die("cannot remove protected volume '%s' on '%s'", strings.TrimPrefix(v.ID, v.Storage+":"), v.Storage)
		}
		delete(c.volumes, v.ID)
		return nil
	}, nil)
	t := c.tasks[upid]
	if !r.has("delay") || t.status == "" {
		return upid, nil
	}
	if t.status != "OK" {
		return nil, die("Failed to remove volume '%s': %s", v.ID, t.status)
	}
	return nil, nil
}
