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

// permit refuses what the token has no privilege for. Privileges are held for
// everything or not at all.
func (c *Cluster) permit(r call) *refusal {
	need := ""
	switch {
	case !strings.Contains(r.Path, "{vmid}") && !strings.Contains(r.Path, "{storage}"):
		if r.Method == "POST" && !strings.HasSuffix(r.Path, "/vzdump") {
			need = "VM.Allocate"
		}
	case r.Method == "GET":
		need = "VM.Audit"
		if strings.Contains(r.Path, "{storage}") {
			need = "Datastore.Audit"
		}
	case r.Method == "DELETE" && strings.HasSuffix(r.Path, "{vmid}"):
		need = "VM.Allocate"
	case strings.Contains(r.Path, "/status/"):
		need = "VM.PowerMgmt"
	case strings.HasSuffix(r.Path, "/clone"):
		need = "VM.Clone"
	case strings.HasSuffix(r.Path, "/rollback"):
		need = "VM.Snapshot.Rollback"
	case strings.Contains(r.Path, "/snapshot"):
		need = "VM.Snapshot"
	case strings.Contains(r.Path, "/resize"), strings.Contains(r.Path, "/unlink"), strings.Contains(r.Path, "/move_"):
		need = "VM.Config.Disk"
	case strings.HasSuffix(r.Path, "/config"):
		need = "VM.Config.Options"
	}
	if need == "" || c.privileges[need] {
		return nil
	}
	path := "/vms/" + r.v["vmid"]
	if r.has("storage") {
		path = "/storage/" + r.v["storage"]
	}
	return &refusal{status: 403, reason: "Permission check failed (" + path + ", " + need + ")"}
}
