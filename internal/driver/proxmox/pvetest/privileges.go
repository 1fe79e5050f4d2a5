package pvetest

import "strings"

// Revoke takes privileges from the token ("VM.Allocate").
func (c *Cluster) Revoke(privileges ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range privileges {
		delete(c.privileges, p)
	}
}

// Narrow makes the permissions say that the token has its privileges on "/" alone, and not
// below it.
func (c *Cluster) Narrow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.narrow = true
}

// permit refuses a request if the token lacks its privilege. A privilege holds for everything
// or not at all.
func (c *Cluster) permit(r call) *refusal {
	if g := c.guests[r.vmid()]; g != nil && g.hidden && strings.Contains(r.Path, "{vmid}") {
		return &refusal{status: 403, reason: "Permission check failed (/vms/" + r.v["vmid"] + ", VM.Audit)"}
	}
	for _, need := range needs(r) {
		if c.privileges[need] {
			continue
		}
		path := "/"
		switch {
		case strings.HasPrefix(need, "Datastore."):
			path = "/storage/" + r.v["storage"]
		case strings.HasPrefix(need, "VM."):
			path = "/vms/" + r.v["vmid"]
		}
		return &refusal{status: 403, reason: "Permission check failed (" + path + ", " + need + ")"}
	}
	return nil
}

// byEnd are the privileges of requests, by the end of their template.
var byEnd = []struct {
	method, end string
	needs       []string
}{
	{"POST", "/qemu", []string{"VM.Allocate"}},
	{"POST", "/lxc", []string{"VM.Allocate"}},
	{"POST", "/vzdump", []string{"VM.Backup", "Datastore.AllocateSpace"}},
	{"GET", "/vzdump/extractconfig", []string{"VM.Backup", "Datastore.AllocateSpace"}},
	{"POST", "/clone", []string{"VM.Clone", "VM.Allocate", "Datastore.AllocateSpace"}},
	{"POST", "/template", []string{"VM.Allocate"}},
	{"POST", "/rollback", []string{"VM.Snapshot.Rollback"}},
	{"POST", "/snapshot", []string{"VM.Snapshot"}},
	{"DELETE", "/snapshot/{snapname}", []string{"VM.Snapshot"}},
	{"PUT", "/resize", []string{"VM.Config.Disk", "Datastore.AllocateSpace"}},
	{"PUT", "/unlink", []string{"VM.Config.Disk"}},
	{"POST", "/move_disk", []string{"VM.Config.Disk", "Datastore.AllocateSpace"}},
	{"POST", "/move_volume", []string{"VM.Config.Disk", "Datastore.AllocateSpace"}},
	{"DELETE", "/qemu/{vmid}", []string{"VM.Allocate"}},
	{"DELETE", "/lxc/{vmid}", []string{"VM.Allocate"}},
	{"DELETE", "/content/{volume}", []string{"Datastore.AllocateSpace"}},
	{"PUT", "/content/{volume}", []string{"Datastore.Allocate"}},
}

func needs(r call) []string {
	var out []string
	for _, x := range byEnd {
		if r.Method == x.method && strings.HasSuffix(r.Path, x.end) {
			out = x.needs
		}
	}
	switch {
	case r.Method == "GET" && strings.Contains(r.Path, "{storage}"):
		return []string{"Datastore.Audit"}
	case r.Method == "GET" && strings.Contains(r.Path, "{vmid}"):
		return []string{"VM.Audit"}
	case strings.Contains(r.Path, "/status/"):
		return []string{"VM.PowerMgmt"}
	case strings.HasSuffix(r.Path, "/config"), r.Method == "POST" && out != nil && !strings.Contains(r.Path, "{vmid}"):
		return append(append([]string(nil), out...), ofOptions(r)...)
	}
	return out
}

// ofOptions are the privileges to set or delete options of a configuration.
func ofOptions(r call) []string {
	var out []string
	keys := splitList(r.v["delete"])
	for _, k := range sortedKeys(r.v) {
		if !notConfig[k] {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		out = append(out, ofOption(k, r.v[k])...)
	}
	return out
}

func ofOption(key, value string) []string {
	switch {
	case strings.Contains(value, "media=cdrom"):
		return []string{"VM.Config.CDROM"}
	case driveKey.MatchString(key), mountKey.MatchString(key), unusedKey.MatchString(key):
		if newDisk.MatchString(volumeID(value)) {
			return []string{"VM.Config.Disk", "Datastore.AllocateSpace"}
		}
		return []string{"VM.Config.Disk"}
	case strings.HasPrefix(key, "net"):
		return []string{"VM.Config.Network", "SDN.Use"}
	}
	switch key {
	case "storage", "mode", "compress", "remove", "notes-template", "protected", "prune-backups":
		return nil
	case "memory", "balloon", "swap":
		return []string{"VM.Config.Memory"}
	case "cores", "sockets", "vcpus", "cpu", "cpulimit", "cpuunits":
		return []string{"VM.Config.CPU"}
	case "scsihw", "machine", "smbios1", "vmgenid", "hotplug", "acpi":
		return []string{"VM.Config.HWType"}
	case "ciuser", "cipassword", "sshkeys":
		return []string{"VM.Config.Cloudinit"}
	case "hostname":
		return []string{"VM.Config.Network"}
	}
	return []string{"VM.Config.Options"}
}
