package pvetest

func (c *Cluster) storageRows() []any {
	rows := []any{}
	for _, n := range c.nodes {
		for _, name := range sortedKeys(c.storages) {
			s := c.storages[name]
			rows = append(rows, map[string]any{"id": "storage/" + n.name + "/" + name, "type": "storage",
				"storage": name, "node": n.name, "status": "available", "plugintype": s.Type,
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
