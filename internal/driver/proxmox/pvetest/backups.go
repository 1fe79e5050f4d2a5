package pvetest

import (
	"bytes"
	"fmt"
	"maps"
	"sort"
	"strconv"
	"strings"
	"time"
)

// vzdump backs a guest up into one volume. Then it prunes the guest's oldest backups on the
// storage that the retention does not keep. With remove=0 it prunes nothing, and refuses if the
// retention leaves no room for another backup.
func vzdump(c *Cluster, r call) (any, *refusal) {
	vmid := r.vmid()
	g := c.guests[vmid]
	if g == nil || g.node != r.v["node"] {
		return nil, die("unable to find VM '%s'", r.v["vmid"])
	}
	s := c.storages[orElse(r.v["storage"], "local")]
	if s == nil || !strings.Contains(s.Content, "backup") {
		return nil, die("storage '%s' does not support backups", r.v["storage"])
	}
	busy, unlock := g.lockFor("backup")
	return c.fork(g.node, "vzdump", r.v["vmid"], func() *refusal {
		remove := !r.has("remove") || r.flag("remove")
		keep := s.keeps(r.v["prune-backups"])
		if busy != nil {
			return jobErrors(fmt.Sprintf("ERROR: Backup of VM %d failed - %s", g.vmid, busy.reason))
		}
		if !remove && keep > 0 && !r.flag("protected") && len(c.prunable(g, s)) >= keep {
			return jobErrors(fmt.Sprintf("ERROR: Backup of VM %d failed - There is a max backup limit of %d enforced by the "+
				"target storage or the vzdump parameters.", g.vmid, keep))
		}
		c.backUp(g, s, r)
		if remove {
			c.prune(g, s, keep)
		}
		return nil
	}, unlock), nil
}

func (c *Cluster) backUp(g *guest, s *Storage, r call) {
	conf := maps.Clone(g.conf)
	for k := range conf {
		if k == "lock" || k == "parent" || unusedKey.MatchString(k) {
			delete(conf, k)
		}
	}
	suffix := map[string]string{"zstd": ".zst", "gzip": ".gz", "1": ".gz", "lzo": ".lzo"}[r.v["compress"]]
	kind, format := "vma", "vma"
	if g.kind == "lxc" {
		kind, format = "tar", "tar"
	}
	at := time.Unix(c.tick(), 0).UTC()
	id := fmt.Sprintf("%s:backup/vzdump-%s-%d-%s.%s%s", s.Name, g.kind, g.vmid, at.Format("2006_01_02-15_04_05"), kind, suffix)
	a := &archive{kind: g.kind, conf: conf, data: map[string][]byte{}}
	total := int64(0)
	for _, key := range g.disks() {
		if v := c.volumes[volumeID(g.conf[key])]; v != nil && inBackup(key, g.conf[key]) {
			a.data[key] = bytes.Clone(v.Data)
			total += int64(len(v.Data)) + 1<<10
		}
	}
	c.volumes[id] = &Volume{ID: id, Storage: s.Name, VMID: g.vmid, Size: total, Format: format + suffix, Content: "backup",
		CTime: at.Unix(), Notes: strings.NewReplacer("{{guestname}}", g.name(), "{{vmid}}", strconv.Itoa(g.vmid),
			"{{node}}", g.node).Replace(r.v["notes-template"]), Protected: r.flag("protected"), archive: a}
}

// inBackup reports whether a backup has a disk. A mount point has to say so, and every other disk but a container's root can say that it has not.
func inBackup(key, value string) bool {
	if mountKey.MatchString(key) {
		return key == "rootfs" || property(value, "backup") == "1"
	}
	return property(value, "backup") != "0"
}

// extractConfig answers with the configuration in a backup, as its file has it.
func extractConfig(c *Cluster, r call) (any, *refusal) {
	v := c.volumes[r.v["volume"]]
	if v == nil || v.Content != "backup" {
		return nil, die("volume '%s' does not exist", r.v["volume"])
	}
	if v.archive == nil {
		return nil, die("command 'vma config' failed: exit code 1")
	}
	return v.archive.file(), nil
}

// file is the configuration file of a guest without its snapshots. The description is at its beginning, with escapes for control
// characters, the colon and the percent sign. A machine's file ends with lines of vzdump's own.
func (a *archive) file() string {
	var b strings.Builder
	if text := a.conf["description"]; text != "" {
		escape := strings.NewReplacer("%", "%25", ":", "%3A", "\t", "%09")
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("#" + escape.Replace(line) + "\n")
		}
	}
	for _, k := range sortedKeys(a.conf) {
		if k != "description" {
			fmt.Fprintf(&b, "%s: %s\n", k, a.conf[k])
		}
	}
	for _, k := range sortedKeys(a.data) {
		if a.kind == "qemu" {
			fmt.Fprintf(&b, "#qmdump#map:%s:drive-%s:%s:raw:\n", k, k, strings.SplitN(a.conf[k], ":", 2)[0])
		}
	}
	return b.String()
}

// jobErrors is the error of a failed backup. Only the log has the reason.
func jobErrors(line string) *refusal { return &refusal{reason: "job errors", log: line} }

// keeps is how many backups of a guest a retention keeps; 0 means all.
func (s *Storage) keeps(asked string) int {
	if property(asked, "keep-all") == "1" {
		return 0
	}
	if n, err := strconv.Atoi(property(asked, "keep-last")); err == nil {
		return n
	}
	return s.KeepLast
}

