package pvetest

import "fmt"

// replicationJob copies the disks of a guest to another node. No job ever runs here.
type replicationJob struct {
	id     string
	vmid   int
	target string
	remove string // "local" or "full", if the next run removes the job
}

// Replicate gives a guest a replication job to a node without the API, and returns the job's id.
func (c *Cluster) Replicate(vmid int, target string) (id string) {
	c.with(vmid, func(*guest) {
		id = fmt.Sprintf("%d-%d", vmid, len(c.jobs))
		c.jobs = append(c.jobs, replicationJob{id: id, vmid: vmid, target: target})
	})
	return id
}

// MarkReplication marks all replication jobs for removal, as pvesr delete does: "full" with their copies, or "local" without.
func (c *Cluster) MarkReplication(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.jobs {
		c.jobs[i].remove = how
	}
}

// EndReplication removes all replication jobs without the API, as if each had run a last time.
func (c *Cluster) EndReplication() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = nil
}

// replication lists the jobs of guests that the token sees.
func replication(c *Cluster, _ call) (any, *refusal) {
	rows := []any{}
	for _, j := range c.jobs {
		if g := c.guests[j.vmid]; c.privileges["VM.Audit"] && (g == nil || !g.hidden) {
			row := map[string]any{"id": j.id, "type": "local", "guest": j.vmid, "jobnum": 0, "target": j.target}
			if j.remove != "" {
				row["remove_job"] = j.remove
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// unnamed refuses to destroy a guest that the HA manager has, or a replication job, unless the request purges it from both.
func (c *Cluster) unnamed(g *guest, purge bool) *refusal {
	if purge {
		return nil
	}
	if g.ha {
		return die("unable to remove %s - used in HA resources and purge parameter not set.", title(g.kind, g.vmid))
	}
	for _, j := range c.jobs {
		if j.vmid == g.vmid {
			return die("There is a replication job '%s' for guest '%d' - Please remove that first.", j.id, g.vmid)
		}
	}
	return nil
}
