package pvetest

import (
	"fmt"
	"strconv"
	"strings"
)

func configGet(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	conf := g.effective()
	if name, ok := r.v["snapshot"]; ok {
		s := g.snap(name)
		if s == nil {
			return nil, die("snapshot '%s' does not exist", name)
		}
		conf = s.conf
	} else if r.flag("current") {
		conf = g.conf
	}
	out := typed(g.kind, conf)
	out["digest"] = g.digest()
	return out, nil
}

// typed gives a configuration its types. In an answer, integers and booleans are numbers and
// all else is a string. A virtual machine's memory is a string too, because it is a property
// string.
func typed(kind string, conf map[string]string) map[string]any {
	e, _, _ := loaded().find("POST", "/nodes/x/"+kind)
	out := map[string]any{}
	for k, v := range conf {
		out[k] = v
		p, _ := e.paramOf(k)
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && (p.Type == "integer" || p.Type == "boolean") {
			out[k] = n
		}
		if kind == "lxc" && k == "description" {
			out[k] = v + "\n"
		}
	}
	return out
}

// change is a request to change a configuration.
type change struct {
	set    map[string]string
	delete []string
	revert []string
	force  bool // destroy detached disks too
	digest string
}

var listSeparators = strings.NewReplacer(",", " ", ";", " ")

func splitList(s string) []string { return strings.Fields(listSeparators.Replace(s)) }

// notConfig are parameters that do not belong to a configuration.
var notConfig = map[string]bool{"node": true, "vmid": true, "digest": true, "delete": true, "revert": true, "force": true,
	"skiplock": true, "background_delay": true, "archive": true, "storage": true, "unique": true, "start": true,
	"pool": true, "bwlimit": true, "live-restore": true, "restore": true, "ostemplate": true, "password": true,
	"ignore-unpack-errors": true, "import-working-storage": true}

func settings(e endpoint, values map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range values {
		if notConfig[k] {
			continue
		}
		if p, _ := e.paramOf(k); p.Type == "boolean" {
			v = map[bool]string{true: "1", false: "0"}[call{v: values}.flag(k)]
		}
		out[k] = strings.TrimRight(v, "\n")
	}
	return out
}

func configSet(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	ch := change{set: settings(r.endpoint, r.v), delete: splitList(r.v["delete"]), revert: splitList(r.v["revert"]),
		force: r.flag("force"), digest: r.v["digest"]}
	if refused := c.admissible(g, r, ch); refused != nil {
		return nil, refused
	}
	if r.Method == "PUT" {
		return nil, c.update(g, ch)
	}
	upid := c.forkOn(g, "qmconfig", func(g *guest) *refusal {
		if refused := c.precheck(g, ch); refused != nil {
			return refused
		}
		return c.update(g, ch)
	})
	t := c.tasks[upid]
	if !r.has("background_delay") || t.status == "" {
		return upid, nil
	}
	if t.status != "OK" {
		return nil, die("failed to update VM %d: %s", g.vmid, t.status)
	}
	return nil, nil
}

// admissible refuses a change that makes no sense, before it changes anything.
func (c *Cluster) admissible(g *guest, r call, ch change) *refusal {
	if len(ch.set)+len(ch.delete)+len(ch.revert) == 0 {
		return die("no options specified")
	}
	for _, k := range ch.delete {
		if _, both := ch.set[k]; both {
			return invalid("delete", "you can't use '-"+k+"' and -delete "+k+"' at the same time")
		}
		if _, known := r.paramOf(k); !known || notConfig[k] {
			c.violations = append(c.violations, r.Method+" "+r.Path+": delete="+k+": no such option")
			return invalid("delete", "unknown option '"+k+"'")
		}
	}
	return c.precheck(g, ch)
}

func (c *Cluster) precheck(g *guest, ch change) *refusal {
	stale := ch.digest != "" && ch.digest != g.digest()
	if g.kind == "qemu" {
		if stale {
			return die("checksum mismatch (file change by other user?)")
		}
		return g.checkLock()
	}
	if refused := g.checkLock(); refused != nil {
		return refused
	}
	if stale {
		return die(modified)
	}
	return g.allowed(ch)
}

// modified is the answer to a stale digest, except for a virtual machine's configuration.
const modified = "detected modified configuration - file changed by other user? Try again."