// prunable are the backups of a guest on a storage, the youngest first. A protected backup is
// neither pruned nor counted.
func (c *Cluster) prunable(g *guest, s *Storage) []*Volume {
	var out []*Volume
	for _, v := range c.volumes {
		if v.Storage == s.Name && v.VMID == g.vmid && v.Content == "backup" && !v.Protected &&
			strings.Contains(v.ID, "vzdump-"+g.kind+"-") {
			out = append(out, v)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].CTime > out[j].CTime })
	return out
}

// guestRestore makes a guest from a backup. With force it overwrites an existing guest.
func guestRestore(c *Cluster, r call) (any, *refusal) {
	kind, vmid := r.kind(), r.vmid()
	what := "unable to restore " + title(kind, vmid)
	from := c.volumes[orElse(r.v["archive"], r.v["ostemplate"])]
	if from == nil || from.archive == nil || from.archive.kind != kind {
		return nil, die("%s - volume '%s' does not exist", what, orElse(r.v["archive"], r.v["ostemplate"]))
	}
	for k := range r.v {
		if kind == "qemu" && driveKey.MatchString(k) {
			return nil, invalid(k, "option conflicts with option 'archive'")
		}
	}
	if kind == "lxc" {
		if refused := c.rootStorage(r); refused != nil {
			return nil, refused
		}
	}
	g := c.guests[vmid]
	if g != nil && (!r.flag("force") || g.kind != kind || g.node != r.v["node"]) {
		return nil, die("%s - %s already exists on node '%s'", what, title(g.kind, vmid), g.node)
	}
	if g == nil {
		g = newGuest(kind, vmid, r.v["node"])
		c.guests[vmid] = g
	} else if refused := c.overwritable(g, what); refused != nil {
		return nil, refused
	}
	busy, unlock := g.lockFor("create")
	return c.fork(g.node, g.work("restore"), r.v["vmid"], func() *refusal {
		gone := c.gone(g)
		switch {
		case busy != nil:
			return busy
		case gone != nil:
			return gone
		case g.running:
			return die("%s - vm is running", what)
		}
		if refused := g.checkProtection(what + " -"); refused != nil {
			return refused
		}
		for id := range g.volumes() {
			if refused := c.unbased(id); refused != nil {
				return refused
			}
		}
		if refused := c.restore(g, from, r); refused != nil {
			return refused
		}
		delete(g.conf, "lock")
		if r.flag("start") {
			return c.start(g)
		}
		return nil
	}, unlock), nil
}

// overwritable refuses a restore before its task begins.
func (c *Cluster) overwritable(g *guest, what string) *refusal {
	if refused := g.checkLock(); refused != nil {
		return die("%s - %s", what, refused.reason)
	}
	if g.kind == "qemu" {
		return nil // the task itself checks if the guest runs or is protected
	}
	if g.running {
		return die("can't overwrite running container")
	}
	return g.checkProtection(what)
}

// restore gives a guest the content of the backup. It destroys and makes again the disks that
// the backup has. Other disks of a virtual machine become unused, and other disks of a
// container are destroyed. A container's mount point without data in the backup is made anew and empty. Snapshots are gone. The UUID is the backup's, unless the request
// asks for unique, and the generation is new.
func (c *Cluster) restore(g *guest, from *Volume, r call) *refusal {
	a, old := from.archive, maps.Clone(g.conf)
	kept := c.destroyOld(g, a)
	g.conf, g.snaps = map[string]string{"lock": old["lock"]}, nil
	clear(g.pending)
	clear(g.drop)
	for _, k := range sortedKeys(a.conf) {
		data, isDisk := a.data[k]
		empty := mountKey.MatchString(k) && !strings.HasPrefix(volumeID(a.conf[k]), "/")
		switch {
		case !isDisk && driveKey.MatchString(k) && !inBackup(k, a.conf[k]):
			continue // Proxmox VE makes a comment of it
		case !isDisk && !empty:
			g.conf[k] = a.conf[k]
			continue
		}
		size, _ := bytesOf(property(a.conf[k], "size"))
		storage, _, _ := strings.Cut(volumeID(a.conf[k]), ":")
		if g.kind == "lxc" {
			storage = "local" // not the old storage
		}
		v, refused := c.allocate(orElse(r.v["storage"], storage), g, size, "")
		if refused != nil {
			return refused
		}
		v.Data = bytes.Clone(data)
		g.conf[k] = replaceVolume(a.conf[k], v.ID)
	}
	for _, id := range kept {
		g.setUnused(id)
	}
	for k, v := range settings(r.endpoint, r.v) {
		g.conf[k] = v
	}
	c.refresh(g, r.flag("unique"))
	return nil
}

// refresh makes the new values of a restored guest.
func (c *Cluster) refresh(g *guest, unique bool) {
	if v := g.conf["vmgenid"]; v != "" && v != "0" {
		g.conf["vmgenid"] = c.uuid()
	}
	if !unique {
		return
	}
	for k, v := range g.conf {
		if strings.HasPrefix(k, "net") {
			g.conf[k] = c.newAddress(g.kind, v)
		}
	}
	if g.kind == "qemu" {
		g.conf["smbios1"] = "uuid=" + c.uuid()
	}
}

// destroyOld destroys the disks that a restore makes again, and returns the others.
func (c *Cluster) destroyOld(g *guest, a *archive) []string {
	var kept []string
	if g.kind == "lxc" {
		for id := range g.volumes() {
			delete(c.volumes, id)
		}
		return nil
	}
	for _, s := range g.snaps {
		delete(c.volumes, s.conf["vmstate"])
	}
	for _, k := range sortedKeys(g.conf) {
		if _, again := a.data[k]; again {
			delete(c.volumes, volumeID(g.conf[k]))
		} else if g.isDisk(k) || unusedKey.MatchString(k) {
			kept = append(kept, volumeID(g.conf[k]))
		}
	}
	return kept
}
