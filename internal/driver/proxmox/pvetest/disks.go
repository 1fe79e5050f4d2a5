package pvetest

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

var driveKey = regexp.MustCompile(`^((scsi|virtio|sata|ide)\d+|efidisk0|tpmstate0)$`)
var mountKey = regexp.MustCompile(`^(rootfs|mp\d+)$`)
var unusedKey = regexp.MustCompile(`^unused\d+$`)

// isDisk reports whether a key of the configuration is an attached disk.
func (g *guest) isDisk(key string) bool {
	if g.kind == "lxc" {
		return mountKey.MatchString(key)
	}
	return driveKey.MatchString(key) && !strings.Contains(g.conf[key], "media=cdrom")
}

// disks are the keys of the attached disks, in order.
func (g *guest) disks() []string {
	var out []string
	for _, k := range sortedKeys(g.conf) {
		if g.isDisk(k) {
			out = append(out, k)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i] == "rootfs" && out[j] != "rootfs" })
	return out
}

// volumeID is the volume of a disk's value: "local-lvm:vm-100-disk-0,size=4G".
func volumeID(value string) string {
	for piece := range strings.SplitSeq(value, ",") {
		if k, v, ok := strings.Cut(piece, "="); ok && (k == "file" || k == "volume") {
			return v
		}
	}
	id, _, _ := strings.Cut(value, ",")
	return id
}

// property is one part of a property string.
func property(value, key string) string {
	for piece := range strings.SplitSeq(value, ",") {
		if k, v, ok := strings.Cut(piece, "="); ok && k == key {
			return v
		}
	}
	return ""
}

// withProperty sets one part of a disk's value. The other parts follow in order.
func withProperty(value, key, v string) string {
	pieces := strings.Split(value, ",")
	rest := []string{}
	for _, p := range pieces[1:] {
		if k, _, _ := strings.Cut(p, "="); k != key && k != "format" {
			rest = append(rest, p)
		}
	}
	if v != "" {
		rest = append(rest, key+"="+v)
	}
	sort.Strings(rest)
	return strings.Join(append(pieces[:1], rest...), ",")
}

var newDisk = regexp.MustCompile(`^(?:([a-zA-Z][\w.-]*):)(\d+(?:\.\d+)?)$`)

// attach makes the volume that a disk's value asks for ("local-lvm:4" is a new disk of 4 GiB)
// or uses an existing one. It returns the stored value.
func (c *Cluster) attach(g *guest, key, value string) (string, *refusal) {
	id := volumeID(value)
	if id == "none" || strings.Contains(value, "media=cdrom") || strings.Contains(value, "cloudinit") {
		return value, nil
	}
	m := newDisk.FindStringSubmatch(id)
	if m == nil {
		v := c.volumes[id]
		if v == nil {
			return "", die("volume '%s' does not exist", id)
		}
		return withProperty(replaceVolume(value, id), "size", sizeText(v.Size)), nil
	}
	gib, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		return "", invalid(key, "invalid size")
	}
	v, refused := c.allocate(m[1], g, int64(math.Ceil(gib*(1<<30))), property(value, "format"))
	if refused != nil {
		return "", refused
	}
	return withProperty(replaceVolume(value, v.ID), "size", sizeText(v.Size)), nil
}

// replaceVolume puts another volume first in a disk's value, without a name.
func replaceVolume(value, id string) string {
	pieces := strings.Split(value, ",")
	out := []string{id}
	for i, p := range pieces {
		k, _, ok := strings.Cut(p, "=")
		if i == 0 && !ok || k == "file" || k == "volume" {
			continue
		}
		out = append(out, p)
	}
	return strings.Join(out, ",")
}

// allocate makes an empty volume of the guest.
func (c *Cluster) allocate(storage string, g *guest, size int64, format string) (*Volume, *refusal) {
	s := c.storages[storage]
	if s == nil {
		return nil, die("storage '%s' does not exist", storage)
	}
	content := map[string]string{"qemu": "images", "lxc": "rootdir"}[g.kind]
	if !strings.Contains(s.Content, content) {
		return nil, die("storage '%s' does not support content-type '%s'", storage, content)
	}
	for n := 0; ; n++ {
		id := s.diskID(g.vmid, n, format)
		if c.taken(s, g.vmid, n) {
			continue
		}
		v := &Volume{ID: id, Storage: storage, VMID: g.vmid, Size: size, Format: s.format(format), Content: content,
			CTime: c.tick()}
		c.volumes[id] = v
		return v, nil
	}
}

// taken reports whether a storage has a disk of this number in any format, also a base volume or a linked clone's.
func (c *Cluster) taken(s *Storage, vmid, n int) bool {
	for id, v := range c.volumes {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(id), ".raw"), ".qcow2")
		if v.Storage == s.Name && strings.HasSuffix(name, fmt.Sprintf("-%d-disk-%d", vmid, n)) {
			return true
		}
	}
	return false
}

func (s *Storage) format(format string) string {
	if s.Type != "dir" || format == "" {
		return "raw"
	}
	return format
}

func (s *Storage) diskID(vmid, n int, format string) string {
	if s.Type == "dir" {
		return fmt.Sprintf("%s:%d/vm-%d-disk-%d.%s", s.Name, vmid, vmid, n, s.format(format))
	}
	return fmt.Sprintf("%s:vm-%d-disk-%d", s.Name, vmid, n)
}

// sizeText is a size as in the configuration: in the largest unit without a remainder.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		of   int64
	}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}} {
		if n >= u.of && n%u.of == 0 {
			return strconv.FormatInt(n/u.of, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// setUnused adds a volume as the first free unused entry.
func (g *guest) setUnused(id string) {
	for n := 0; ; n++ {
		key := "unused" + strconv.Itoa(n)
		if g.conf[key] == id {
			return
		}
		if g.conf[key] == "" {
			g.conf[key] = id
			return
		}
	}
}

// inSnapshot reports whether a snapshot of the guest needs the volume.
func (g *guest) inSnapshot(id string) bool {
	for _, s := range g.snaps {
		for _, v := range s.conf {
			if volumeID(v) == id {
				return true
			}
		}
	}
	return false
}
