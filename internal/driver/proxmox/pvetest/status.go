package pvetest

import (
	"sort"
	"strconv"
	"strings"
)

// sorted are the guests by vmid.
func (c *Cluster) sorted() []*guest {
	out := make([]*guest, 0, len(c.guests))
	for _, g := range c.guests {
		out = append(out, g)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].vmid < out[j].vmid })
	return out
}

func guestList(c *Cluster, r call) (any, *refusal) {
	rows := []any{}
	for _, g := range c.sorted() {
		if g.kind == r.kind() && g.node == r.v["node"] && c.privileges["VM.Audit"] {
			rows = append(rows, c.statusRow(g))
		}
	}
	return rows, nil
}

// statusRow is the part that the lists and the current status share. Memory and disks are in
// bytes; the configuration has MiB and G.
func (c *Cluster) statusRow(g *guest) map[string]any {
	row := map[string]any{"vmid": g.vmid, "name": g.name(), "status": "stopped", "uptime": 0, "cpu": 0, "mem": 0,
		"cpus": g.cpus(), "maxmem": g.memory() << 20, "disk": 0, "maxdisk": c.bootSize(g),
		"netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0}
	if g.kind == "lxc" {
		row["type"], row["swap"], row["maxswap"] = "lxc", 0, int64(g.number("swap", 512))<<20
	}
	if g.running {
		row["status"], row["uptime"], row["mem"] = "running", c.clock-g.since+1, g.holds<<20
		row["pid"] = 4000 + g.vmid
	}
	for _, k := range []string{"tags", "lock"} {
		if v := g.conf[k]; v != "" {
			row[k] = v
		}
	}
	if g.conf["template"] == "1" {
		row["template"] = 1
	}
	return row
}

func statusCurrent(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	row := c.statusRow(g)
	ha := map[string]any{"managed": 0}
	if g.ha {
		ha = map[string]any{"managed": 1, "state": "started"}
	}
	row["ha"] = ha
	if g.kind == "qemu" {
		row["qmpstatus"] = row["status"]
	}
	return row, nil
}

func (g *guest) number(key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(g.conf[key], 10, 64); err == nil {
		return n
	}
	return otherwise
}

// memory is in MiB. Without a value, both kinds have 512.
func (g *guest) memory() int64 {
	text, _, _ := strings.Cut(strings.TrimPrefix(g.conf["memory"], "current="), ",")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return 512
}

func (g *guest) cpus() int64 {
	if g.kind == "lxc" {
		return g.number("cores", 8)
	}
	return g.number("vcpus", g.number("sockets", 1)*g.number("cores", 1))
}

// bootSize is the size of the first disk, in bytes.
func (c *Cluster) bootSize(g *guest) int64 {
	for _, key := range g.disks() {
		if v := c.volumes[volumeID(g.conf[key])]; v != nil {
			return v.Size
		}
	}
	return 0
}

// work is the name of a worker: "qmstart", "vzstart".
func (g *guest) work(verb string) string {
	if g.kind == "lxc" {
		return "vz" + verb
	}
	return "qm" + verb
}

func guestStart(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if g.kind == "lxc" && g.running {
		return nil, die("CT %d already running", g.vmid)
	}
	return c.forkOn(g, g.work("start"), c.start), nil
}

func (c *Cluster) start(g *guest) *refusal {
	if refused := g.checkLock(); refused != nil {
		return refused
	}
	if g.conf["template"] == "1" {
		return die("you can't start a vm if it's a template")
	}
	if g.running {
		return die("VM %d already running", g.vmid)
	}
	c.applyPending(g)
	g.running, g.since = true, c.clock
	return nil
}

func (c *Cluster) halt(g *guest) {
	g.running = false
	c.applyPending(g)
}

func guestStop(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if g.kind == "lxc" && !g.running {
		return nil, die("CT %d not running", g.vmid)
	}
	return c.forkOn(g, g.work("stop"), func(g *guest) *refusal {
		if refused := g.checkLock(); refused != nil {
			return refused
		}
		c.halt(g)
		return nil
	}), nil
}

func guestShutdown(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if g.kind == "lxc" && !g.running {
		return nil, die("CT %d not running", g.vmid)
	}
	return c.forkOn(g, g.work("shutdown"), func(g *guest) *refusal {
		if refused := g.checkLock(); refused != nil {
			return refused
		}
		if g.running && g.deaf && !r.flag("forceStop") {
			return die("VM quit/powerdown failed - got timeout")
		}
		c.halt(g)
		return nil
	}), nil
}

func guestReboot(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	if !g.running {
		return nil, die("VM %d not running", g.vmid)
	}
	return c.forkOn(g, g.work("reboot"), func(g *guest) *refusal {
		if refused := g.checkLock(); refused != nil {
			return refused
		}
		if g.deaf {
			return die("VM quit/powerdown failed - got timeout")
		}
		c.halt(g)
		return c.start(g)
	}), nil
}
