package pvetest

import "strings"

// hotplugged reports whether a running guest accepts a change of the option at once. Some
// options belong to every guest.
func hotplugged(kind, key string) bool {
	switch key {
	case "name", "description", "tags", "protection", "onboot", "startup", "lock":
		return true
	case "hostname", "memory", "swap", "cores", "cpulimit", "cpuunits":
		return kind == "lxc"
	}
	return unusedKey.MatchString(key) || strings.HasPrefix(key, "net") || mountKey.MatchString(key) ||
		kind == "qemu" && driveKey.MatchString(key) && !strings.HasPrefix(key, "ide") && !strings.HasPrefix(key, "sata")
}

// applyPending makes pending values current, as a start does.
func (c *Cluster) applyPending(g *guest) {
	for _, k := range sortedKeys(g.drop) {
		value := g.conf[k]
		force := g.drop[k]
		disk := g.isDisk(k)
		delete(g.conf, k)
		if disk {
			_ = c.release(g, volumeID(value), force)
		}
	}
	for _, k := range sortedKeys(g.pending) {
		old, value := g.conf[k], g.pending[k]
		g.conf[k] = value
		if old != "" && driveOrMount(g, k) && volumeID(old) != volumeID(value) {
			_ = c.release(g, volumeID(old), false)
		}
	}
	clear(g.pending)
	clear(g.drop)
}

func pendingList(c *Cluster, r call) (any, *refusal) {
	g, refused := c.guestOf(r)
	if refused != nil {
		return nil, refused
	}
	now := typed(g.kind, g.conf)
	later := typed(g.kind, g.pending)
	rows := []any{}
	for _, k := range sortedKeys(now) {
		row := map[string]any{"key": k, "value": now[k]}
		if v, ok := later[k]; ok {
			row["pending"] = v
		}
		if force, ok := g.drop[k]; ok {
			row["delete"] = 1 + flagOf(force)
		}
		rows = append(rows, row)
	}
	for _, k := range sortedKeys(later) {
		if _, ok := now[k]; !ok {
			rows = append(rows, map[string]any{"key": k, "pending": later[k]})
		}
	}
	return append(rows, map[string]any{"key": "digest", "value": g.digest()}), nil
}