// allowed refuses changes that a container does not allow, before it changes anything. A
// protected container allows no change of disks.
func (g *guest) allowed(ch change) *refusal {
	for _, k := range ch.delete {
		switch {
		case k == "memory", k == "rootfs", k == "ostype":
			return die("unable to delete required option '%s'", k)
		case k == "unprivileged":
			return die("unable to delete read-only option: '%s'", k)
		case mountKey.MatchString(k), unusedKey.MatchString(k):
			if refused := g.checkProtection(fmt.Sprintf("can't remove CT %d drive '%s'", g.vmid, k)); refused != nil {
				return refused
			}
		}
	}
	for k := range ch.set {
		if mountKey.MatchString(k) {
			if refused := g.checkProtection(fmt.Sprintf("can't update CT %d drive '%s'", g.vmid, k)); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// update makes the change. It first deletes options, one after the other, and then sets
// options. Changes before a refusal stay.
func (c *Cluster) update(g *guest, ch change) *refusal {
	c.tick()
	for _, k := range ch.revert {
		delete(g.pending, k)
		delete(g.drop, k)
	}
	for _, k := range ch.delete {
		if refused := c.remove(g, k, ch.force); refused != nil {
			return refused
		}
	}
	for _, k := range sortedKeys(ch.set) {
		if refused := c.assign(g, k, ch.set[k]); refused != nil {
			return refused
		}
	}
	return nil
}

// remove removes an option. A disk becomes unused, or with force is destroyed. An unused disk
// is destroyed.
func (c *Cluster) remove(g *guest, key string, force bool) *refusal {
	value, there := g.effective()[key]
	if !there {
		return nil
	}
	switch {
	case unusedKey.MatchString(key):
		if refused := g.checkProtection("can't remove unused disk '" + volumeID(value) + "'"); refused != nil {
			return refused
		}
		if refused := c.free(g, volumeID(value)); refused != nil {
			return refused
		}
		delete(g.conf, key)
		return nil
	case g.isDisk(key):
		return c.detach(g, key, value, force)
	}
	delete(g.pending, key)
	if g.running && !hotplugged(g.kind, key) {
		g.drop[key] = force
		return nil
	}
	delete(g.conf, key)
	return nil
}

func (c *Cluster) detach(g *guest, key, value string, force bool) *refusal {
	if refused := g.checkProtection("can't remove drive '" + key + "'"); refused != nil {
		return refused
	}
	if g.running && g.kind == "lxc" {
		g.drop[key] = force
		return nil
	}
	delete(g.conf, key)
	return c.release(g, volumeID(value), force)
}

// release handles a volume that no disk names any more.
func (c *Cluster) release(g *guest, id string, force bool) *refusal {
	v := c.volumes[id]
	if v == nil || v.VMID != g.vmid {
		return nil
	}
	if force && !g.inSnapshot(id) {
		return c.free(g, id)
	}
	g.setUnused(id)
	return nil
}

// free destroys a volume of the guest.
func (c *Cluster) free(g *guest, id string) *refusal {
	if g.inSnapshot(id) {
		return die("unable to delete '%s' - volume is still in use (snapshot?)", id)
	}
	if v := c.volumes[id]; v != nil && v.VMID == g.vmid {
		if refused := c.unbased(id); refused != nil {
			return refused
		}
		delete(c.volumes, id)
	}
	return nil
}

// assign sets an option. A running guest gets some options only at its next start.
func (c *Cluster) assign(g *guest, key, value string) *refusal {
	value, refused := c.prepare(g, key, value)
	if refused != nil {
		return refused
	}
	delete(g.drop, key)
	if g.running && !hotplugged(g.kind, key) {
		delete(g.pending, key)
		if g.conf[key] != value {
			g.pending[key] = value
		}
		return nil
	}
	old := g.conf[key]
	g.conf[key] = value
	if old != "" && driveOrMount(g, key) && volumeID(old) != volumeID(value) {
		return c.release(g, volumeID(old), false)
	}
	return nil
}

func driveOrMount(g *guest, key string) bool { return g.isDisk(key) && key != "rootfs" }

// prepare turns a value into the stored one: it makes volumes and gives networks an address.
func (c *Cluster) prepare(g *guest, key, value string) (string, *refusal) {
	switch {
	case unusedKey.MatchString(key), strings.Contains(value, "media=cdrom"):
		return value, nil
	case driveKey.MatchString(key), mountKey.MatchString(key):
		value, refused := c.attach(g, key, value)
		if refused == nil {
			g.used(volumeID(value))
		}
		return value, refused
	case strings.HasPrefix(key, "net"):
		return c.network(g.kind, value), nil
	case key == "vmgenid" && value == "1":
		return c.uuid(), nil
	}
	return value, nil
}

// used removes a volume from the unused entries, because it is attached again.
func (g *guest) used(id string) {
	for k, v := range g.conf {
		if unusedKey.MatchString(k) && v == id {
			delete(g.conf, k)
		}
	}
}

// network gives a network an address if it has none.
func (c *Cluster) network(kind, value string) string {
	if kind == "lxc" {
		if property(value, "hwaddr") == "" {
			value += ",hwaddr=" + c.mac()
		}
		if property(value, "type") == "" {
			value += ",type=veth"
		}
		return value
	}
	model, rest, _ := strings.Cut(value, ",")
	if !strings.Contains(model, "=") {
		model += "=" + c.mac()
	}
	if rest == "" {
		return model
	}
	return model + "," + rest
}
