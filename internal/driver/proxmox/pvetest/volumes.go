package pvetest

import (
	"math"
	"strconv"
	"strings"
)

// bytesOf reads a request's size in bytes, "+4G" or "512M". A number alone is in bytes.
func bytesOf(s string) (n int64, relative bool) {
	s, relative = strings.CutPrefix(s, "+")
	unit := float64(1)
	if i := strings.IndexAny(s, "KMGT"); i > 0 {
		unit = map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}[s[i]]
		s = s[:i]
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, relative
	}
	return int64(math.Round(f * unit)), relative
}

// guestResize grows a disk, and never shrinks one.
func guestResize(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	check := func(g *guest) (*Volume, int64, *refusal) {
		if d := r.v["digest"]; d != "" && d != g.digest() {
			return nil, 0, die(modified)
		}
		if refused := g.checkLock(); refused != nil {
			return nil, 0, refused
		}
		value, ok := g.conf[r.v["disk"]]
		if !ok {
			return nil, 0, die("disk '%s' does not exist", r.v["disk"])
		}
		v := c.volumes[volumeID(value)]
		if v == nil {
			return nil, 0, die("Could not determine current size of volume '%s'", volumeID(value))
		}
		size, relative := bytesOf(r.v["size"])
		if relative {
			size += v.Size
		}
		if size < v.Size {
			return nil, 0, die("shrinking disks is not supported")
		}
		return v, size, nil
	}
	if _, _, refused := check(g); refused != nil {
		return nil, refused
	}
	return c.forkOn(g, "resize", func(g *guest) *refusal {
		v, size, refused := check(g)
		if refused != nil {
			return refused
		}
		v.Size = size
		g.conf[r.v["disk"]] = withProperty(g.conf[r.v["disk"]], "size", sizeText(size))
		return nil
	}), nil
}

// guestMove copies a disk to another storage. The old volume becomes unused or is destroyed.
// Protection does not prevent it.
func guestMove(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	key := orElse(r.v["disk"], r.v["volume"])
	old := c.volumes[volumeID(g.conf[key])]
	if refused := c.movable(g, r, key, old); refused != nil {
		return nil, refused
	}
	busy, unlock := (*refusal)(nil), func() {}
	if g.kind == "lxc" {
		busy, unlock = g.lockFor("disk")
	}
	worker := map[string]string{"qemu": "qmmove", "lxc": "move_volume"}[g.kind]
	return c.fork(g.node, worker, r.v["vmid"], func() *refusal {
		if busy != nil {
			return busy
		}
		if refused := c.gone(g); refused != nil {
			return refused
		}
		v, refused := c.allocate(r.v["storage"], g, old.Size, r.v["format"])
		if refused != nil {
			return die("storage migration failed: %s", refused.reason)
		}
		v.Data = old.Data
		g.conf[key] = replaceVolume(g.conf[key], v.ID)
		if r.flag("delete") {
			return c.free(g, old.ID)
		}
		g.setUnused(old.ID)
		return nil
	}, unlock), nil
}

func (c *Cluster) movable(g *guest, r call, key string, old *Volume) *refusal {
	if refused := g.checkLock(); refused != nil {
		return refused
	}
	if d := r.v["digest"]; d != "" && d != g.digest() {
		return die(modified)
	}
	switch {
	case r.has("target-vmid"):
		return die("moving to another guest is not simulated")
	case old == nil:
		return die("disk '%s' does not exist", key)
	case old.Storage == r.v["storage"] && (!r.has("format") || r.v["format"] == old.Format):
		return die("you can't move to the same storage with same format")
	case g.inSnapshot(old.ID) && r.flag("delete"):
		return die("you can't move a disk with snapshots and delete the source")
	}
	return nil
}

// guestUnlink is another name of delete in the configuration.
func guestUnlink(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	ch := change{delete: splitList(r.v["idlist"]), force: r.flag("force")}
	if refused := c.precheck(g, ch); refused != nil {
		return nil, refused
	}
	return nil, c.update(g, ch)
}
