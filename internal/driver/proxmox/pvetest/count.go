package pvetest

import "strings"

// Counts is the number of requests that the server answered, by kind.
type Counts struct {
	List   int // GET of many guests at once: /cluster/resources, /nodes/{node}/qemu, /nodes, content of a storage
	Detail int // GET of one guest: its config, status, snapshots, pending, what a backup has
	Task   int // GET of a task
	Change int // all methods except GET
	Other  int // every other GET: the version, permissions, the next id
}

// Counts counts the requests since the start of the cluster or the last ResetCounts.
func (c *Cluster) Counts() Counts {
	var out Counts
	for _, r := range c.Requests() {
		switch {
		case r.Method != "GET":
			out.Change++
		case strings.Contains(r.Path, "{vmid}"), strings.HasSuffix(r.Path, "/extractconfig"):
			out.Detail++
		case strings.Contains(r.Path, "{upid}"):
			out.Task++
		case r.Path == "/version", r.Path == "/access/permissions", r.Path == "/cluster/nextid":
			out.Other++
		default:
			out.List++
		}
	}
	return out
}

// Requests are the requests that followed the schema, in order, also those that met a fault.
func (c *Cluster) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Request(nil), c.requests...)
}

// ResetCounts forgets the requests so far.
func (c *Cluster) ResetCounts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = nil
}
